"""Rows of logs and of counts as weighted cells."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from posterior_problems import noisy_log, problem_of, taken

from spibb import Counts, Log, TabularPolicy
from spibb.posterior.model import PosteriorModel
from spibb.posterior.steps import PairSums, Steps
from spibb.testing import reference_model

COLUMNS = ("state", "action", "outcome", "reward", "weight", "squares")


@st.composite
def logs(draw, *, pays_by_transition=False, max_states=4):
    """Return logs with unknown next states, ends of all kinds, and ties."""
    n_states, n_actions = draw(st.integers(1, max_states)), draw(st.integers(1, 3))
    states = st.integers(0, n_states - 1)
    rewards = st.integers(-3, 3).map(float)
    row = st.tuples(
        states, st.integers(0, n_actions - 1), rewards, st.just(-1) | states, st.booleans()
    )
    rows = draw(st.lists(row, min_size=1, max_size=30))
    # At least one row counts.
    state, action, reward, following, ended = map(
        np.array, zip(*rows, (0, 0, 1.0, 0, False), strict=True)
    )
    if pays_by_transition:
        # One reward a transition, ends too: -1 is what an unknown state is called.
        table = np.array(
            draw(
                st.lists(
                    rewards, min_size=9 * n_states * n_actions, max_size=9 * n_states * n_actions
                )
            )
        )
        place = (state * n_actions + action) * (n_states + 1) + following + 1
        reward = table[place]
    return Log.from_arrays(
        state=state, action=action, reward=reward, next_state=following, terminated=ended,
        n_states=n_states, n_actions=n_actions,
    )  # fmt: skip


def table(steps):
    """Return rows and rewards by transition, whatever the cells."""
    found = {}
    for x, a, y, r, n, square in zip(*(getattr(steps, name) for name in COLUMNS), strict=True):
        found[x, a, y] = np.add(found.get((x, a, y), np.zeros(3)), [n, n * r, square])
    return found


@given(logs())
@settings(max_examples=60, deadline=None)
def test_cells_are_the_rows_of_the_log(log):
    steps = Steps.of_log(log)
    assert sorted(reference_model.rows_of_steps(steps)) == sorted(reference_model.rows_of_log(log))
    # Rows that do not differ are one cell; cells are in the order of pairs and outcomes.
    cells = list(zip(steps.state, steps.action, steps.outcome, steps.reward, strict=True))
    assert cells == sorted(set(cells))
    np.testing.assert_allclose(steps.squares, steps.weight * steps.reward**2)


@given(logs(pays_by_transition=True))
@settings(max_examples=100, deadline=None)
def test_counts_say_the_same_where_a_transition_has_one_reward(log):
    """Ends inside live states and unknown next states included."""
    # Where some rows of a transition end and others do not, counts hold their mean; that is theirs.
    of_log, of_counts = Steps.of_log(log), Steps.of_counts(Counts.from_log(log))
    assert of_counts.weight.min() > 0.0
    pair = of_counts.state * log.n_actions + of_counts.action
    assert (np.diff(pair) >= 0).all()
    one, other = table(of_log), table(of_counts)
    assert one.keys() == other.keys()
    for key, values in one.items():
        # Ends come together: of known and unknown states, with rewards of their own.
        np.testing.assert_allclose(other[key][:2], values[:2], atol=1e-9)
    sums = [PairSums.of(found) for found in (of_log, of_counts)]
    for name in ("n", "reward", "ends"):
        np.testing.assert_allclose(getattr(sums[0], name), getattr(sums[1], name), atol=1e-9)
    # Of rows whose next state is unknown, counts hold the mean; how they vary is in the pair.
    np.testing.assert_allclose(squares(sums[0]), squares(sums[1]), atol=1e-6)


def squares(sums):
    """Return sums of squared rewards by pair."""
    return sums.centred + 2.0 * sums.level * sums.reward - sums.n * sums.level**2


def test_without_squares_of_rewards_counts_suppose_the_widest_spread():
    log, _ = noisy_log(0)
    counts = Counts.from_log(log, spread=False)
    assert counts.paid is None
    sums = PairSums.of(Steps.of_counts(counts))
    low, high = counts.reward_range
    mean = counts.reward_sum / counts.n_sa
    np.testing.assert_allclose(sums.reward, counts.reward_sum)
    np.testing.assert_allclose(
        squares(sums), counts.n_sa * (mean**2 + ((high - low) / 2.0) ** 2), rtol=1e-12
    )


def test_counts_keep_how_rewards_of_a_transition_vary():
    log, _ = noisy_log(1)
    one, other = PairSums.of(Steps.of_log(log)), PairSums.of(Steps.of_counts(Counts.from_log(log)))
    np.testing.assert_allclose(squares(one), squares(other), rtol=1e-9)
    np.testing.assert_allclose(one.reward, other.reward, rtol=1e-9)
    np.testing.assert_allclose(one.count.toarray(), other.count.toarray())
    np.testing.assert_allclose(one.paid.toarray(), other.paid.toarray(), atol=1e-9)


@given(logs(), st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_sums_are_those_of_loops_over_rows(log, gamma, seed):
    steps, shape = Steps.of_log(log), (log.n_states, log.n_actions)
    sums, rows = PairSums.of(steps), reference_model.rows_of_log(log)
    v, w = np.random.default_rng(seed).normal(size=(2, log.n_states))
    n, of_v, _, scatter = reference_model.pair_moments(rows, v, w, gamma, shape)
    np.testing.assert_array_equal(sums.n, n)
    np.testing.assert_allclose(sums.mean(v, gamma), of_v, atol=1e-12)
    np.testing.assert_allclose(sums.mean(np.stack([w, v]), gamma)[1], of_v, atol=1e-12)
    np.testing.assert_allclose(sums.sums(v, gamma), n * of_v, atol=1e-10)
    np.testing.assert_allclose(sums.scatter(v[None], w[None], gamma)[0], scatter, atol=1e-9)
    np.testing.assert_allclose(
        sums.scatter(v[None], w[None], gamma), sums.scatter(w[None], v[None], gamma)
    )
    ends = [
        [sum(row[:3] == (x, a, len(v)) for row in rows) for a in range(shape[1])]
        for x in range(shape[0])
    ]
    np.testing.assert_array_equal(sums.ends, ends)
    count = np.zeros((*shape, len(v)))
    for row in rows:
        if row.outcome < len(v):
            count[row[:3]] += 1
    np.testing.assert_array_equal(sums.count.toarray().reshape(count.shape), count)
    np.testing.assert_array_equal(sums.by_action(), count.sum(axis=0))


def test_sums_of_some_steps_and_of_the_others_are_sums_of_all():
    log, _ = noisy_log(2)
    steps = Steps.of_log(log)
    kept = steps.reward > 0.0
    whole, one, other = (PairSums.of(steps, which) for which in (None, kept, ~kept))
    for name in ("n", "reward", "ends"):
        np.testing.assert_allclose(getattr(whole, name), getattr(one, name) + getattr(other, name))
    np.testing.assert_allclose(squares(whole), squares(one) + squares(other))
    np.testing.assert_allclose(PairSums.of(taken(steps, kept)).reward, one.reward)
    assert 0 < kept.sum() < len(kept)


def test_transitions_of_all_policies_that_made_a_log_count():
    """What follows an action does not depend on the behaviour policy."""
    log, policy = noisy_log(3)
    names = np.where(log.episode % 2 == 0, "old", "new")
    both = Log.from_arrays(
        **{name: getattr(log, name) for name in ("state", "action", "reward", "next_state")},
        terminated=log.terminated, truncated=log.truncated, episode=log.episode, policy=names,
    )  # fmt: skip
    problem = problem_of(both, policy, improve_on="old")
    assert len(problem.log) < len(log)
    np.testing.assert_array_equal(PairSums.of(Steps.of(problem)).n, problem.counts.n_sa)
    alone = PosteriorModel.of(problem_of(log, policy))
    np.testing.assert_allclose(
        PosteriorModel.of(problem).reward, alone.reward, rtol=1e-2, atol=1e-2
    )


def test_problems_of_counts_use_them():
    log, policy = noisy_log(4)
    counts = Counts.from_log(log)
    problem = problem_of(counts, policy)
    assert problem.log is None
    np.testing.assert_array_equal(Steps.of(problem).weight, Steps.of_counts(counts).weight)


def test_counts_of_equal_rewards_have_no_spread_but_rounding():
    for reward in (1e9, 1e-9, 0.1):
        log = Log.from_arrays(
            state=[0] * 30, action=[0, 1] * 15, reward=[reward] * 30, next_state=[0] * 30,
            terminated=[False] * 30,
        )  # fmt: skip
        steps = Steps.of_counts(Counts.from_log(log))
        np.testing.assert_allclose(steps.squares, steps.weight * steps.reward**2, rtol=1e-14)


def test_merged_counts_are_those_of_the_merged_log():
    log, _ = noisy_log(5)
    half = Counts.from_log(log)
    both = Steps.of_counts(half + half)
    one = Steps.of_counts(half)
    for name in ("state", "action", "outcome"):
        np.testing.assert_array_equal(getattr(both, name), getattr(one, name))
    np.testing.assert_allclose(both.reward, one.reward)
    np.testing.assert_allclose(both.weight, 2 * one.weight)
    np.testing.assert_allclose(both.squares, 2 * one.squares, rtol=1e-9)


def test_no_reward_spread_is_lost_when_counts_forget_rewards_of_transitions():
    """Counts without `paid` make nothing surer."""
    log, _ = noisy_log(6, rare=0.0)
    counts = Counts.from_log(log)
    v = np.random.default_rng(0).normal(size=(1, 4))
    known, unknown = (
        PairSums.of(Steps.of_counts(one)).scatter(v, v, 0.9).sum()
        for one in (counts, replace(counts, paid=None))
    )
    assert unknown > known


def test_policy_of_one_state():
    log = Log.from_arrays(state=[0], action=[0], reward=[2.0], episode=[0])
    steps = Steps.of(problem_of(log, TabularPolicy([[1.0]])))
    assert [getattr(steps, name).tolist() for name in COLUMNS] == [
        [0],
        [0],
        [1],
        [2.0],
        [1.0],
        [4.0],
    ]
