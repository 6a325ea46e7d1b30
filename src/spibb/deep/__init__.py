"""Q-networks trained safely from a log of transitions: the improvement steps on continuous states.

The way of the data: transitions, pseudo-counts, targets by the operators, a population of networks
trained together, a fitted policy that acts. Training needs ``pip install "spibb[deep]"``.
"""

from spibb.lazy_names import read_stub

__all__, __getattr__ = read_stub(__name__, __file__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
