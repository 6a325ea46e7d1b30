"""A model and the log: predictions, truncated records, rare rewards, missing steps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spibb
from spibb.data.log import Log
from spibb.mdp.batch import ModelArrays, Rows
from spibb.ope.model_fit import FEWEST, find_model_fit
from spibb.testing import reference_representation as slow
from spibb.testing.strategies import policies

EASY = settings(max_examples=40, deadline=None)


def process(rng, n_states=5, n_actions=2, ending=0.1):
    transition = rng.dirichlet(np.full(n_states, 0.5), (n_states, n_actions))
    ends = ending * rng.random((n_states, n_actions))
    return spibb.TabularMDP(
        transition * (1.0 - ends[..., None]),
        rng.normal(size=(n_states, n_actions)),
        0.95,
        ending=ends,
    )


def again(log, keep=None, **columns):
    """Return a log with other columns, and without some rows."""
    keep = np.ones(len(log), dtype=bool) if keep is None else keep
    names = ("state", "action", "reward", "next_state", "terminated", "truncated", "episode")
    given_ = {name: columns.get(name, getattr(log, name))[keep] for name in (*names, "step")}
    return Log.from_arrays(**given_, n_states=log.n_states, n_actions=log.n_actions)


def fit_of(log, baseline):
    problem = spibb.Problem.of(log, baseline=baseline, gamma=0.95)
    return find_model_fit(problem.log, problem.estimate(), baseline.probabilities)


def dense(model, n_states, n_actions):
    found = np.zeros((n_states * n_actions, n_states))
    for pair in range(len(found)):
        here = slice(model.rows.indptr[pair], model.rows.indptr[pair + 1])
        np.add.at(found[pair], model.rows.indices[here], model.rows.data[here])
    return found.reshape(n_states, n_actions, n_states)


@EASY
@given(
    st.integers(0, 1_000), st.integers(1, 3), st.integers(1, 3), st.sampled_from((0.0, 0.5, 1.0)),
    st.data(),
)  # fmt: skip
def test_what_is_predicted_and_how_certainly(seed, n_states, n_actions, gamma, data):
    """Each difference equals the slow one: completed sums, and the larger of two errors."""
    rng = np.random.default_rng(seed)
    policy = data.draw(policies(n_states, n_actions)).probabilities
    goes_on = rng.random((n_states, n_actions, 1))
    transition = goes_on * rng.dirichlet(np.ones(n_states), (n_states, n_actions))
    reward = rng.normal(size=(n_states, n_actions))
    lengths = rng.integers(1, 5, 45)
    n, last = int(lengths.sum()), np.cumsum(lengths) - 1
    terminated, truncated = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    terminated[last[::3]] = True
    truncated[last] = ~terminated[last]
    log = Log.from_arrays(
        state=rng.integers(0, n_states, n), action=rng.integers(0, n_actions, n),
        reward=rng.normal(size=n), terminated=terminated, truncated=truncated,
        episode=np.repeat(np.arange(45), lengths), n_states=n_states, n_actions=n_actions,
    )  # fmt: skip
    assert log.next_state[last].max() == -1  # what follows a truncated record is not known
    size = n_states * n_actions
    rows = Rows(
        np.arange(0, size * n_states + 1, n_states), np.tile(np.arange(n_states), size),
        transition.ravel(),
    )  # fmt: skip
    model = ModelArrays(rows, reward, 1.0 - goes_on[..., 0], np.ones(n_states) / n_states, gamma)
    fit = find_model_fit(log, model, policy)
    variance = np.zeros((n_states, n_actions))
    for x, a in np.ndindex(n_states, n_actions):
        own = log.reward[(log.state == x) & (log.action == a)]
        variance[x, a] = own.var() if len(own) else 0.0
    asked = {}
    for k in range(5):
        asked[k] = slow.predicted(transition, reward, variance, policy, gamma, k)
    assert {one.horizon for one in fit.differences} == ({1} if gamma == 0.0 else {1, 2, 4})
    for one in fit.differences:
        h, sums, expected, spread = one.horizon, [], [], []
        for start, length in zip(last - lengths + 1, lengths, strict=True):
            ends = terminated[start + length - 1]
            c = min(length, h) if ends or length >= h else length - 1
            x = log.state[start]
            if c == 0 or one.state not in (None, x):
                continue
            total = sum(gamma**k * log.reward[start + k] for k in range(c))
            stopped = not ends and length < h
            if stopped:
                total += gamma**c * asked[h - c][0][log.state[start + c]]
            left = gamma ** (2 * c) * asked[h - c][1][log.state[start + c]] if stopped else 0.0
            sums.append(total)
            expected.append(asked[h][0][x])
            spread.append(asked[h][1][x] - left)
        off = np.subtract(sums, expected)
        assert one.n == len(sums)
        assert one.share == pytest.approx(len(sums) / 45)
        assert (one.log, one.model) == pytest.approx((np.mean(sums), np.mean(expected)))
        error = np.sqrt(max(off.var(ddof=1), np.mean(spread), 0.0) / len(off))
        assert one.error == pytest.approx(error, rel=1e-6, abs=1e-7)


def randomly_truncated(rng):
    """Records stop with a probability of .1 after each step, whatever happens."""
    baseline = spibb.TabularPolicy(rng.dirichlet([2.0, 2.0], 5))
    log = Log.sample(process(rng, ending=0.2), baseline, n_episodes=250, max_steps=40, rng=rng)
    lengths = np.diff(np.append(np.flatnonzero(log.is_first), len(log)))
    stops = np.repeat(rng.geometric(0.1, len(lengths)), lengths)
    last = log.step == stops - 1
    truncated = (log.truncated | last) & ~log.terminated
    return again(log, log.step < stops, truncated=truncated), baseline


def rarely_paid(rng):
    """Two rows of a hundred are paid, so that 20 records of one state may have no such row."""
    baseline = spibb.TabularPolicy(rng.dirichlet([2.0, 2.0], 5))
    log = Log.sample(process(rng), baseline, n_episodes=150, max_steps=20, rng=rng)
    return again(log, reward=(rng.random(len(log)) < 0.02).astype(float)), baseline


def with_gaps(rng):
    """A tenth of the rows is missing."""
    baseline = spibb.TabularPolicy(rng.dirichlet([2.0, 2.0], 5))
    log = Log.sample(process(rng), baseline, n_episodes=150, max_steps=40, rng=rng)
    return again(log, rng.random(len(log)) < 0.9), baseline


def few_records(rng):
    baseline = spibb.TabularPolicy(rng.dirichlet([2.0, 2.0], 5))
    mdp = process(rng, ending=0.0)
    return Log.sample(mdp, baseline, n_episodes=3, max_steps=400, rng=rng), baseline


@pytest.mark.parametrize("make", [randomly_truncated, rarely_paid, with_gaps, few_records])
def test_a_sound_log_does_not_contradict_its_own_model(make):
    """Before truncated records were completed, 117, 200, 17 and 0 of 200 such logs did."""
    fits = [fit_of(*make(np.random.default_rng(seed))) for seed in range(25)]
    assert all(fit is not None for fit in fits)
    assert sum(fit.worst() is not None for fit in fits) == 0
    assert fits[0].are_pieces == (make is few_records)


def remembering(n_episodes, rng, n_steps=30):
    """The only state hides which of two phases pays; a record begins in the phase without pay."""
    phase, rows = np.zeros(n_episodes), []
    for _ in range(n_steps):
        rows.append(phase.copy())
        phase = np.where(rng.random(n_episodes) < 0.1, 1.0, phase)
    return np.array(rows).T + rng.normal(0.0, 0.1, (n_episodes, n_steps))


@pytest.mark.parametrize("n_truncated", [0, 1, 100])
def test_truncated_records_do_not_switch_the_comparison_off(n_truncated):
    """One state, whose rewards begin low: a model of one state expects their mean at once."""
    reward = remembering(100, np.random.default_rng(0))
    terminated = np.zeros(reward.shape, dtype=bool)
    terminated[n_truncated:, -1] = True
    log = Log.from_arrays(
        state=np.zeros(reward.size, int), action=np.tile([0, 1], reward.size // 2),
        reward=reward.ravel(), terminated=terminated.ravel(),
        truncated=np.repeat(np.arange(100) < n_truncated, 30)
        & (np.tile(np.arange(30), 100) == 29),
        episode=np.repeat(np.arange(100), 30),
    )  # fmt: skip
    fit = fit_of(log, spibb.TabularPolicy([[0.5, 0.5]]))
    worst = fit.worst()
    assert worst.model > worst.log
    assert worst.size > 1.0
    assert fit.longest.horizon == 30


def test_what_is_recorded_after_an_end_or_a_gap_does_not_count():
    n = 40
    state = np.tile([0, 0, 0], n)
    log = Log.from_arrays(
        state=state, action=state, reward=np.tile([1.0, 1.0, 50.0], n),
        terminated=np.tile([False, True, False], n), truncated=np.tile([False, False, True], n),
        episode=np.repeat(np.arange(n), 3), next_state=state, n_actions=1,
    )  # fmt: skip
    model = ModelArrays(
        Rows(np.array([0, 1]), np.array([0]), np.array([0.5])),
        np.array([[1.0]]), np.array([[0.5]]), np.ones(1), 1.0,
    )  # fmt: skip
    found = find_model_fit(log, model, np.ones((1, 1)))
    assert {(one.horizon, one.log) for one in found.differences} == {(1, 1.0), (2, 2.0)}
    gap = Log.from_arrays(
        state=state, action=state, reward=np.tile([1.0, 1.0, 50.0], n), next_state=state,
        terminated=np.tile([False, False, True], n), episode=np.repeat(np.arange(n), 3),
        step=np.tile([0, 1, 5], n), n_actions=1,
    )  # fmt: skip
    found = find_model_fit(gap, model, np.ones((1, 1)))
    # Two steps are known; a gap is no end, so that the model completes longer horizons.
    assert {(one.horizon, one.log) for one in found.differences} == {(1, 1.0), (2, 2.0)}


@pytest.mark.parametrize("n_records", [1, FEWEST - 1])
def test_too_few_rows_are_not_compared(n_records):
    log = Log.from_arrays(
        state=[0] * n_records, action=[0] * n_records, reward=[1.0] * n_records,
        episode=range(n_records), truncated=[True] * n_records, next_state=[0] * n_records,
    )  # fmt: skip
    assert fit_of(log, spibb.TabularPolicy([[1.0]])) is None
    assert find_model_fit(None, None, None) is None


def test_rewards_of_any_size():
    rng = np.random.default_rng(1)
    baseline = spibb.TabularPolicy(rng.dirichlet([2.0, 2.0], 5))
    log = Log.sample(process(rng), baseline, n_episodes=60, max_steps=20, rng=rng)
    fits = [fit_of(again(log, reward=log.reward * size), baseline) for size in (1.0, 1e99, 1e-9)]
    for one, large, _ in zip(*(fit.differences for fit in fits), strict=True):
        assert large.log == pytest.approx(1e99 * one.log)
        assert large.error == pytest.approx(1e99 * one.error, rel=1e-6)
        assert np.isfinite([large.model, large.error]).all()
