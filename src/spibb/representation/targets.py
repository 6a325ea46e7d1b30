"""What finer states should tell apart: what a step pays, what follows it, and what is earned later.

All are centred within pairs of label and action and brought to one scale, so that a column matters
if it tells anything beyond label and action:

* r + gamma V_b(s') and r + gamma V_pi(s'), values in the model of labels: the next step;
* the discounted return from the step on, completed by V_b where the record stops: what labels hide
  for many steps.
"""

from __future__ import annotations

import numpy as np

from spibb.compiled.jit import jit
from spibb.representation.steps import Array, Codes, Steps


def outcome_targets(
    steps: Steps, shape: tuple[int, ...], values: tuple[Array, ...], gamma: float
) -> Array:
    """Return the targets of each step, shape (n, T); see the module.

    Args:
        steps: The steps.
        shape: Numbers of labels and actions.
        values: Values of labels under baseline and policy, shape (S,) each.
        gamma: The discount.
    """
    n_states, n_actions = shape
    label_after = np.full(len(steps.row), n_states)
    is_followed = steps.following >= 0
    label_after[is_followed] = steps.label_of[steps.following[is_followed]]
    found = [steps.reward + gamma * np.append(v, 0.0)[label_after] for v in values]
    if gamma > 0.0 and is_followed.any():
        found.append(_later(steps, np.append(values[0], 0.0)[label_after], gamma))
    pair = steps.state * n_actions + steps.action
    return np.column_stack([_scaled(y, pair, n_states * n_actions) for y in found])


def _later(steps: Steps, completion: Array, gamma: float) -> Array:
    """Return the discounted return from each step on."""
    place = np.full(len(steps.label_of) + 1, -1)
    place[steps.row] = np.arange(len(steps.row))
    follower = np.where(steps.following >= 0, place[steps.following], -1)
    return np.asarray(_returns(steps.reward, follower, completion, gamma))


@jit
def _returns(reward, follower, completion, gamma):  # type: ignore[no-untyped-def]
    found = np.empty(len(reward))
    for k in range(len(reward) - 1, -1, -1):
        later = found[follower[k]] if follower[k] >= 0 else completion[k]
        found[k] = reward[k] + gamma * later
    return found


def _scaled(y: Array, pair: Codes, n_pairs: int) -> Array:
    n = np.bincount(pair, minlength=n_pairs)
    off = y - (np.bincount(pair, y, n_pairs) / np.maximum(n, 1))[pair]
    deviation = np.sqrt((off**2).sum() / max(1, len(y) - np.count_nonzero(n)))
    return off / deviation if deviation > 1e-12 * (1.0 + np.abs(y).max()) else np.zeros(len(y))
