"""Does this baseline make these actions? By a ratio of likelihoods, held to slow loops."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from spibb import Counts, Log, Problem, TabularMDP, TabularPolicy, inspect
from spibb.data.baseline_fit import (
    FIT_LEVEL,
    REFUSED_DISTANCE,
    _log_mean,
    _ratios,
    baseline_fit,
)
from spibb.errors import PolicyError
from spibb.testing.reference import reference_baseline_fit

tables = st.integers(0, 2**32 - 1).map(lambda seed: _drawn(np.random.default_rng(seed)))


def _drawn(rng):
    shape = (int(rng.integers(1, 5)), int(rng.integers(1, 5)))
    b = rng.dirichlet(np.full(shape[1], 0.5), shape[0])
    b = np.where(rng.random(shape) < 0.2, 0.0, b) + 1e-12 * (np.arange(shape[1]) == 0)
    b /= b.sum(axis=1, keepdims=True)
    n = np.array([rng.multinomial(rng.integers(0, 30), row) for row in b])
    return n, b


@given(tables)
@settings(max_examples=80, deadline=None)
def test_it_is_the_slow_one(case):
    n, b = case
    found = baseline_fit(n, b)
    p_value, distance = reference_baseline_fit(n, b)
    assert found.p_value == pytest.approx(p_value, rel=1e-6, abs=1e-12)
    assert found.distance == pytest.approx(distance, abs=1e-9)


@pytest.mark.statistical
def test_p_values_are_valid_whenever_the_log_stops():
    """A gambler who may stop at the best moment still exceeds 1 / p with probability p at most."""
    rng, n_logs = np.random.default_rng(0), 500
    b = np.array([[0.5, 0.5], [0.9, 0.1], [0.999, 0.001]])
    n_low = 0
    for _ in range(n_logs):
        n, best = np.zeros((3, 2), dtype=np.int64), 1.0
        for _ in range(20):
            x = int(rng.integers(3))
            n[x] += rng.multinomial(1 + int(n[x].sum() % 5), b[x])
            best = min(best, baseline_fit(n, b).p_value)
        n_low += best <= 0.05
    assert n_low <= binom.ppf(0.999, n_logs, 0.05)


@pytest.mark.statistical
def test_chance_is_taken_off_the_distance():
    rng = np.random.default_rng(1)
    b = rng.dirichlet(np.ones(6), 400)
    n = np.array([rng.multinomial(rng.integers(1, 40), row) for row in b])
    fit = baseline_fit(n, b)
    assert abs(fit.distance) < 0.01
    frequencies = n / n.sum(axis=1, keepdims=True)
    assert np.average(np.abs(frequencies - b).sum(axis=1) / 2, weights=n.sum(axis=1)) > 0.1


def rounded(b, rule):
    """Round to two decimals; no action goes to 0, and rows sum to one."""
    table = np.maximum(np.round(b, 2), 0.01)
    if rule == "divided":
        return table / table.sum(axis=1, keepdims=True)
    table[np.arange(len(b)), table.argmax(axis=1)] += 1.0 - table.sum(axis=1)
    return table


@pytest.mark.parametrize("rule", ["divided", "largest"])
@pytest.mark.parametrize("n_actions", [2, 5, 10])
@pytest.mark.parametrize("n_states", [20, 10_000])
def test_a_rounded_baseline_is_not_refused(n_states, n_actions, rule):
    rng = np.random.default_rng(n_states + n_actions)
    b = np.maximum(rng.dirichlet(np.ones(n_actions), n_states), 0.006)
    b /= b.sum(axis=1, keepdims=True)
    n = rng.multinomial(10_000_000 // n_states, b)
    assert n.sum() == 10_000_000
    fit = baseline_fit(n, rounded(b, rule))
    assert not fit.is_refused
    assert fit.distance < REFUSED_DISTANCE
    if n_states == 20:
        assert fit.p_value < 1e-6  # it is seen, and it is small


def spread(rng, share, *, common=0, n_rows=500, n_states=5_000):
    """Return rows of a policy in rare states, and of a coin in common ones."""
    rare = np.bincount(rng.integers(0, n_states, n_rows), minlength=n_states)
    taken = rng.binomial(rare, share)
    often = rng.binomial(2_000, 0.5, common)
    ones, rows = np.append(often, taken), np.append(np.full(common, 2_000), rare)
    return np.stack([rows - ones, ones], axis=1)


@pytest.mark.parametrize("common", [0, 1, 20])
def test_a_difference_spread_over_rare_states_is_seen(common):
    """In 78 % of the rows of states seen once an action is taken, and the baseline says 40 %."""
    n = spread(np.random.default_rng(3), 0.78, common=common)
    b = np.tile([[0.6, 0.4]], (len(n), 1))
    b[:common] = 0.5
    assert _log_mean(_ratios(n, b).sum(axis=1)) < -np.log(FIT_LEVEL), "no state says it alone"
    fit = baseline_fit(n, b)
    assert fit.p_value < 1e-12
    assert fit.pooled.action in (0, 1)
    assert fit.pooled.n_states > 300
    if common == 0:
        assert fit.is_refused
        assert fit.distance == pytest.approx(0.38, abs=0.06)
    right = spread(np.random.default_rng(3), 0.4, common=common)
    assert baseline_fit(right, b).p_value > 0.01


def test_preferences_that_are_turned_in_rare_states_are_seen():
    """Each action is taken as often as the baseline would, and where it would not."""
    rng = np.random.default_rng(0)
    b = np.tile([[0.9, 0.1], [0.1, 0.9]], (200, 1))
    n = np.array([rng.multinomial(1, row[::-1]) for row in b])
    fit = baseline_fit(n, b)
    assert fit.is_refused
    assert fit.pooled.action is None
    assert fit.distance == pytest.approx(0.64, abs=0.1)
    with pytest.raises(PolicyError, match=r"gives the logged actions a mean probability of 0\.2"):
        Problem.of(counted_once(n), baseline=TabularPolicy(b), gamma=0.0)


def counted_once(n):
    state, action = np.nonzero(n)
    return Log.from_arrays(state=state, action=action, reward=np.zeros(len(state)))


@pytest.mark.statistical
def test_small_sound_logs_are_seldom_turned_away():
    """Many logs of few rows, in states seen once or often, of baselines with rare actions."""
    rng, n_logs, n_low = np.random.default_rng(5), 2_000, 0
    for _ in range(n_logs):
        n, b = small_log(rng)
        n_low += baseline_fit(n, b).p_value < FIT_LEVEL
    assert n_low <= binom.ppf(0.999, n_logs, FIT_LEVEL)


def small_log(rng):
    """Return the counts of a log of one to a thousand rows, and the baseline that made it."""
    shape = int(rng.integers(1, 200)), int(rng.integers(2, 6))
    b = rng.dirichlet(np.full(shape[1], rng.choice([0.1, 1.0, 10.0])), shape[0])
    often = rng.dirichlet(np.full(shape[0], rng.choice([0.1, 1.0])))
    rows = rng.multinomial(int(10 ** rng.uniform(0, 3)), often)
    return np.array([rng.multinomial(k, row) for k, row in zip(rows, b, strict=True)]), b


def counted(n, **more):
    n = np.asarray(n)
    model = TabularMDP(np.zeros((*n.shape, n.shape[0])), np.zeros(n.shape), 0.9)
    entries = np.zeros(0, dtype=np.int64)
    return Counts.from_tally(model, n.ravel(), entries, np.zeros(1, dtype=np.int64))


def test_a_refusal_says_where_and_what_to_do():
    coin = TabularPolicy([[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(PolicyError) as refused:
        Problem.of(counted([[10, 10], [60, 0]]), baseline=coin, gamma=0.9)
    for told in ("state 1, where 0 was taken in 60 of 60 rows", "gives it 0.5",
                 "--baseline estimate", "--accept-baseline", "spibb inspect"):  # fmt: skip
        assert told in str(refused.value)
    Problem.of(counted([[10, 10], [60, 0]]), baseline=coin, gamma=0.9, accept_baseline=True)
    Problem.of(counted([[10, 10], [60, 0]]), baseline="estimate", gamma=0.9)


def test_both_chance_and_size_are_needed():
    small = baseline_fit(np.array([[515_000, 485_000]]), np.array([[0.5, 0.5]]))
    assert small.p_value < 1e-6
    assert small.distance == pytest.approx(0.015, abs=1e-3)
    assert not small.is_refused
    few = baseline_fit(np.array([[6, 0]]), np.array([[0.5, 0.5]]))
    assert few.distance > 0.3
    assert not few.is_refused
    assert few.p_value >= math.ldexp(1, -6)
    with pytest.raises(PolicyError, match="does not make the actions"):
        Problem.of(counted([[530_000, 470_000]]), baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9)


def stopped_at(action, n_episodes, probabilities, seed=0):
    """Return a log of one state in which a record stops at an action, and its frequencies."""
    rng = np.random.default_rng(seed)
    actions, episodes, stops = [], [], []
    for episode in range(n_episodes):
        for t in range(30):
            taken = int(rng.choice(len(probabilities), p=probabilities))
            actions.append(taken)
            episodes.append(episode)
            stops.append(taken == action or t == 29)
            if stops[-1]:
                break
    return Log.from_arrays(
        state=[0] * len(actions), action=actions, reward=[0.0] * len(actions), episode=episodes,
        truncated=stops, terminated=[False] * len(actions),
    )  # fmt: skip


def test_a_right_baseline_is_not_refused_where_records_stop_at_an_action():
    """The last row of each record counts no transition, but shows an action."""
    log = stopped_at(1, 200, [0.9, 0.1])
    problem = Problem.of(log, baseline=TabularPolicy([[0.9, 0.1]]), gamma=0.9)
    assert problem.fit.p_value > 0.01
    Problem.of(log, baseline="estimate", gamma=0.9)


def test_an_impossible_action_is_found_in_rows_without_a_transition():
    log = stopped_at(2, 50, [0.25, 0.25, 0.5])
    with pytest.raises(PolicyError, match="probability 0 to actions that were taken in 50 rows"):
        Problem.of(log, baseline=TabularPolicy([[0.5, 0.5, 0.0]]), gamma=0.9)


def test_an_impossible_action_has_probability_0():
    fit = baseline_fit(np.array([[5, 3], [4, 4]]), np.array([[1.0, 0.0], [0.5, 0.5]]))
    assert fit.p_value == 0.0
    assert fit.is_refused
    assert int(np.argmax(fit.evidence)) == 0
    assert baseline_fit(np.array([[5, 0]]), np.array([[1.0, 0.0]])).p_value == 1.0


def test_inspect_counts_the_rows_that_a_refusal_counts():
    log = stopped_at(2, 50, [0.25, 0.25, 0.5])
    right = inspect(log, baseline=TabularPolicy([[0.25, 0.25, 0.5]]))
    assert "baseline" not in {one.check for one in right.findings}
    wrong = inspect(log, baseline=TabularPolicy([[0.5, 0.5, 0.0]]))
    (finding,) = [one for one in wrong.findings if one.check == "baseline"]
    assert "probability 0 to actions that were taken in 50 rows" in finding.found


def test_counts_are_held_to_the_baseline_as_their_log_is():
    coin, rows = TabularPolicy([[0.5, 0.5]]), 2_000
    log = Log.from_arrays(
        state=[0] * rows, action=[int(i % 20 < 9) for i in range(rows)], reward=[0.0] * rows,
        episode=range(rows), terminated=[True] * rows,
    )  # fmt: skip
    of_log, of_counts = (Problem.of(data, baseline=coin) for data in (log, Counts.from_log(log)))
    assert of_counts.fit.p_value == of_log.fit.p_value < 0.01
    cut = Counts.from_log(stopped_at(1, 50, [0.9, 0.1]))
    kept = Problem.of(cut, baseline=TabularPolicy([[0.99, 0.01]]), gamma=0.9)
    assert kept.fit is None, "rows that the counts lack may be those of one action"
