"""Which estimators a policy is judged by: those that were asked for, or all that are fit."""

from __future__ import annotations

from collections.abc import Sequence

from spibb.data.behaviour_policy import varies
from spibb.errors import SettingsError
from spibb.ope.confidence import Bound
from spibb.ope.estimators import ESTIMATORS
from spibb.ope.estimators.base import Estimator, WeightedEstimator
from spibb.ope.off_policy import OffPolicy
from spibb.problem import Problem
from spibb.settings import checked_entry


def unfit_estimators(off: OffPolicy, problem: Problem) -> dict[str, str]:
    """Say which estimators need more than is known, and why."""
    needy = [one for one in ESTIMATORS.values() if one.needs_table]
    if off.policy is None:
        why = "the whole policy is needed, and target_probability is of logged actions alone"
        return {one.id: why for one in needy}
    if off.is_mixed or off.episodes.logged is None or (where := varies(problem.log)) is None:
        return {}
    # Doubly robust terms are unbiased for any Q^; a model of the states is another's choice.
    why = f"propensities vary in {where}: the policy that acted used more than the state"
    return {one.id: why for one in needy if not isinstance(one, WeightedEstimator)}


def left_out(unfit: dict[str, str]) -> tuple[str, ...]:
    """Say which estimators were left out, and why, reason by reason."""
    reasons: dict[str, list[str]] = {}
    for name, why in unfit.items():
        reasons.setdefault(why, []).append(name)
    return tuple(f"Left out: {', '.join(names)}, since {why}." for why, names in reasons.items())


def chosen_estimators(
    asked: Sequence[str] | None, bound: type[Bound], problem: Problem, unfit: dict[str, str]
) -> tuple[Estimator, ...]:
    """Return the estimators of an evaluation.

    Args:
        asked: Ids; None: those that the bound is valid for, and that are fit.
        bound: By which intervals are made.
        problem: The problem.
        unfit: Which estimators need more than is known, and why.
    """
    if asked is None:
        valid = [
            one
            for one in ESTIMATORS.values()
            if one.id not in unfit and bound.objection(one, problem.values) is None
        ]
        # Without a discount, rewards alone bound no terms.
        of_returns = bound.is_exact and problem.gamma >= 1.0
        return tuple(one for one in valid if one.is_of_returns or not of_returns)
    if isinstance(asked, str) or not asked:
        raise SettingsError(f"estimators is {asked!r}", expected="a list of ids, as ['is', 'dr']")
    chosen = tuple(checked_entry(name, ESTIMATORS, "estimator") for name in asked)
    for one in chosen:
        if one.id in unfit:
            raise SettingsError(
                f"estimator {one.id!r} cannot be used: {unfit[one.id]}",
                expected=f"other estimators than {', '.join(unfit)}",
            )
        bound.check(one, problem.values)
    return chosen
