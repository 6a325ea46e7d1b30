"""Rare rewards in one-step logs: the gamma interval, exact ends by a known largest weight."""

import importlib.util
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, poisson
from scipy.stats import t as student

from spibb import Log, TabularPolicy, evaluate_policy
from spibb.data.behaviour_policy import BehaviourProbabilities
from spibb.ope.bounds import NO_BOUND
from spibb.ope.confidence import BOUNDS, BCa, Betting
from spibb.ope.estimators import ESTIMATORS
from spibb.ope.off_policy import OffPolicy
from spibb.ope.rare_rewards import gamma_ends
from spibb.ope.return_range import ReturnRange
from spibb.problem import Problem

ROOT = Path(__file__).parents[2]
LEVEL = 0.025
IS = ESTIMATORS["is"]


def shop():
    """Load the example, which makes problems of the counts of Open Bandit."""
    place = importlib.util.spec_from_file_location("open_bandit", ROOT / "examples/open_bandit.py")
    found = importlib.util.module_from_spec(place)
    place.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def clicks():
    return pd.read_csv(Path(__file__).parent / "data" / "open_bandit.csv")


@pytest.fixture(scope="module")
def weights(clicks):
    """Weights of real pairs, each of which a random choice takes alike."""
    _, random, policy, _ = shop().open_bandit(clicks, "men")
    return (policy.probabilities / random.probabilities).ravel()


@pytest.mark.parametrize("campaign", ["men", "women", "all"])
@pytest.mark.parametrize("bound", list(BOUNDS))
def test_the_random_log_foretells_what_the_other_policy_earned(clicks, campaign, bound):
    log, random, policy, rate = shop().open_bandit(clicks, campaign)
    found = evaluate_policy(
        log, policy=policy, baseline=random, bound=bound, reward_range=(0.0, 1.0),
        estimators=["is", "pdis"],
    )  # fmt: skip
    assert (len(log), round(rate, 4)) == (
        10_000,
        {"men": 0.0069, "women": 0.0046}.get(campaign, 0.0042),
    )
    assert found.is_exact == BOUNDS[bound].is_exact
    for one in found.estimates:
        low, high = one.interval
        assert low <= rate <= high
        # They were 0.04 to 0.10: the random policy itself has 0.0046.
        most = {"betting": 0.013, "concentration": 0.024}.get(bound, 0.01)
        assert high <= most, (campaign, bound)


def test_probabilities_of_rows_foretell_it_as_tables_do(clicks):
    """Upper ends by target_probability were 0.048, five times as far as those by tables."""
    log, random, policy, rate = shop().open_bandit(clicks, "men")
    logged, wanted = (
        one.probabilities[
            log.states.within(one.states)[log.state], log.actions.within(one.actions)[log.action]
        ]
        for one in (random, policy)
    )
    by_row = replace(
        log, acted=BehaviourProbabilities(propensity=logged, target_probability=wanted)
    )
    asked = {"reward_range": (0.0, 1.0), "estimators": ["is"]}
    found = evaluate_policy(by_row, **asked)["is"]
    table = evaluate_policy(log, policy=policy, baseline=random, **asked)["is"]
    assert found.estimate == pytest.approx(table.estimate)
    assert found.interval == pytest.approx(table.interval, rel=1e-9)
    assert rate <= found.interval[1] < 0.01


@pytest.mark.skipif(find_spec("obp") is None, reason="requirements/data.txt is not installed")
def test_the_counts_are_those_of_the_package(clicks):
    found = shop().read_table().reset_index(drop=True)
    pd.testing.assert_frame_equal(found, clicks)


@pytest.mark.parametrize("n", [0, 1, 3, 20])
def test_of_equal_weights_it_is_the_interval_of_a_count(n):
    """Garwood's: the ends are the rates at which so many or more, or fewer, have delta."""
    terms = np.repeat([3.0, 0.0], [n, 500 - n])
    low, high = (500 * end / 3.0 for end in gamma_ends(terms, 3.0, LEVEL))
    assert n == 0 or poisson.sf(n - 1, low) == pytest.approx(LEVEL)
    assert poisson.cdf(n, high) == pytest.approx(LEVEL)
    assert n > 0 or low == 0.0


RATES = {
    "the same for all": lambda w: np.full(len(w), 0.005),
    "differ": lambda w: np.random.default_rng(5).beta(0.5, 100, len(w)),
    "heavy pairs alone": lambda w: np.where(w > 3.0, 0.01, 0.0),
    "one heavy pair": lambda w: np.where(w == w.max(), 0.05, 0.0),
    "light pairs alone": lambda w: np.where(w < 0.5, 0.01, 0.0),
    "less rare": lambda w: np.full(len(w), 0.05),
}


