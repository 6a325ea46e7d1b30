r"""Does what states hide leave a trace over time? Measured with the truth, not with verdicts.

Those who act look at raw columns. Let P_i be the probabilities of their actions given the columns
of row i, which the study knows, and A_i the action that was taken. All are centred within states.

    hidden = sum over i of |P_i|^2 / sum over i of |A_i|^2

is the share of the variance of actions that the present columns explain beyond the state, and thus
what the state hides of how they act. Let ``past`` be the share that columns of the past explain
(:mod:`spibb.representation.joint_dependence`). Then ``past / hidden`` is how much of the hidden
part can be predicted from the past. Hidden causes that last for several steps leave much of
themselves there; causes of one step, or causes that actions take back at once, leave nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.data.log import Log
from spibb.representation.memory import find_memory
from spibb.studies.representations.encoding import Columns
from spibb.studies.representations.simulator import Representation, Simulator, simulate_log

# The least share of the hidden part that the past must show. Fixed before the judging half was
# measured: on the development half decisions of one step have 0, other inadequate states .13 to .8.
LEAST_TRACE = 0.1
_SEED = 77
# Numbers, evenly spread over (0, 1), by which the probabilities of the behaviour are read.
_N_UNIFORM = 40
_ROUNDING = 1e-9


class Trace(NamedTuple):
    """What states hide of how people act, as shares of the variance of actions within states.

    Attributes:
        hidden: Explained by what those who act look at, and states do not hold.
        past: Explained by the recorded past of states, actions and rewards.
    """

    hidden: float
    past: float

    @property
    def share(self) -> float:
        """How much of the hidden part the past shows."""
        return self.past / self.hidden if self.hidden > _ROUNDING else 0.0

    @property
    def is_left(self) -> bool:
        """Whether the hidden part leaves a trace over time."""
        return self.share >= LEAST_TRACE


@lru_cache(maxsize=64)
def find_trace(simulator: Simulator, states: Representation) -> Trace:
    """Measure the trace on one large log."""
    rng = np.random.default_rng(_SEED)
    log, columns = simulate_log(simulator, states, simulator.sizes[-1], rng)
    memory = find_memory(log, simulator.gamma)
    past = 0.0 if memory is None else max(memory.together.share, 0.0)
    taken = np.eye(log.n_actions)[log.action]
    known = _spread(behaviour_probabilities(simulator, columns, log), log)
    return Trace(known / _spread(taken, log), past)


def behaviour_probabilities(
    simulator: Simulator, columns: Columns, log: Log
) -> NDArray[np.float64]:
    """Return the probabilities of actions given raw columns, to about one in 40."""
    found, rows = np.zeros((len(log), log.n_actions)), np.arange(len(log))
    for u in (np.arange(_N_UNIFORM) + 0.5) / _N_UNIFORM:
        found[rows, simulator.behave(columns, np.full(len(log), u))] += 1.0 / _N_UNIFORM
    return found


def _spread(values: NDArray[np.float64], log: Log) -> float:
    """Return the sum of squares within states."""
    n = np.maximum(np.bincount(log.state, minlength=log.n_states), 1)
    sums = [np.bincount(log.state, column, log.n_states) for column in values.T]
    means = np.column_stack(sums) / n[:, None]
    return float(((values - means[log.state]) ** 2).sum())
