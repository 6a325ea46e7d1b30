"""An estimated baseline: the loss it may hide, and that certificates subtract it."""

import numpy as np
import pytest

from spibb import (
    ApproxSoftSPIBB,
    HoeffdingP,
    Log,
    PiBSPIBB,
    TabularMDP,
    TabularPolicy,
    estimate_baseline,
    evaluate,
)
from spibb.certify.estimated_baseline import estimation_loss, recorded_in_full, shift_of
from spibb.problem.ranges import ValueRange
from spibb.testing.checks import random_problem


def test_the_loss_by_hand():
    found = estimation_loss(ValueRange(-1.5, 1.5, 0.5, False), 6, 50, 4, 0.1)  # V_max is 3
    spread = 4 * np.sqrt(2 / 50 * (6 * np.log(2) + np.log(4 * 5 / 0.1)))
    assert found == pytest.approx(6 * (spread + 0.5**4 / 0.5))


def test_what_an_estimate_is_drawn_away_from_frequencies_is_subtracted():
    log = Log.from_arrays(
        state=[0, 0, 0, 1], action=[0, 0, 1, 1], reward=[0.0] * 4, episode=[0, 0, 1, 1],
    )  # fmt: skip
    assert shift_of(log, estimate_baseline(log, shrink=False).probabilities) == pytest.approx(0.0)
    # Three rows of state 0 at (2/3, 1/3), one of state 1 at (0, 1); two episodes.
    shift = shift_of(log, np.array([[0.5, 0.5], [0.25, 0.75]]))
    assert shift == pytest.approx((3 * 2 * (2 / 3 - 0.5) + 2 * 0.25) / 2)
    values = ValueRange(-1.5, 1.5, 0.5, False)
    plain = estimation_loss(values, 6, 50, 4, 0.1)
    assert estimation_loss(values, 6, 50, 4, 0.1, shift) == pytest.approx(plain + 3 * shift)


@pytest.mark.statistical
def test_the_loss_covers_the_truth():
    """A bandit with two actions, where the bound is nearly as tight as it gets."""
    rng = np.random.default_rng(0)
    mdp = TabularMDP([[[0.0], [0.0]]], [[1.0, -1.0]], 0.0)
    baseline = TabularPolicy([[0.5, 0.5]])
    missed, worst = 0, 0.0
    for _ in range(2_000):
        log = Log.sample(mdp, baseline, n_episodes=20, max_steps=1, rng=rng)
        gap = -evaluate(mdp, estimate_baseline(log)).performance  # the baseline is worth 0
        bound = estimation_loss(ValueRange(-1.0, 1.0, 0.0, False), 2, 20, 1, 0.1)
        missed += gap > bound
        worst = max(worst, gap / bound)
    assert missed <= 0.1 * 2_000
    assert worst > 0.2, "the bound is so loose that the test says nothing"


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [
        (PiBSPIBB(), "SPIBB bound (Pi_b), estimated baseline"),
        (ApproxSoftSPIBB(error=HoeffdingP()), "Theorem 2 (Soft-SPIBB), estimated baseline"),
    ],
)
def test_bounds_on_the_events_of_the_model_subtract_it(algorithm, name):
    _, _, log = random_problem(4, n_episodes=50)
    estimated = estimate_baseline(log)
    known = TabularPolicy(estimated.probabilities)
    asked = {"gamma": 0.9, "states_complete": True}
    over_known = algorithm.improve(log, baseline=known, **asked).certificate
    over_true = algorithm.improve(log, baseline=estimated, **asked).certificate
    assert over_true.others[0].theorem == name
    regret = over_true.guarantee
    assert regret.theorem == "Regret test, estimated baseline"
    assert regret.delta == pytest.approx(2 * over_known.guarantee.delta)
    loss = regret.details["estimation_loss"]
    assert loss > 0
    assert regret.bound == pytest.approx(over_known.bound - loss)


def test_a_record_cut_short_is_not_enough():
    log = Log.from_arrays(
        state=[0, 0, 0], action=[0, 0, 0], reward=[1.0] * 3, next_state=[0, 0, 0],
        terminated=[False, True, False], truncated=[False, False, True], episode=[7, 7, 8],
    )  # fmt: skip
    condition, n_episodes, longest = recorded_in_full(log)
    assert (n_episodes, longest) == (2, 2)
    assert not condition.is_satisfied
    assert condition.where == "row 3 of the log, sorted by episode and step"
    result = PiBSPIBB().improve(
        log, baseline=estimate_baseline(log), gamma=0.9, states_complete=True
    )
    assert result.certificate.bound is None
    assert "recorded to its end" in result.certificate.statement
