"""Safe policy improvement from logged decisions.

>>> import spibb
>>> log = spibb.Log.from_arrays(state=[0] * 4, action=[0, 0, 1, 1], reward=[1.0, 1.0, 2.0, 2.0],
...                             terminated=[True] * 4, episode=[0, 1, 2, 3])
>>> baseline = spibb.TabularPolicy([[0.5, 0.5]])
>>> result = spibb.PiBSPIBB(n_wedge=2).improve(log, baseline=baseline, gamma=0.9)
>>> result.policy.probabilities
array([[0., 1.]])

Names are loaded when they are first used, so that ``spibb --help`` does not wait for a compiler.
"""

from spibb.lazy_names import read_stub

__version__ = "0.1.0"

__all__, __getattr__ = read_stub(__name__, __file__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