def simulated(w, rates, n, n_logs, seed=0):
    """Return how often each pair was clicked in logs of n rows, and the true value."""
    chances = np.append(rates / len(w), 1.0 - rates.mean())
    counts = np.random.default_rng(seed).multinomial(n, chances, size=n_logs)[:, :-1]
    return counts, float((w * rates).mean())


@pytest.mark.parametrize("name", list(RATES))
@pytest.mark.parametrize("n", [300, 1_000, 10_000])
def test_the_gamma_interval_keeps_its_level_where_student_s_t_does_not(weights, name, n):
    counts, truth = simulated(weights, RATES[name](weights), n, 2_000)
    missed, by_t = np.zeros(2), 0
    for clicked in counts:
        terms = np.repeat(weights, clicked)
        padded = np.append(terms, np.zeros(n - len(terms)))
        low, high = gamma_ends(padded, weights.max(), LEVEL)
        missed += low > truth, high < truth
        half = padded.std(ddof=1) / np.sqrt(n) * student.ppf(1.0 - LEVEL, n - 1)
        by_t += padded.mean() + half < truth
    for one in missed:
        assert binomtest(int(one), len(counts), LEVEL, alternative="greater").pvalue > 1e-4
    if name != "less rare" and n < 10_000:
        assert by_t > 2.0 * LEVEL * len(counts)


def rare_log(seed, n, rates=(0.01, 0.02), share=0.02):
    """Return a log of a rule that takes its second action seldom, and a policy that does not."""
    rng = np.random.default_rng(seed)
    action = (rng.random(n) < share).astype(np.int64)
    reward = (rng.random(n) < np.array(rates)[action]).astype(np.float64)
    log = Log.from_arrays(state=np.zeros(n, np.int64), action=action, reward=reward, n_actions=2)
    policy = TabularPolicy([[0.5, 0.5]])
    return log, TabularPolicy([[1.0 - share, share]]), policy, sum(rates) / 2.0


