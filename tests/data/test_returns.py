"""First-visit returns: by hand, and against a plain loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb.data.log import Log
from spibb.data.returns import first_visit_returns
from spibb.errors import DataError

# Episode 0: (0, a) 1, (1, a) 2, (0, a) 4, end.   Episode 1: (0, a) 8, truncated.
TWO = {
    "state": [0, 1, 0, 0],
    "action": [0, 0, 0, 0],
    "reward": [1.0, 2.0, 4.0, 8.0],
    "episode": [0, 0, 0, 1],
    "truncated": [False, False, False, True],
}


def test_by_hand():
    """gamma = 1/2: from its first visit on, (0, a) returns 1 + 1 + 1 = 3, then 8 cut after 1.

    What was cut off counts as the log's average: rows pay 15 / 4 and one in four ends, which is
    worth 15 / 4 / (1 - 3 / 8) = 6. Half of that is added to the 8.
    """
    returns = first_visit_returns(Log.from_arrays(**TWO, n_actions=2), gamma=0.5)
    assert returns.completion == 6.0
    assert returns.n.tolist() == [[2, 0], [1, 0]]
    assert returns.mean.tolist() == [[7.0, 0.0], [4.0, 0.0]]
    assert returns.variance.tolist() == [[32.0, 0.0], [0.0, 0.0]]
    assert returns.cut.tolist() == [[0.25, 0.0], [0.0, 0.0]]
    assert returns.cut_square.tolist() == [[0.125, 0.0], [0.0, 0.0]]


def test_truncation_counts_the_steps_that_are_there():
    """Cut after 3 steps from the first row on, after 1 from the last; 1 for ever is worth 2."""
    log = Log.from_arrays(
        state=[0, 1, 2], action=[0] * 3, reward=[1.0] * 3, episode=[0] * 3,
        truncated=[False, False, True],
    )  # fmt: skip
    returns = first_visit_returns(log, gamma=0.5)
    assert returns.mean.ravel().tolist() == [2.0, 2.0, 2.0]
    assert returns.cut.ravel().tolist() == [0.125, 0.25, 0.5]


def test_without_a_discount_nothing_is_lost():
    returns = first_visit_returns(Log.from_arrays(**TWO), gamma=1.0)
    # The average return, 15 / 4 a row over one end in four rows, stands for what was cut off.
    assert returns.mean.ravel().tolist() == [(7.0 + 8.0 + 15.0) / 2, 6.0]
    assert returns.cut.ravel().tolist() == [0.5, 0.0]


def test_where_nothing_ends_and_nothing_is_discounted_there_is_no_average():
    log = Log.from_arrays(
        state=[0], action=[0], reward=[3.0], episode=[0], truncated=[True], next_state=[0]
    )
    returns = first_visit_returns(log, gamma=1.0)
    assert (returns.mean.item(), returns.cut.item(), returns.completion) == (3.0, 1.0, 0.0)


def test_a_missing_step_cuts_a_return_off_and_what_follows_is_left_out():
    """Steps 0, 1, 3: the return from the first is 1 + 2 / 2, and nothing is known of state 2."""
    log = Log.from_arrays(
        state=[0, 1, 2], action=[0] * 3, reward=[1.0, 2.0, 4.0], episode=[0] * 3, step=[0, 1, 3]
    )
    assert log.is_gap.tolist() == [False, True, False]
    returns = first_visit_returns(log, gamma=0.5)
    assert returns.n.ravel().tolist() == [1, 1, 0]
    assert returns.cut.ravel().tolist() == [0.25, 0.5, 0.0]
    np.testing.assert_allclose(
        returns.mean.ravel() - returns.completion * returns.cut.ravel(), [2.0, 2.0, 0.0]
    )


def test_gamma_zero_sees_the_next_reward_only():
    returns = first_visit_returns(Log.from_arrays(**TWO), gamma=0.0)
    assert returns.mean.ravel().tolist() == [4.5, 2.0]
    assert returns.cut.ravel().tolist() == [0.0, 0.0]


def test_an_end_in_the_middle_ends_the_return():
    log = Log.from_arrays(
        state=[0, 1], action=[0, 0], reward=[1.0, 100.0], episode=[0, 0], terminated=[True, True]
    )
    assert first_visit_returns(log, gamma=0.5).mean.ravel().tolist() == [1.0, 100.0]


def test_episodes_may_have_any_number():
    """Identifiers of 64 bits: both episodes count."""
    log = Log.from_arrays(
        state=[0, 0], action=[0, 1], reward=[2.0, 4.0], episode=[-(2**62), 2**62], n_actions=2
    )
    ones = Log.from_arrays(
        state=[0, 0], action=[0, 0], reward=[2.0, 4.0], episode=[-(2**62), 2**62], n_actions=4
    )
    assert first_visit_returns(log, gamma=0.5).n.tolist() == [[1, 1]]
    assert first_visit_returns(ones, gamma=0.5).n.tolist() == [[2, 0, 0, 0]]


def test_a_log_without_episodes_has_no_returns():
    log = Log.from_arrays(state=[0], action=[0], reward=[1.0], next_state=[0])
    with pytest.raises(DataError, match=r"the log has no episodes; expected.*'episode'"):
        first_visit_returns(log, gamma=0.5)


STEP = st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(-3, 3))
EPISODES = st.lists(
    st.tuples(st.lists(STEP, min_size=1, max_size=6), st.booleans()), min_size=1, max_size=5
)


@settings(max_examples=100, deadline=None)
@given(episodes=EPISODES, gamma=st.sampled_from([0.0, 0.5, 0.9, 1.0]))
def test_against_a_plain_loop(episodes, gamma):
    log = Log.from_episodes(
        [
            {
                "state": [x for x, _, _ in steps],
                "action": [a for _, a, _ in steps],
                "reward": [float(r) for _, _, r in steps],
                "truncated": [is_cut and t == len(steps) - 1 for t in range(len(steps))],
            }
            for steps, is_cut in episodes
        ],
        n_states=3,
        n_actions=2,
    )
    found = {(x, a): [] for x in range(3) for a in range(2)}
    cuts = {pair: [] for pair in found}
    for steps, is_cut in episodes:
        visited = set()
        for t, (x, a, _) in enumerate(steps):
            if (x, a) in visited:
                continue
            visited.add((x, a))
            found[x, a].append(sum(gamma**k * r for k, (_, _, r) in enumerate(steps[t:])))
            cuts[x, a].append(gamma ** (len(steps) - t) if is_cut else 0.0)
    returns = first_visit_returns(log, gamma)
    rows = [step for steps, _ in episodes for step in steps]
    lasting = gamma * (1 - sum(not is_cut for _, is_cut in episodes) / len(rows))
    average = sum(r for _, _, r in rows) / len(rows) / (1 - lasting) if lasting < 1 else 0.0
    for pair, completed in found.items():
        found[pair] = [g + average * cut for g, cut in zip(completed, cuts[pair], strict=True)]
    for pair, values in found.items():
        assert returns.n[pair] == len(values)
        np.testing.assert_allclose(returns.mean[pair], np.mean(values) if values else 0, atol=1e-12)
        np.testing.assert_allclose(returns.cut[pair], np.mean(cuts[pair]) if values else 0)
        variance = np.var(values, ddof=1) if len(values) > 1 else 0.0
        np.testing.assert_allclose(returns.variance[pair], variance, atol=1e-12)
