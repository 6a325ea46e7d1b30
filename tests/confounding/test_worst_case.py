"""The least value under an unrecorded cause equals that of a list of all ways to weigh a log."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb.confounding.tails import honest_tails, lower_tails, lowest_places, variances
from spibb.confounding.worst_case import LARGEST_ODDS_RATIO, Adversary
from spibb.data.log import Log
from spibb.representation.steps import Steps
from spibb.testing.confounded import PROCESSES
from spibb.testing.reference_confounding import least_value
from spibb.testing.strategies import distributions

EASY = settings(max_examples=60, deadline=None)
RATIOS = st.sampled_from((1.0, 1.3, 2.0, 3.0, 10.0))
DISCOUNTS = st.sampled_from((0.0, 0.5, 0.9, 1.0))


def log_of(shape, episodes):
    rows = [row for one in episodes for row in one]
    is_last = np.concatenate([np.arange(len(one)) == len(one) - 1 for one in episodes])
    terminated = np.array([row[3] for row in rows])
    return Log.from_arrays(
        state=[row[0] for row in rows], action=[row[1] for row in rows],
        reward=[row[2] for row in rows], terminated=terminated, truncated=is_last & ~terminated,
        episode=np.repeat(np.arange(len(episodes)), [len(one) for one in episodes]),
        n_states=shape[0], n_actions=shape[1],
    )  # fmt: skip


@st.composite
def small_logs(draw):
    """Return sizes and episodes; some states and actions never occur."""
    n_states, n_actions = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    row = st.tuples(
        st.integers(0, n_states - 1), st.integers(0, n_actions - 1), st.integers(-3, 3).map(float)
    )
    episodes, left = [], 5
    while left > 0 and (not episodes or draw(st.booleans())):
        rows = draw(st.lists(row, min_size=1, max_size=left))
        ends = draw(st.booleans())
        episodes.append([(*one, ends and k == len(rows) - 1) for k, one in enumerate(rows)])
        left -= len(rows)
    return (n_states, n_actions), episodes


@EASY
@given(small_logs(), DISCOUNTS, RATIOS, st.data())
def test_no_way_to_weigh_the_log_has_a_lower_value(found, gamma, odds_ratio, data):
    (n_states, n_actions), episodes = found
    steps = Steps.of(log_of((n_states, n_actions), episodes))
    if steps is None:
        return
    rows = st.lists(distributions(n_actions), min_size=n_states, max_size=n_states).map(np.array)
    table, baseline = data.draw(rows), data.draw(rows)
    if data.draw(st.booleans()):
        table[0] = baseline[0]  # the behaviour goes on there
    fast = Adversary.of(steps, table, baseline, gamma).least(odds_ratio)
    slow = least_value(episodes, table, baseline, gamma, odds_ratio)
    assert fast.value == pytest.approx(slow, rel=1e-6, abs=1e-9)


@cache
def asked(name, seed=0):
    """An adversary for a log of a process, of 40 episodes."""
    process = PROCESSES[name]()
    steps = Steps.of(process.draw(40, seed))
    return Adversary.of(steps, process.policy, process.baseline, process.gamma)


@pytest.mark.parametrize("name", ["treatment", "stays", "queue", "many states"])
def test_what_is_wanted_is_reached(name):
    adversary = asked(name)
    plain = adversary.least(1.0)
    for odds_ratio in (1.2, 2.0, 6.0):
        wanted = adversary.least(odds_ratio).value
        found = adversary.reaching(wanted, plain)
        assert found.odds_ratio == pytest.approx(odds_ratio, rel=0.01)
    assert adversary.reaching(plain.value + 1.0, plain).odds_ratio == 1.0
    far = adversary.reaching(plain.value - 1e6, plain)
    assert far.odds_ratio == pytest.approx(LARGEST_ODDS_RATIO)


@pytest.mark.parametrize("name", ["treatment", "stays", "queue", "many states"])
def test_a_stronger_cause_can_do_more_and_the_opposite(name):
    adversary = asked(name)
    ratios = 1.0, 1.1, 1.5, 3.0, 20.0
    least = [adversary.least(one).value for one in ratios]
    most = [-adversary.opposite.least(one).value for one in ratios]
    assert np.all(np.diff(least) < 0.0)
    assert np.all(np.diff(most) > 0.0)
    if name == "many states":  # what a state without data for an action earns is unknown
        assert least[0] < most[0]
    else:
        assert least[0] == pytest.approx(most[0])


@pytest.mark.parametrize("odds_ratio", [1.0, 1.7])
def test_influences_are_what_leaving_episodes_out_changes(odds_ratio):
    # The jackknife needs no formula: the log is judged again without each of its episodes.
    process = PROCESSES["stays"]()
    log = process.draw(300, 3)
    steps = Steps.of(log)
    whole = Adversary.of(steps, process.policy, process.baseline, process.gamma).least(odds_ratio)
    episode, left_out = np.cumsum(log.is_first) - 1, []
    for block in range(steps.n_blocks):
        others = Steps.of(log.take(episode != block))
        found = Adversary.of(others, process.policy, process.baseline, process.gamma)
        left_out.append(found.least(odds_ratio).value)
    jackknife = (whole.value - np.array(left_out)) * (steps.n_blocks - 1) / steps.n_blocks
    assert np.corrcoef(jackknife, whole.influence)[0, 1] > 0.99
    assert whole.influence.std() == pytest.approx(jackknife.std(), rel=0.05)
    assert abs(whole.influence.sum()) < 1e-9


@EASY
@given(st.lists(st.lists(st.integers(0, 4).map(float), min_size=1, max_size=9), min_size=1), RATIOS)
def test_tails_and_their_weights(groups, odds_ratio):
    begin = np.append(0, np.cumsum([len(one) for one in groups]))
    outcome = np.concatenate(groups)
    lowest = np.array([min(one) - 0.5 for one in groups])
    tails = lower_tails(outcome, begin, lowest, odds_ratio)
    found, spread = lowest_places(outcome, begin), variances(outcome, begin)
    for g, one in enumerate(groups):
        weight = np.append(tails.added[g], tails.factor[begin[g] : begin[g + 1]])
        most = (1.0 + odds_ratio) / (len(one) + 1)
        assert np.all((weight >= -1e-9) & (weight <= max(most, 0.0) + 1e-9))
        assert weight.sum() == pytest.approx(1.0)
        assert tails.mean[g] == pytest.approx(np.mean(one))
        rows = [lowest[g], *one]
        assert tails.tail[g] == pytest.approx(lowest_mean(rows, 1.0 / (1.0 + odds_ratio)))
        assert weight @ rows == pytest.approx(tails.tail[g])
        assert outcome[found[g]] == min(one)
        assert spread[g] == pytest.approx(np.var(one))


def lowest_mean(values, share):
    """Mean of the lowest share of values, the last one taken in part."""
    left, total = share * len(values), 0.0
    for value in sorted(values):
        total += min(1.0, left) * value
        left = max(0.0, left - 1.0)
    return total / (share * len(values))


@pytest.mark.parametrize("odds_ratio", [1.5, 2.0, 4.0])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_honest_tails_are_not_too_high_on_average(n, odds_ratio):
    # All samples of n of three outcomes, each as likely.
    outcomes = 0.0, 1.0, 3.0
    samples = np.stack(np.meshgrid(*[outcomes] * n), axis=-1).reshape(-1, n)
    begin = np.arange(len(samples) + 1) * n
    true = lowest_mean(outcomes * 1_000, 1.0 / (1.0 + odds_ratio))
    lowest = np.zeros(len(samples))
    assert honest_tails(samples.ravel(), begin, lowest, odds_ratio).mean() <= true + 1e-9
    plain = [lowest_mean(one, 1.0 / (1.0 + odds_ratio)) for one in samples]
    assert np.mean(plain) > true


def test_honest_tails_by_leaving_each_row_out():
    rng = np.random.default_rng(2)
    groups = [rng.normal(size=n) for n in (1, 2, 3, 8, 40)]
    begin = np.append(0, np.cumsum([len(one) for one in groups]))
    found = honest_tails(np.concatenate(groups), begin, np.full(5, -9.0), 2.0)
    for value, one in zip(found, groups, strict=True):
        assert value == pytest.approx(-9.0 if len(one) == 1 else slow_honest_tail(one, 2.0))


def slow_honest_tail(values, odds_ratio):
    """Each row's own term, with thresholds that the other rows choose, mixed by their places."""
    wanted = max(1.0, (len(values) - 1) / (1.0 + odds_ratio))
    upper, total = math.ceil(wanted - 1e-9), 0.0
    for place, share in ((upper, 1.0 - (upper - wanted)), (upper - 1, upper - wanted)):
        if share > 0.0:
            for k, value in enumerate(values):
                q = np.sort(np.delete(values, k))[place - 1]
                total += share * (q - max(q - value, 0.0) * (1.0 + odds_ratio))
    return total / len(values)
