"""Targets of the Q-networks, as pure functions of arrays.

    y = r - kappa / sqrt(N~(x, a)) + gamma (1 - terminated) sum_a' pi(a') Q_target(x', a')

where pi is one improvement step at x', the very step of the tabular algorithms: driven by the
online network's Q (by the target network's for plain DQN), around the baseline at x', with errors

    e(x', a') = 1 / sqrt(N~(x', a'))                   for the soft steps (inf where N~ = 0),
    e(x', a') = 0 where N~(x', a') >= n_wedge, else inf  for the bootstrapping steps.

On a finite MDP with one-hot states and exact counts the regression onto these targets has the same
fixed point as the model-based algorithm in the estimated model: the paper's Theorem 5, which
tests/deep/test_theorem_5.py checks. A truncated transition bootstraps as any other.

Arrays have any leading axes, actions last; NumPy arrays or torch tensors in, the same kind out.
Engines compute the same in their own loops and are held to these functions by tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spibb import operators
from spibb.compiled.arrays import is_tensor, namespace
from spibb.deep.rules import Rule, TargetStep
from spibb.errors import DataError, SettingsError
from spibb.operators.engine import FROM_COUNTS, Engine
from spibb.operators.rows import Operator

ENGINE = Engine(
    "acting by pseudo-counts", FROM_COUNTS, "spibb.operators carries those with the baseline's Q"
)


def errors_of(counts: Any) -> Any:
    """Return e = 1 / sqrt(N~), infinite where N~ = 0.

    Example:
        >>> errors_of([0.0, 1.0, 4.0])
        array([inf, 1. , 0.5])
    """
    if is_tensor(counts):
        return 1 / (counts if counts.dtype.is_floating_point else counts.double()).sqrt()
    found = np.asarray(counts)
    found = found if found.dtype.kind == "f" else found.astype(np.float64)
    with np.errstate(divide="ignore"):
        return 1 / np.sqrt(found)


def improved_policy(rule: Rule, q: Any, *, baseline: Any = None, counts: Any = None) -> Any:
    """Return the policy that a rule plays where the network says ``q``.

    Args:
        rule: The rule.
        q: Values, last axis actions.
        baseline: Probabilities of the baseline; greedy rules do without.
        counts: Pseudo-counts N~; greedy rules do without.

    Example:
        The second action is better, but has been seen too rarely.

        >>> from spibb.deep.rules import PiBSPIBBDQN
        >>> improved_policy(PiBSPIBBDQN(n_wedge=5), [0.0, 1.0], baseline=[0.7, 0.3], counts=[9, 2])
        array([0.7, 0.3])
    """
    step = checked_step(rule)
    return improved_rows(step.operator, q, baseline, counts, step.n_wedge, step.epsilon)


def improved_rows(
    operator: Operator, q: Any, baseline: Any, counts: Any, n_wedge: Any, epsilon: Any
) -> Any:
    """Apply an operator with the errors that pseudo-counts give; ``n_wedge`` broadcasts to them."""
    if not operator.needs.errors:
        return operators.apply(operator, q)
    if counts is None:
        raise DataError("counts is None", expected=f"numbers: {operator.name} needs them")
    return operators.apply(operator, q, baseline, errors_for(operator, counts, n_wedge), epsilon)


def errors_for(operator: Operator, counts: Any, n_wedge: Any) -> Any:
    """Return the errors that an operator wants of pseudo-counts: prices, or 0 where trusted."""
    if operator.needs.budget:
        return errors_of(counts)
    is_trusted = (counts if is_tensor(counts) else np.asarray(counts)) >= n_wedge
    return namespace(is_trusted).where(is_trusted, 0.0, np.inf)


def targets(
    rule: Rule,
    *,
    reward: Any,
    terminated: Any,
    gamma: float,
    q_online: Any,
    q_target: Any,
    baseline_next: Any = None,
    n_next: Any = None,
    n_here: Any = None,
) -> Any:
    """Return the targets y of a minibatch.

    Args:
        rule: The rule.
        reward: Rewards, shape (...,).
        terminated: Whether the task ended, shape (...,).
        gamma: The discount.
        q_online: Q of the online network at the next states, shape (..., A).
        q_target: Q of the target network there, shape (..., A).
        baseline_next: The baseline there, shape (..., A); greedy rules do without.
        n_next: Pseudo-counts there, shape (..., A); greedy rules do without.
        n_here: Pseudo-counts of the pairs taken, shape (...,); only a penalty needs them.

    Example:
        Double-DQN: the online network chooses the second action, the target network values it.

        >>> from spibb.deep.rules import DoubleDQN
        >>> targets(DoubleDQN(), reward=np.array([1.0]), terminated=np.array([False]), gamma=0.5,
        ...         q_online=np.array([[0.0, 2.0]]), q_target=np.array([[9.0, 4.0]]))
        array([3.])
    """
    step, xp = checked_step(rule), namespace(q_target)
    driver = q_online if step.is_double else q_target
    policy = improved_policy(rule, driver, baseline=baseline_next, counts=n_next)
    value = (policy * q_target).sum(-1)
    # A bad estimate in a state that is never left must not reach the target.
    ahead = xp.where(terminated, xp.zeros_like(value), gamma * value)
    if step.kappa > 0.0:
        if n_here is None:
            raise DataError("n_here is None", expected=f"numbers: {rule.id} needs them")
        reward = reward - step.kappa * errors_of(n_here)
    return reward + ahead


def checked_step(rule: Any) -> TargetStep:
    """Return the step of a rule, or refuse one that cannot be taken."""
    if not isinstance(rule, Rule):
        raise SettingsError(f"the rule is {rule!r}", expected="a rule of spibb.deep.rules")
    step = rule.step()
    ENGINE.check_carried([step.operator])
    return step