@pytest.mark.parametrize(("bound", "most"), [("bca", 0.05), ("betting", 0.05)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_intervals_of_logs_cover(bound, most, sign):
    """A nearly deterministic rule, weights up to 25, rare rewards or rare losses."""
    missed = 0
    for seed in range(300):
        log, rule, policy, truth = rare_log(seed, 400)
        log = replace(log, reward=sign * log.reward)
        ends = (0.0, 1.0) if sign > 0 else (-1.0, 0.0)
        found = evaluate_policy(
            log, policy=policy, baseline=rule, bound=bound, reward_range=ends, estimators=["is"],
            accept_baseline=True,
        )["is"].interval  # fmt: skip
        missed += not found[0] <= sign * truth <= found[1]
    assert binomtest(missed, 300, most, alternative="greater").pvalue > 1e-4


def off_policy(log, baseline, policy, reward_range=(0.0, 1.0)):
    problem = Problem.of(log, baseline=baseline, reward_range=reward_range, accept_baseline=True)
    off = OffPolicy.of(problem, policy)
    return off, ReturnRange.of(problem.values, None, off.plain.gain)


def test_losses_are_rewards_with_the_other_sign():
    log, rule, policy, _ = rare_log(1, 2_000)
    ends = []
    for sign, reward_range in ((1.0, (0.0, 1.0)), (-1.0, (-1.0, 0.0))):
        off, known = off_policy(replace(log, reward=sign * log.reward), rule, policy, reward_range)
        rng = np.random.default_rng(0)
        for kind in (BCa, Betting):
            bound = kind(IS, LEVEL, known, largest=off.largest_weight)
            found = bound.interval(IS.of_walk(off.plain, 0), off.plain, rng)
            ends.append(found if sign > 0 else (-found[1], -found[0]))
    np.testing.assert_allclose(ends[:2], ends[2:])


def test_where_no_reward_was_seen_there_is_an_upper_end():
    log, rule, policy, _ = rare_log(1, 2_000, rates=(0.0, 0.0))
    found = evaluate_policy(log, policy=policy, baseline=rule, reward_range=(0.0, 1.0))
    expected = 25.0 * -np.log(LEVEL) / 2_000
    assert found["is"].interval == pytest.approx((0.0, expected))
    assert found["wis"].interval == NO_BOUND, "which resamples cannot know"


def test_the_largest_weight_is_known_of_one_step_within_the_support():
    log, rule, policy, _ = rare_log(1, 100)
    assert off_policy(log, rule, policy)[0].largest_weight == pytest.approx(25.0)
    longer = Log.from_arrays(
        state=[0, 0, 0], action=[0, 1, 0], reward=[0.0, 1.0, 0.0], episode=[0, 0, 1]
    )
    problem = Problem.of(longer, baseline=rule, gamma=0.5)
    assert OffPolicy.of(problem, policy).largest_weight == np.inf
    only = Log.from_arrays(state=[0, 0], action=[0, 0], reward=[0.0, 1.0], n_actions=2)
    assert off_policy(only, TabularPolicy([[1.0, 0.0]]), policy)[0].largest_weight == np.inf


def test_rewards_that_are_not_rare_have_the_ends_they_had():
    """A log of even rewards and mild weights: nothing but the level of exact ends changes."""
    rng = np.random.default_rng(3)
    action, reward = rng.integers(0, 2, 500), rng.uniform(0.4, 0.6, 500)
    log = Log.from_arrays(state=np.zeros(500, np.int64), action=action, reward=reward)
    off, known = off_policy(log, TabularPolicy([[0.5, 0.5]]), TabularPolicy([[0.4, 0.6]]))
    statistic = IS.of_walk(off.plain, 0)
    for name in ("bca", "student-t"):
        plain, aware = (
            BOUNDS[name](IS, LEVEL, known, largest=most).interval(
                statistic, off.plain, np.random.default_rng(0)
            )
            for most in (np.inf, off.largest_weight)
        )
        assert plain == aware
    plain = Betting(IS, 0.75 * LEVEL, known).interval(statistic, off.plain, rng)
    aware = Betting(IS, LEVEL, known, largest=off.largest_weight).interval(
        statistic, off.plain, rng
    )
    assert aware[0] >= plain[0]
    assert aware[1] <= plain[1]


def test_what_is_said_of_it():
    log, rule, policy, _ = rare_log(1, 2_000)
    found = evaluate_policy(log, policy=policy, baseline=rule, reward_range=(0.0, 1.0))
    assert any(
        "gamma interval for weighted counts: no weight can exceed 25" in x
        for x in found.assumptions
    )
    told = next(text for text in found.warnings if text.startswith("Rewards are rare"))
    assert "ends of wis, cwpdis, dr, model by resampling" in told
    alone = evaluate_policy(
        log, policy=policy, baseline=rule, reward_range=(0.0, 1.0), estimators=["is"]
    )
    assert not any(text.startswith("Rewards are rare") for text in alone.warnings)


def test_exact_ends_do_not_choose_their_terms_by_what_the_log_shows():
    """A process may go on after a row, and a log hold none that does: gamma = 0 says that it ends.

    Ends that were chosen by the log would fail in delta of the logs that go on, and in delta of the
    others by either kind of terms: in 1.25 delta of all, at worst.
    """
    rows, rule, policy, _ = rare_log(1, 4_000)

    def recorded(episode, ends):
        return Log.from_arrays(
            state=rows.state, action=rows.action, reward=rows.reward, episode=episode,
            terminated=ends,
        )  # fmt: skip

    log = recorded(np.arange(4_000), np.ones(4_000, bool))
    asked = {"policy": policy, "baseline": rule, "reward_range": (0.0, 1.0), "bound": "betting",
             "estimators": ["is"], "accept_baseline": True, "return_range": (0.0, 1.0)}  # fmt: skip
    told, seen = (evaluate_policy(log, **asked, gamma=gamma)["is"] for gamma in (0.0, 0.9))
    assert told.interval[1] < 0.7 * seen.interval[1]
    given = evaluate_policy(log, **asked, gamma=0.9, largest_weight=25.0)["is"]
    assert given.interval == told.interval
    # One episode of two rows: what the others would have taken of the level is not used.
    goes_on = np.ones(4_000, bool)
    goes_on[0] = False
    longer = recorded(np.maximum(np.arange(4_000), 1), goes_on)
    level = 0.05 * 0.75
    found = evaluate_policy(longer, **asked, gamma=0.0)["is"]
    assert found.interval != evaluate_policy(longer, **asked, gamma=1e-12)["is"].interval
    assert found.interval == pytest.approx(
        evaluate_policy(longer, **asked, gamma=1e-12, delta=level)["is"].interval, abs=1e-9
    )
