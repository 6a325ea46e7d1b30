"""Betting: equal to bisection, exact in every case we could think of, and what its terms mean."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from spibb import Log, TabularMDP, TabularPolicy, evaluate
from spibb.errors import DataError, SettingsError
from spibb.ope import evaluate_policy
from spibb.ope.betting import FRACTIONS, betting, chosen_fractions, needed_terms, predicted_betting
from spibb.ope.estimators import ESTIMATORS
from spibb.ope.return_range import ReturnRange
from spibb.ope.trajectories import Trajectories
from spibb.ope.weights import Tables, walk
from spibb.problem.ranges import ValueRange
from spibb.testing import reference_ope


@given(
    terms=st.lists(st.floats(0.0, 1e3).map(lambda x: round(x, 3)), min_size=1, max_size=30),
    delta=st.sampled_from([0.001, 0.05, 0.5, 0.9]),
)
@settings(max_examples=80, deadline=None)
def test_it_equals_bisection(terms, delta):
    found = betting(terms, delta)
    expected = reference_ope.betting(terms, FRACTIONS.tolist(), delta)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)
    if found > 0:  # whatever it returns is a valid bound
        assert reference_ope.log_wealth(terms, FRACTIONS.tolist(), found) >= -np.log(delta) - 1e-9


@given(scale=st.sampled_from([1e-250, 1e-30, 1e-3, 7.0, 1e40, 1e250]), seed=st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_it_scales_with_its_terms(scale, seed):
    terms = np.exp(np.random.default_rng(seed).normal(size=50))
    assert betting(scale * terms, 0.05) == pytest.approx(scale * betting(terms, 0.05), rel=1e-7)


def test_it_has_no_order_and_grows_with_delta():
    terms = np.random.default_rng(0).exponential(size=200)
    assert betting(terms[::-1], 0.05) == pytest.approx(betting(terms, 0.05), rel=1e-9)
    bounds = [betting(terms, delta) for delta in (1e-9, 0.01, 0.1, 0.5)]
    assert bounds == sorted(bounds)
    assert bounds[-1] < terms.mean()


def test_a_huge_term_does_not_overflow():
    terms = np.append(np.ones(100), 1e290)
    assert np.isfinite(betting(terms, 0.05))
    assert betting(terms, 0.05) > 1.0
    assert betting(np.zeros(7), 0.05) == 0.0


def test_refusals():
    with pytest.raises(DataError, match=r"1 of 3 terms are negative \(first at episode 2\)"):
        betting([1.0, -0.1, 2.0], 0.05)
    with pytest.raises(DataError, match="0 episodes"):
        betting([], 0.05)
    with pytest.raises(SettingsError, match="delta is 0"):
        betting([1.0], 0.0)


# Means are 1 or below in each: a bound above 1 is a failure.
HARD = {
    "coin": lambda rng, n: 2.0 * (rng.random(n) < 0.5),
    "rare": lambda rng, n: np.where(rng.random(n) < 0.01, 51.0, 0.5 - 0.01 / 0.99 * 0.5),
    "heavy": lambda rng, n: np.minimum(0.5 / np.sqrt(1 - rng.random(n)), 1e12),
    "weights": lambda rng, n: np.exp(2.0 * rng.normal(size=n) - 2.0),
    "constant": lambda rng, n: np.ones(n),
    "nearly constant": lambda rng, n: 1.0 + 1e-3 * rng.choice([-1, 1], n),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", HARD)
def test_it_fails_no_more_often_than_delta(name):
    rng, delta, n_sets = np.random.default_rng(1), 0.2, 1_000
    for n in (5, 40, 400):
        fails = sum(betting(HARD[name](rng, n), delta) > 1.0 for _ in range(n_sets))
        assert fails <= binom.ppf(0.999, n_sets, delta), (name, n)


@pytest.mark.statistical
def test_it_holds_at_the_moment_that_looks_best():
    """Sampling until the bound is highest: Ville's inequality, not just Markov's."""
    rng, delta = np.random.default_rng(2), 0.2
    fails = 0
    for _ in range(300):
        terms = 2.0 * (rng.random(300) < 0.5)
        fails += max(betting(terms[:n], delta) for n in range(5, 301, 5)) > 1.0
    assert fails <= delta * 300
    assert fails > 5, "so loose that the test says nothing"


def test_it_is_tighter_than_the_concentration_inequality():
    from spibb.ope.bounds import concentration

    rng = np.random.default_rng(3)
    for n in (50, 200, 1_000, 5_000):
        terms = [np.exp(rng.normal(size=n) - 0.5) for _ in range(20)]
        bets = np.median([betting(part, 0.05) for part in terms])
        thomas = np.median([concentration(part, 0.05, rng) for part in terms])
        assert bets > thomas


def test_a_fraction_that_others_chose_helps_where_it_fits():
    rng = np.random.default_rng(4)
    train, test = np.exp(rng.normal(size=(2, 500)) - 0.5)
    predicted, fraction = predicted_betting(train, 500, 0.05)
    assert predicted == pytest.approx(betting(train, 0.05), rel=1e-6)
    assert betting(test, 0.05, *chosen_fractions(fraction)) > betting(test, 0.05)
    longer, _ = predicted_betting(train, 5_000, 0.05)
    assert predicted < longer < train.mean()
    assert predicted_betting(np.zeros(5), 9, 0.05)[0] == 0.0


@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
def test_the_number_of_terms_that_is_foreseen_passes_with_that_probability(power):
    rng = np.random.default_rng(5)
    seen = np.exp(0.5 * rng.normal(size=20_000))  # mean 1.13
    n = int(needed_terms(seen, 0.05, power))
    _, fraction = predicted_betting(seen, n, 0.05)
    fresh = np.exp(0.5 * rng.normal(size=(400, n)))
    passed = np.mean([betting(y, 0.05, *chosen_fractions(fraction)) > 1.0 for y in fresh])
    assert abs(passed - power) < 0.1


# --- what the terms mean ------------------------------------------------------------------------


def process(gamma):
    """Two states, two actions, rewards of both signs, an end that is likely."""
    transition = np.array([[[0.3, 0.2], [0.1, 0.5]], [[0.4, 0.2], [0.0, 0.3]]])
    ending = 1.0 - transition.sum(axis=2)
    mdp = TabularMDP(transition, [[1.0, -0.5], [-1.0, 2.0]], gamma, [0.6, 0.4], ending=ending)
    baseline = np.array([[0.7, 0.3], [0.4, 0.6]])
    policy = np.array([[0.2, 0.8], [0.4, 0.6]])
    return mdp, policy, baseline


def every_episode(mdp, baseline, longest):
    """Every trajectory of at most so many steps, with its probability; the last may be cut off."""
    rows, chances = [], []

    def go(x, chance, steps):
        for a in range(2):
            taken = chance * baseline[x, a]
            outcomes = [(y, mdp.dense[x, a, y]) for y in range(2)] + [(None, mdp.ending[x, a])]
            for y, p in outcomes:
                if p == 0.0:
                    continue
                now = [*steps, (x, a, mdp.reward[x, a], y, y is None)]
                if y is None or len(now) == longest:
                    rows.append(now)
                    chances.append(taken * p)
                else:
                    go(y, taken * p, now)

    for x in range(2):
        go(x, mdp.initial[x], [])
    return rows, np.array(chances)


def terms_of(episodes, policy, baseline, gamma, reach, estimator):
    rows = [
        (k, x, a, r, -1 if y is None else y, ended, not ended and t == len(steps) - 1)
        for k, steps in enumerate(episodes) for t, (x, a, r, y, ended) in enumerate(steps)
    ]  # fmt: skip
    names = ("episode", "state", "action", "reward", "next_state", "terminated", "truncated")
    log = Log.from_arrays(
        **dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)), n_states=2, n_actions=2
    )
    walked = Trajectories.from_log(log)
    tables = Tables.of(np.stack([policy, baseline]), baseline)
    found = walk(walked, [(walked.everything, tables)], gamma)
    return ESTIMATORS[estimator].bets(found, reach)[:, 0], found


@pytest.mark.parametrize("longest", [1, 3, 6])
def test_paired_terms_by_listing_every_episode(longest):
    """E Y = 1 + (1 - g) gain / (high - low) where all end, and at most that where some are cut."""
    gamma = 0.8
    mdp, policy, baseline = process(gamma)
    episodes, chance = every_episode(mdp, baseline, longest)
    rewards = ValueRange(-1.0, 2.0, gamma, is_observed=False)
    reach = ReturnRange.of(rewards, None, np.zeros(1))
    terms, _ = terms_of(episodes, policy, baseline, gamma, reach, "pdis")
    assert (terms >= -1e-12).all()
    slow = reference_ope.paired_bets(episodes, policy, baseline, gamma, -1.0, 2.0)
    np.testing.assert_allclose(terms, slow, atol=1e-12)
    gain = evaluate(mdp, policy).performance - evaluate(mdp, baseline).performance
    mean = float(chance @ terms)
    full = 1.0 + (1 - gamma) * gain / 3.0
    assert mean <= full + 1e-12
    # What is left out is at most what is still to come of a stream of terms.
    cut = chance @ [gamma ** len(e) * (not e[-1][4]) for e in episodes]
    assert mean >= full - 5.0 * cut
    if longest == 6:
        assert mean == pytest.approx(full, abs=0.02)


def test_whole_episodes_by_listing_them():
    """At gamma = 1 too, for a known range of returns: E Y = 1 + gain / (high - low) if all end.

    Where some are cut off, at most that, and not below by more than what is missing.
    """
    for gamma, surely_ends in itertools.product((1.0, 0.8), (True, False)):
        mdp, policy, baseline = process(gamma)
        if surely_ends:  # state 0 leads to state 1, which ends
            transition = np.zeros((2, 2, 2))
            transition[0, :, 1] = 0.7
            mdp = TabularMDP(transition, mdp.reward, gamma, [0.6, 0.4],
                             ending=1.0 - transition.sum(axis=2))  # fmt: skip
        episodes, chance = every_episode(mdp, baseline, 6)
        returns = np.array([reference_ope.gain(e, gamma) for e in episodes])
        rewards = ValueRange(-1.0, 2.0, gamma, is_observed=False)
        given_range = (float(returns.min()) - 3.0, float(returns.max()) + 5.0)
        reach = ReturnRange.of(rewards, given_range, returns)
        terms, _ = terms_of(episodes, policy, baseline, gamma, reach, "is")
        assert (terms >= 0).all()
        gain = evaluate(mdp, policy).performance - evaluate(mdp, baseline).performance
        full = 1.0 + gain / (reach.high - reach.low)
        cut = float(chance @ [gamma ** len(e) * (not e[-1][4]) for e in episodes])
        assert (cut == 0.0) is surely_ends
        assert chance @ terms <= full + 1e-12
        assert chance @ terms == pytest.approx(full, abs=3.0 * cut + 1e-12)


def test_missing_support_makes_it_careful():
    """The policy takes an action that the baseline never takes: E w < 1, and the bound is lower."""
    gamma = 0.8
    mdp, policy, baseline = process(gamma)
    baseline[1] = [1.0, 0.0]
    episodes, chance = every_episode(mdp, baseline, 6)
    rewards = ValueRange(-1.0, 2.0, gamma, is_observed=False)
    reach = ReturnRange.of(rewards, None, np.zeros(1))
    gain = evaluate(mdp, policy).performance - evaluate(mdp, baseline).performance
    for estimator in ("pdis", "is"):
        kept = chance > 0
        terms, found = terms_of(
            [e for e, k in zip(episodes, kept, strict=True) if k], policy, baseline, gamma, reach,
            estimator,
        )  # fmt: skip
        low, high = ESTIMATORS[estimator].ends(reach)
        assert chance[kept] @ found.weight[:, 0] < 0.99
        assert chance[kept] @ terms <= 1.0 + gain / (high - low) + 1e-9


# --- as an interval of `evaluate` ---------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("max_steps", [3, 200])
def test_intervals_hold_the_whole_return_however_short_the_record(sign, max_steps):
    gamma, delta, n_logs = 0.8, 0.2, 300
    mdp, policy, baseline = process(gamma)
    mdp = mdp.with_reward(sign * mdp.reward)
    truth = evaluate(mdp, policy).performance
    rng = np.random.default_rng(5)
    missed, widths = 0, []
    for _ in range(n_logs):
        log = Log.sample(mdp, baseline, n_episodes=60, max_steps=max_steps, rng=rng)
        found = evaluate_policy(
            log, policy=TabularPolicy(policy), baseline=TabularPolicy(baseline), gamma=gamma,
            bound="betting", delta=delta, estimators=["pdis"], reward_range=(-2.0, 2.0),
        )  # fmt: skip
        low, high = found["pdis"].interval
        missed += not low <= truth <= high
        widths.append(high - low)
        assert found.is_exact
    assert missed <= delta * n_logs
    assert np.mean(widths) < 20.0, "never wider than the range"


def test_without_a_discount_a_range_of_returns_is_what_remains():
    log = Log.from_arrays(
        state=[0] * 40, action=[0, 1] * 20, reward=[0.0, 1.0] * 20, episode=np.arange(40)
    )
    asked = {
        "policy": TabularPolicy([[0.2, 0.8]]), "baseline": TabularPolicy([[0.5, 0.5]]),
        "gamma": 1.0, "bound": "betting",
    }  # fmt: skip
    several_a_row = Log.from_arrays(
        state=[0] * 40, action=[0, 1] * 20, reward=[0.0, 1.0] * 20, episode=np.arange(40) // 4
    )
    with pytest.raises(SettingsError, match="a range of returns for an exact bound"):
        evaluate_policy(several_a_row, **asked)
    # Episodes that pay once tell the range themselves, but nothing is exact by it.
    assert not evaluate_policy(log, **asked).is_exact
    found = evaluate_policy(log, **asked, return_range=(0.0, 1.0))
    assert [part.estimator for part in found.estimates] == ["is"]
    low, high = found["is"].interval
    assert 0.0 <= low < 0.8 < high <= 1.0
    with pytest.raises(SettingsError, match="gamma < 1 for 'pdis'"):
        evaluate_policy(log, **asked, return_range=(0.0, 1.0), estimators=["pdis"])


def test_exact_is_not_said_of_estimated_propensities_nor_of_gaps():
    log = Log.from_arrays(
        state=[0] * 40, action=[0, 1] * 20, reward=[0.0, 1.0] * 20, episode=np.arange(40)
    )
    asked = {"policy": TabularPolicy([[0.2, 0.8]]), "gamma": 0.9, "bound": "betting"}
    asked["reward_range"] = (0.0, 1.0)
    assert evaluate_policy(log, **asked, baseline=TabularPolicy([[0.5, 0.5]])).is_exact
    assert not evaluate_policy(log, **asked, baseline="estimate").is_exact
    assert not evaluate_policy(log, **(asked | {"bound": "student-t"}),
                               baseline=TabularPolicy([[0.5, 0.5]])).is_exact  # fmt: skip


def test_estimates_stay_inside_the_known_range():
    """One episode of a weight of 25 says 12.5 for a probability of survival."""
    log = Log.from_arrays(
        state=[0, 1, 0, 1], action=[1, 1, 0, 0], reward=[0.0, 1.0, 0.0, 1.0], episode=[0, 0, 1, 1],
        n_actions=2,
    )  # fmt: skip
    found = evaluate_policy(
        log, policy=TabularPolicy([[0.0, 1.0]] * 2), baseline=TabularPolicy([[0.8, 0.2]] * 2),
        gamma=1.0, return_range=(0.0, 1.0), estimators=["is", "pdis", "wis", "dr", "model"],
    )  # fmt: skip
    assert np.isnan(found["model"].estimate), "withheld: pairs seen once"
    for part in found.estimates[:-1]:
        assert 0.0 <= part.estimate <= 1.0
        assert part.ess is None or part.ess <= 2.0
    assert any("was 12.5, outside of the known range" in text for text in found["is"].warnings)
    assert found.return_range == (0.0, 1.0)


def test_exact_is_not_said_of_a_range_that_was_read_off_the_log():
    """A cost of one row in two hundred voids an interval that takes the rewards seen for all."""
    log = Log.from_arrays(
        state=[0] * 40, action=[0, 1] * 20, reward=[0.0, 1.0] * 20, episode=np.arange(40)
    )
    asked = {"policy": TabularPolicy([[0.2, 0.8]]), "baseline": TabularPolicy([[0.5, 0.5]]),
             "gamma": 0.9, "bound": "betting"}  # fmt: skip
    seen = evaluate_policy(log, **asked)
    assert not seen.is_exact
    assert any("exact only if no reward outside of [0, 1]" in text for text in seen.warnings)
    given = evaluate_policy(log, **asked, reward_range=(0.0, 1.0))
    assert given.is_exact
    assert not given.warnings
    # A range of returns is enough for whole episodes, not for the rewards of single steps.
    returns = {"return_range": (0.0, 10.0)}
    assert evaluate_policy(log, **asked, **returns, estimators=["is"]).is_exact
    assert not evaluate_policy(log, **asked, **returns, estimators=["is", "pdis"]).is_exact


def test_an_estimate_outside_of_an_observed_range_is_told_and_not_moved():
    log = Log.from_arrays(
        state=[0] * 4, action=[0, 0, 0, 1], reward=[0.0, 0.0, 0.0, 1.0], episode=np.arange(4)
    )
    asked = {"policy": TabularPolicy([[0.0, 1.0]]), "baseline": TabularPolicy([[0.95, 0.05]]),
             "gamma": 0.5, "estimators": ["is"], "bound": "student-t"}  # fmt: skip
    seen = evaluate_policy(log, **asked)["is"]
    assert seen.estimate == pytest.approx(5.0)
    assert any("outside of [0, 2], which the rewards of the log imply" in t for t in seen.warnings)
    known = evaluate_policy(log, **asked, reward_range=(0.0, 1.0))["is"]
    assert known.estimate == 2.0


def test_every_combination_of_bound_and_estimator_is_valid_or_refused():
    log = Log.from_arrays(
        state=[0] * 60, action=[0, 1, 1] * 20, reward=[0.0, 1.0, -1.0] * 20, episode=np.arange(60)
    )
    for bound, name in itertools.product(
        ("bca", "student-t", "betting", "concentration"),
        ("is", "pdis", "wis", "cwpdis", "dr", "model"),
    ):
        valid = (
            name
            in {
                "bca": ("is", "pdis", "wis", "cwpdis", "dr", "model"),
                "student-t": ("is", "pdis", "dr"),
                "betting": ("is", "pdis"),
                "concentration": ("is",),
            }[bound]
        )
        asked = {"policy": TabularPolicy([[0.4, 0.6]]), "baseline": TabularPolicy([[0.5, 0.5]]),
                 "gamma": 0.9, "bound": bound, "estimators": [name]}  # fmt: skip
        if valid:
            low, high = evaluate_policy(log, **asked)[name].interval
            assert low <= high
        else:
            with pytest.raises(SettingsError):
                evaluate_policy(log, **asked)
