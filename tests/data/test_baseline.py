"""The baseline beside its log: estimated, aligned, checked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb import ApproxSoftSPIBB, Problem, improve_many
from spibb.data.baseline import align_policy, check_baseline, estimate_baseline
from spibb.data.counts import Counts
from spibb.data.dirichlet import fit_dirichlet
from spibb.data.log import Log
from spibb.errors import PolicyError
from spibb.mdp.policy import TabularPolicy

LOG = Log.from_arrays(
    state=[1, 0, 1, 1], action=[0, 1, 1, 0], reward=[0.0] * 4, next_state=[0, 2, 2, 2],
    terminated=[False, True, True, True], episode=[0, 0, 1, 2],
    state_labels=("ill", "sick", "well"), action_labels=("treat", "wait"),
)  # fmt: skip


def relabelled(states=None, actions=None):
    return Log.from_arrays(
        state=LOG.state, action=LOG.action, reward=LOG.reward, next_state=LOG.next_state,
        terminated=LOG.terminated, episode=LOG.episode, state_labels=states, action_labels=actions,
    )  # fmt: skip


PLAIN = relabelled()


def align(log, policy):
    """Bring a log and its baseline together."""
    log = log.renamed(log.states.union(policy.states), log.actions.union(policy.actions))
    return log, align_policy(Counts.from_log(log), policy, role="baseline")


def test_the_estimate_is_a_share_of_rows():
    policy = estimate_baseline(LOG, shrink=False)
    np.testing.assert_allclose(policy.probabilities, [[0, 1], [2 / 3, 1 / 3], [0.5, 0.5]])
    assert policy.is_estimated
    assert policy.state_labels == LOG.state_labels
    assert policy.action_labels == LOG.action_labels


def log_likelihood(n, g, m):
    """Of rows of counts, by the chain rule: one count after another."""
    found = 0.0
    for row in n:
        seen = np.zeros(len(row))
        for outcome in np.repeat(np.arange(len(row)), row):
            found += np.log((seen[outcome] + m * g[outcome]) / (seen.sum() + m))
            seen[outcome] += 1.0
    return found


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6))
def test_the_estimate_is_drawn_towards_the_likeliest_habits(seed):
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 8)), int(rng.integers(1, 5)))
    n = rng.integers(0, 6, shape) * rng.integers(0, 2, shape)
    n[rng.integers(shape[0]), rng.integers(shape[1])] += 1
    strengths = tuple(2.0**k for k in range(-10, 11))
    g, m = fit_dirichlet(n.astype(float), strengths)
    assert g.sum() == pytest.approx(1.0)
    assert (g > 0).tolist() == n.any(axis=0).tolist()
    scores = [log_likelihood(n, g, one) + np.log(one / (1 + one) ** 2) for one in strengths]
    assert scores[strengths.index(m)] == pytest.approx(max(scores))
    state, action = np.nonzero(n)
    rows = np.repeat(np.arange(len(state)), n[state, action])
    log = Log.from_arrays(
        state=state[rows], action=action[rows], reward=np.zeros(len(rows)),
        next_state=np.zeros(len(rows), int), n_states=shape[0], n_actions=shape[1],
    )  # fmt: skip
    found = estimate_baseline(log).probabilities
    for x in range(shape[0]):
        if not n[x].any():
            assert found[x] == pytest.approx(g)
            continue
        weight = [n[x, a] + m * g[a] if n[x, a] else 0.0 for a in range(shape[1])]
        assert found[x] == pytest.approx(np.array(weight) / sum(weight))
        assert (found[x] > 0).tolist() == (n[x] > 0).tolist()


def test_states_borrow_from_each_other_where_they_are_alike():
    def drawn(tables):
        rng = np.random.default_rng(0)
        state = np.repeat(np.arange(len(tables)), 10)
        action = [int(rng.choice(3, p=tables[x])) for x in state]
        log = Log.from_arrays(
            state=state, action=action, reward=np.zeros(len(state)), next_state=state, n_actions=3
        )
        return [
            np.abs(estimate_baseline(log, shrink=one).probabilities - tables).sum()
            for one in (True, False)
        ]

    same, other = np.tile([0.5, 0.3, 0.2], (40, 1)), np.eye(3)[np.arange(40) % 3]
    shrunk, plain = drawn(same)
    assert shrunk < 0.5 * plain
    assert drawn(other) == [0.0, 0.0]


def test_counts_give_the_same_estimate():
    np.testing.assert_array_equal(
        estimate_baseline(Counts.from_log(LOG)).probabilities, estimate_baseline(LOG).probabilities
    )


def test_the_estimate_always_fits():
    for log in (LOG, PLAIN):
        check_baseline(Counts.from_log(log).n_sa, estimate_baseline(log))


def test_rows_and_columns_are_matched_by_name():
    policy = TabularPolicy(
        [[0.9, 0.1], [0.25, 0.75]], state_labels=("sick", "ill"), action_labels=("wait", "treat")
    )
    log, aligned = align(LOG, policy)
    assert log.state.tolist() == LOG.state.tolist()
    assert aligned.state_labels == log.state_labels == ("ill", "sick", "well")
    assert aligned.action_labels == log.action_labels == ("treat", "wait")
    np.testing.assert_array_equal(aligned.probabilities, [[0.75, 0.25], [0.1, 0.9], [0.5, 0.5]])


def test_terminal_states_need_no_row():
    _, aligned = align(PLAIN, TabularPolicy([[0.2, 0.8], [0.6, 0.4]]))
    np.testing.assert_array_equal(aligned.probabilities, [[0.2, 0.8], [0.6, 0.4], [0.5, 0.5]])


def test_more_states_and_actions_in_the_policy():
    policy = TabularPolicy(
        [[1, 0, 0], [0.5, 0.5, 0], [0, 0.25, 0.75]], ("boat", "ill", "sick"),
        ("operate", "treat", "wait"),
    )  # fmt: skip
    log, aligned = align(LOG, policy)
    assert log.state_labels == aligned.state_labels == ("boat", "ill", "sick", "well")
    assert log.action_labels == ("operate", "treat", "wait")
    assert (log.n_states, log.n_actions) == (4, 3)
    assert log.state.tolist() == [2, 1, 2, 2]
    assert log.next_state.tolist() == [1, 3, 3, 3]
    assert log.action.tolist() == [1, 2, 2, 1]
    np.testing.assert_array_equal(aligned.probabilities[2], [0, 0.25, 0.75])


def test_more_states_in_a_policy_of_integers():
    log, aligned = align(PLAIN, TabularPolicy.uniform(6, 4))
    assert (log.n_states, log.n_actions) == (6, 4)
    assert aligned.probabilities.shape == (6, 4)
    assert log.state_labels is None


def test_integers_stay_integers_where_the_policy_leaves_out_a_terminal_state():
    """The policy file lists states 0, 1 and 3; the log ends in 2."""
    log = Log.from_arrays(state=[0, 3, 1], action=[0, 0, 0], reward=[0.0] * 3,
                          next_state=[2, 2, 2], terminated=[True] * 3)  # fmt: skip
    log, aligned = align(log, TabularPolicy([[1, 0], [0.5, 0.5], [0, 1]], ("0", "1", "3")))
    assert log.state_labels is None
    assert aligned.state_labels is None
    np.testing.assert_array_equal(aligned.probabilities, [[1, 0], [0.5, 0.5], [0.5, 0.5], [0, 1]])


def test_integers_of_the_log_are_found_among_the_names_of_the_policy():
    policy = TabularPolicy(np.eye(3)[[0, 0, 1, 2]], ("0", "1", "10", "2"), ("a", "b", "c"))
    log, aligned = align(relabelled(actions=("a", "c")), policy)
    assert aligned.state_labels == log.state_labels == ("0", "1", "2", "10")
    np.testing.assert_array_equal(aligned.probabilities, np.eye(3)[[0, 0, 2, 1]])


def test_names_of_digits_that_differ_are_different():
    _, aligned = align(
        relabelled(states=("7", "07", "007")), TabularPolicy([[1, 0], [0, 1]], ("07", "7"))
    )
    assert aligned.state_labels == ("7", "07", "007")
    np.testing.assert_array_equal(aligned.probabilities, [[0, 1], [1, 0], [0.5, 0.5]])


def test_the_policy_remembers_that_it_was_estimated():
    assert align(LOG, estimate_baseline(LOG))[1].is_estimated
    assert not align(PLAIN, TabularPolicy.uniform(3, 2))[1].is_estimated


def test_a_state_that_is_missing():
    policy = TabularPolicy([[0.5, 0.5]], ("ill",), ("treat", "wait"))
    with pytest.raises(
        PolicyError, match=r"the baseline lacks 1 states .*\(first at state 'sick'\).*add those"
    ):
        align(LOG, policy)


def test_a_state_that_is_entered_and_goes_on_needs_a_row():
    log = Log.from_arrays(state=[0], action=[0], reward=[0.0], next_state=[1], terminated=[False])
    with pytest.raises(PolicyError, match=r"the plan lacks 1 states .*\(first at state '1'\)"):
        align_policy(Counts.from_log(log), TabularPolicy([[1.0]]), role="plan")


def test_names_that_do_not_match_at_all():
    with pytest.raises(PolicyError, match=r"named alike in both"):
        align(PLAIN, TabularPolicy([[0.5, 0.5]] * 3, ("ill", "sick", "well")))


def test_probability_zero_of_actions_that_were_taken():
    policy = TabularPolicy([[0, 1], [0, 1], [0.5, 0.5]], LOG.state_labels, LOG.action_labels)
    with pytest.raises(
        PolicyError,
        match=r"probability 0 to actions that were taken in 2 rows of the log "
        r"\(first at state sick, action treat, 2 rows\); expected .*estimate it",
    ):
        check_baseline(Counts.from_log(LOG).n_sa, policy)


def test_probability_zero_elsewhere_is_fine():
    policy = TabularPolicy([[0, 1], [0.5, 0.5], [1, 0]])
    check_baseline(Counts.from_log(PLAIN).n_sa, policy)


def test_counts_are_matched_by_name():
    """Counts carry labels: a baseline in another order must not be read row by row."""
    log = Log.from_arrays(
        state=[0, 1, 0], action=[0, 1, 1], reward=[0.0, 1.0, 2.0], next_state=[1, 2, 0],
        terminated=[False, True, False], episode=[0, 0, 1],
        state_labels=("a", "b", "end"), action_labels=("go", "stay"),
    )  # fmt: skip
    counts = Counts.from_log(log)
    swapped = TabularPolicy([[0.2, 0.8], [0.9, 0.1]], ("b", "a"), ("stay", "go"))
    found = align_policy(counts, swapped, role="baseline")
    np.testing.assert_allclose(found.probabilities, [[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]])
    other = TabularPolicy([[0.3, 0.7]] * 3, counts.state_labels, counts.action_labels)
    found = align_policy(counts, swapped, role="policy", otherwise=other)
    np.testing.assert_allclose(found.probabilities, [[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
    by_counts = ApproxSoftSPIBB(epsilon=0.0).improve(counts, baseline=swapped, gamma=0.9)
    by_log = ApproxSoftSPIBB(epsilon=0.0).improve(log, baseline=swapped, gamma=0.9)
    np.testing.assert_array_equal(by_counts.policy.probabilities, by_log.policy.probabilities)
    many = improve_many([ApproxSoftSPIBB(epsilon=0.0)], [counts, log], baselines=swapped, gamma=0.9)
    np.testing.assert_array_equal(many.probabilities[0, 0], by_log.policy.probabilities)
    np.testing.assert_array_equal(many.probabilities[0, 1], by_log.policy.probabilities)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (TabularPolicy([[1.0, 0.0]], ("a",), ("go", "stay")), r"lacks 1 states.*'b'"),
        (TabularPolicy(np.full((3, 2), 0.5), ("a", "b", "c"), ("go", "stay")), "state 'c', which"),
        (TabularPolicy(np.full((2, 2), 0.5), ("a", "b"), ("go", "run")), "action 'run', which"),
    ],
)
def test_another_policy_has_the_names_of_the_problem(policy, message):
    log = Log.from_arrays(
        state=[0, 1], action=[0, 1], reward=[0.0, 1.0], next_state=[1, 2],
        terminated=[False, True], episode=[0, 0],
        state_labels=("a", "b", "end"), action_labels=("go", "stay"),
    )  # fmt: skip
    problem = Problem.of(log, baseline="estimate", gamma=0.9)
    with pytest.raises(PolicyError, match=message):
        problem.align(policy)


def test_counts_grow_as_logs_do():
    """A baseline may know states and actions that neither a log nor its counts have."""
    policy = TabularPolicy(
        [[1, 0, 0], [0.5, 0, 0.5], [0, 0.25, 0.75]], ("boat", "ill", "sick"),
        ("operate", "treat", "wait"),
    )  # fmt: skip
    by_log = Problem.of(LOG, baseline=policy, gamma=0.9)
    by_counts = Problem.of(Counts.from_log(LOG), baseline=policy, gamma=0.9)
    assert by_counts.counts.state_labels == ("boat", "ill", "sick", "well")
    for name in ("n_sa", "reward_sum", "n_initial"):
        np.testing.assert_array_equal(getattr(by_counts.counts, name), getattr(by_log.counts, name))
    for name in ("n_sas", "n_end"):
        found, expected = (getattr(part.counts, name) for part in (by_counts, by_log))
        np.testing.assert_array_equal(found.toarray(), expected.toarray())
    many = improve_many(
        [ApproxSoftSPIBB(epsilon=0.5)], [LOG, Counts.from_log(LOG)], baselines=policy, gamma=0.9
    )
    np.testing.assert_array_equal(many.probabilities[0, 0], many.probabilities[0, 1])
    alone = ApproxSoftSPIBB(epsilon=0.5).improve(LOG, baseline=policy, gamma=0.9)
    np.testing.assert_array_equal(many.probabilities[0, 0], alone.policy.probabilities)
