"""Do actions and outcomes depend on the past, given the label? Then labels hide something.

Where the label is all that matters and all that is looked at, nothing of the past tells anything
more. Columns of the past (:mod:`spibb.representation.history`) that explain both what was done and
what came of it are traces of something that the behaviour policy saw and the label does not hold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spibb.data.log import Log
from spibb.representation.dependence import Dependence, dependence
from spibb.representation.history import history_columns
from spibb.representation.joint_dependence import JointDependence, joint_dependence
from spibb.representation.outcome_dependence import outcome_dependence
from spibb.representation.refined_gain import label_values
from spibb.representation.steps import Steps
from spibb.representation.targets import outcome_targets


class Memory(NamedTuple):
    """How much columns of the past explain beyond labels.

    Attributes:
        names: The columns.
        actions: Of the logged actions, given the label.
        outcomes: Of what follows, given label and action.
        together: Of the logged actions, given the label, by all columns at once.
    """

    names: tuple[str, ...]
    actions: Dependence
    outcomes: Dependence
    together: JointDependence


def find_memory(log: Log, gamma: float) -> Memory | None:
    """Measure how much the past explains; None for a log whose rows do not follow each other.

    Args:
        log: The log.
        gamma: The discount.
    """
    steps = Steps.of(log)
    if steps is None or not (steps.following >= 0).any():
        return None
    v = label_values(steps, None, (log.n_states, log.n_actions), gamma)
    past = history_columns(log, v, gamma)
    own = past.values[steps.row]
    pair = steps.state * log.n_actions + steps.action
    targets = outcome_targets(steps, (log.n_states, log.n_actions), (v,), gamma)
    taken = np.eye(log.n_actions)[steps.action]
    return Memory(
        past.names,
        dependence(own, steps.state, steps.state, taken),
        outcome_dependence(own, steps, pair, targets),
        joint_dependence(own, steps.state, taken, steps.block),
    )
