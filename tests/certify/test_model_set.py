"""The set of models: its radii by hand, what may be declared, and where episodes may begin."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb import Counts, Log, TabularPolicy, audit
from spibb.certify.case import Case
from spibb.certify.model_set import ModelSet, StartBall, listed_radii
from spibb.certify.regret import RegretTest
from spibb.errors import DataError, SettingsError
from spibb.problem import Problem, ProblemBatch
from spibb.problem.declarations import Declarations
from spibb.testing import reference_robust as slow
from spibb.testing.checks import random_problem
from spibb.uncertainty.time_uniform import found_radius, log_events, time_uniform_radius

DELTA = 0.1
# Three states, one of which ends; in state 0 action 0 was tried 40 times, from ten episodes.
LOG = Log.from_arrays(
    state=[0, 0, 0, 1] * 10, action=[0, 0, 0, 1] * 10, reward=[1.0, 0.0, 1.0, 2.0] * 10,
    next_state=[0, 0, 1, 2] * 10, terminated=[False, False, False, True] * 10,
    episode=np.repeat(np.arange(10), 4), n_actions=2,
)  # fmt: skip


def batch_of(log=LOG, gamma=0.9, baseline="estimate", reward_range=(-1.0, 2.0), **said):
    problem = Problem.of(log, baseline=baseline, gamma=gamma, reward_range=reward_range, **said)
    return ProblemBatch.alone(problem)


def set_of(log=LOG, gamma=0.9, delta=DELTA, known_rewards=False, **said):
    return ModelSet.of(batch_of(log, gamma, **said), delta, known_rewards=known_rewards)


def radius(n, log_term):
    return min(2.0, slow.time_uniform(n, np.exp(-log_term)))


def found(n, k, alpha):
    """The radius of k outcomes that appeared, at level alpha."""
    return min(2.0, slow.time_uniform(n, alpha / (2 ** (k - 1) * k * (k + 1))) + 2 * k / n)


def listed(n, n_outcomes, k, alpha):
    """The smaller of the radii of a list and of what appeared, at half of alpha each."""
    by_list = slow.time_uniform(n, alpha / 2 / (2 ** (n_outcomes - 1) - 1))
    return min(by_list, found(n, k, alpha / 2))


def test_the_radii_by_hand():
    """Pairs (0, 0) and (1, 1) have 30 and 10 rows; with the start they are 3 rows that appeared."""
    models, share = set_of(), DELTA / (3 * 4)
    # Two states followed the one; the other was followed by ends alone.
    expected = np.full((4, 2), 2.0)
    expected[0, 0], expected[1, 1] = found(30, 2, 0.75 * share), found(10, 1, 0.75 * share)
    expected[2] = 0.0
    np.testing.assert_allclose(models.balls.radius[0], expected)
    reward = [1.5 * slow.time_uniform(n, 0.25 * share) for n in (30, 10)]
    low = np.full((4, 2), -1.0)
    low[0, 0], low[1, 1] = np.maximum(-1.0, [2 / 3 - reward[0], 2.0 - reward[1]])
    low[2] = 0.0
    np.testing.assert_allclose(models.low.reward[0], low)
    assert models.high.reward[0, 0, 0] == pytest.approx(min(2.0, 2 / 3 + reward[0]))
    assert models.high.reward[0, 3].tolist() == [2.0, 2.0], "elsewhere anything may be paid"
    # The start: one state, of ten episodes.
    assert models.start.radius[0] == pytest.approx(found(10, 1, share))
    assert models.start.initial[0].tolist() == [1.0, 0.0, 0.0, 0.0]


def test_what_is_declared_makes_the_set_smaller():
    """Complete states, a given start: 6 pairs share delta, and their outcomes are a list of 3."""
    models = set_of(states_complete=True, initial=[0.5, 0.5, 0.0])
    assert models.low.shape == (1, 3, 2)
    expected = listed(30, 3, 2, 0.75 * DELTA / 6)
    assert models.balls.radius[0, 0, 0] == pytest.approx(expected)
    assert models.start.radius[0] == 0.0
    assert set_of(states_complete=True).start.radius[0] == pytest.approx(
        listed(10, 2, 1, DELTA / 7)
    )
    followed = set_of(successors=[(0, 0), (0, 1)])
    # Known successors of state 0, and ending: three outcomes, and no elsewhere.
    assert followed.balls.radius[0, 0, 0] == pytest.approx(listed(30, 3, 2, 0.75 * DELTA / 12))
    assert followed.balls.radius[0, 1, 1] == set_of().balls.radius[0, 1, 1]
    seen = set_of(successors="seen")
    # State 1 was only followed by an end: with the ended state there is one outcome, and no doubt.
    assert seen.balls.radius[0, 1, 1] == 0.0
    assert seen.balls.radius[0, 0, 0] == pytest.approx(followed.balls.radius[0, 0, 0])


@pytest.mark.parametrize("is_complete", [True, False])
def test_theorems_spend_delta_once(is_complete):
    """What errors leave of delta is what the start takes, whatever the log holds."""
    problem = batch_of(LOG, states_complete=is_complete)[0]
    case = Case(problem, problem.baseline_values, DELTA)
    assert case.delta_but_start == pytest.approx(DELTA * 6 / 7)
    share = DELTA / 7
    expected = listed(10, 2, 1, share) if is_complete else found(10, 1, share)
    assert case.at_worst_start(np.array([1.0, 0.0, 0.0])) == pytest.approx(1.0 - expected / 2.0)


def test_successors_that_the_log_showed_are_a_proviso():
    policy = TabularPolicy([[0.4, 0.6], [0.6, 0.4], [0.5, 0.5]])
    asked = {"policy": policy, "baseline": "estimate", "gamma": 0.9, "states_complete": True}
    asked |= {"accept_baseline": True}
    given = audit(LOG, reward_range=(-1.0, 2.0), **asked, successors=[(0, 0), (0, 1), (1, 2)])
    assert given.guarantee.is_exact
    seen = audit(LOG, reward_range=(-1.0, 2.0), **asked, successors="seen").guarantee
    assert not seen.is_exact
    assert "if what can follow was seen to follow" in seen.summary
    both = audit(LOG, **asked, successors="seen").guarantee
    assert "is possible, and if what can follow was seen to follow" in both.proviso


def test_known_rewards_leave_all_to_the_transitions():
    models = set_of(known_rewards=True)
    assert models.low.reward[0, 0, 0] == models.high.reward[0, 0, 0] == pytest.approx(2 / 3)
    assert models.balls.radius[0, 0, 0] == pytest.approx(found(30, 2, DELTA / 12))
    assert models.low.reward[0, 0, 1] == -1.0, "what was never seen may pay anything"


def many_outcomes(rng, n=100, n_states=100_000):
    """A log of one pair that leads to any of many states, and the L1 distance of its row."""
    drawn = rng.integers(1, n_states, n)
    names, after = np.unique(drawn, return_inverse=True)
    log = Log.from_arrays(
        state=np.zeros(n, int), action=np.zeros(n, int), reward=np.zeros(n), n_actions=1,
        next_state=after + 1, truncated=np.ones(n, bool), episode=np.arange(n),
        n_states=len(names) + 1,
    )  # fmt: skip
    times = np.unique(drawn, return_counts=True)[1]
    return log, 2.0 * (times / n - 1.0 / (n_states - 1)).sum()


def test_a_list_of_states_that_the_log_drew_up_is_paid_for():
    """Nearly all of the mass is on states that the log lacks: no radius below 2 holds."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        log, distance = many_outcomes(rng)
        asked = {"baseline": TabularPolicy.uniform(log.n_states, 1), "reward_range": (0.0, 1.0)}
        n_listed = log.n_states + 2
        as_a_list = time_uniform_radius(100, np.log(n_listed / 0.01) + log_events(n_listed))
        assert as_a_list < 1.7 < distance, "a union over the listed states alone is too small"
        assert set_of(log, **asked).balls.radius[0, 0, 0] >= distance


def test_ends_are_one_outcome_however_many_states_they_are_in():
    """Which states are only ends is seen in the log: it must not make any radius smaller."""
    n = 60
    after, ended = np.arange(n) % 4 + 1, np.arange(n) % 4 < 3
    log = Log.from_arrays(
        state=[0] * n, action=[0] * n, reward=[0.0] * n, next_state=after, terminated=ended,
        truncated=~ended, episode=range(n), n_states=5, n_actions=1,
    )  # fmt: skip
    one = replace(log, next_state=np.where(ended, 1, after))
    assert Counts.from_log(log).terminal.sum() == 3
    asked = {"baseline": TabularPolicy.uniform(5, 1), "reward_range": (0.0, 1.0)}
    radii = [set_of(part, **asked).balls.radius[0, 0, 0] for part in (log, one)]
    share = DELTA / (2 * 3)
    assert radii == pytest.approx([found(n, 2, 0.75 * share)] * 2)


@pytest.mark.parametrize("skew", [0.0, 1.5])
def test_the_radius_without_a_list_covers_at_every_size_at_once(skew):
    """400 runs of 400 draws of 50 outcomes, alike or a few of them common."""
    rng = np.random.default_rng(2)
    p, n, alpha, ever = 1.0 / np.arange(1, 51) ** skew, 400, 0.2, 0
    p /= p.sum()
    nearest = np.inf
    for _ in range(400):
        counts = np.cumsum(np.eye(50)[rng.choice(50, n, p=p)], axis=0)
        size = np.arange(1, n + 1)
        distance = np.abs(counts / size[:, None] - p).sum(axis=1)
        limit = found_radius(size, (counts > 0).sum(axis=1), np.log(1 / alpha))
        ever += bool((distance > limit).any())
        nearest = min(nearest, float((limit / distance).min()))
    assert ever <= alpha * 400
    assert nearest < 6.0, "so loose that the test says nothing"


def test_the_radii_for_random_counts_are_paid_for_by_the_spibb_bound():
    """(1 - gamma) r_R + gamma r_P is at most twice the root, as docs/guarantees.md proves."""
    sizes = [*range(4, 60), *(10**k for k in range(2, 10))]
    for n_states, n_actions, delta in ((1, 2, 0.25), (2, 2, 0.05), (50, 4, 0.05), (300, 9, 1e-6)):
        log_term = np.log(2 * n_states * n_actions / delta) + n_states * np.log(2)
        for gamma in (0.0, 0.01, 0.3, 0.7, 0.75, 0.9, 0.999):
            for n in sizes:
                transition, reward = listed_radii(
                    n, n_states * n_actions, n_states + 1, gamma, delta
                )
                weighted = (1 - gamma) * reward + gamma * transition
                assert weighted <= 2.0 * np.sqrt(2.0 / n * log_term)
    # Of transitions alone it is false: little of delta is theirs where gamma is small.
    n, log_term = 10**5, np.log(2 * 2 / 0.25) + np.log(2)
    transition, _ = listed_radii(n, 2, 2, 1e-9, 0.25)
    assert transition > 2.0 * np.sqrt(2.0 / n * log_term)


def test_where_nothing_ends_ending_is_no_outcome():
    endless = Log.from_arrays(
        state=[0, 1] * 20, action=[0, 0] * 20, reward=[3.0, 4.0] * 20, next_state=[1, 0] * 20,
        truncated=([False] * 9 + [True]) * 4, terminated=[False] * 40,
        episode=np.repeat(np.arange(4), 10),
    )  # fmt: skip
    for never_ends in (True, False):
        models = set_of(endless, reward_range=(3.0, 4.0), never_ends=never_ends)
        worst = models.worst(models.policy(np.ones((1, 2, 1))))
        # Elsewhere pays 3 for ever, or 3 once and ends.
        assert worst.v[0, 2] == pytest.approx(30.0 if never_ends else 3.0)
    with pytest.raises(SettingsError, match=r"never_ends, but 10 rows of the log end the process"):
        set_of(never_ends=True)


def test_gamma_zero_gives_all_of_delta_to_the_rewards():
    models = set_of(gamma=0.0, initial=[1.0, 0.0, 0.0])
    assert (models.balls.radius[0, :2] == 2.0).all()
    assert models.high.reward[0, 0, 0] == pytest.approx(
        min(2.0, 2 / 3 + 1.5 * slow.time_uniform(30, DELTA / 6))
    )


@pytest.mark.parametrize("said", [{}, {"states_complete": True}, {"successors": "seen"}])
def test_worst_and_best_values_and_d_equal_the_slow_loop(said):
    """With elsewhere as one more state of which nothing is known, and with known successors."""
    rng = np.random.default_rng(0)
    for seed in range(4):
        _, baseline, log = random_problem(seed, n_states=4, n_actions=2, n_episodes=200)
        counts = Counts.from_log(log)
        asked = {"baseline": baseline, "reward_range": (-4.0, 4.0)} | said
        test = RegretTest.of(batch_of(log, 0.7, **asked), DELTA)
        models = test.models
        n_states = 4 if "states_complete" in said else 5
        dense = np.zeros((n_states, 2, n_states))
        dense[:4, :, :4] = counts.to_mdp(0.7).dense
        reach = None
        if "successors" in said:
            seen = Declarations.of(counts, successors="seen").successors.toarray()
            reach = {
                (x, a): np.flatnonzero(seen[x * 2 + a]).tolist()
                for x in range(4) for a in range(2) if seen[x * 2 + a].any()
            }  # fmt: skip
        policy = models.policy(rng.dirichlet(np.ones(2), (1, 4)))
        floor = models.worst(policy)
        ball = models.balls.radius[0]
        _, q = slow.robust_values(dense, models.low.reward[0], 0.7, ball, policy[0], reach=reach)
        np.testing.assert_allclose(floor.q[0], q, atol=1e-7)
        _, q_b = slow.robust_values(
            dense, models.high.reward[0], 0.7, ball, test.baseline[0], best=True, reach=reach
        )
        np.testing.assert_allclose(test.ceiling.q[0], q_b, atol=1e-7)
        d, _ = slow.regret_bound(dense, 0.7, ball, policy[0], test.baseline[0], q, q_b, reach=reach)
        found = test.differences(policy, floor)
        np.testing.assert_allclose(found.v[0], d, atol=1e-7)
        possible = np.append(~counts.terminal, np.ones(n_states - 4, bool))
        start = np.append(counts.initial, np.zeros(n_states - 4))
        expected = slow.worst_start(start[possible], d[possible], models.start.radius[0])
        assert test.bounds(found)[0] == pytest.approx(expected, abs=1e-7)


@given(seed=st.integers(0, 10**6), radius=st.floats(0.0, 2.5))
@settings(max_examples=100, deadline=None)
def test_the_worst_start_is_a_linear_program(seed, radius):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    initial = rng.dirichlet(np.ones(n)) * (rng.random(n) < 0.7)
    if not initial.any():
        initial[0] = 1.0
    initial /= initial.sum()
    values = np.round(rng.normal(size=n), 1)
    ball = StartBall(initial[None], np.array([radius]), np.ones((1, n), bool))
    expected, _ = slow.worst_by_program(initial, values, min(radius, 2.0))
    assert ball.worst(values[None])[0] == pytest.approx(expected, abs=1e-7)


def test_episodes_do_not_begin_in_a_terminal_state():
    ball = StartBall(np.array([[1.0, 0.0]]), np.array([1.0]), np.array([[True, False]]))
    assert ball.worst(np.array([[2.0, 0.0]]))[0] == 2.0


def test_a_start_is_given_by_name_or_number():
    counts = Counts.from_log(LOG)
    given_start = Declarations.of(counts, initial={"1": 0.25, 0: 0.75}).initial
    assert given_start.tolist() == [0.75, 0.25, 0.0]
    named = replace(counts, state_labels=("mild", "severe", "home"))
    assert Declarations.of(named, initial={"severe": 1.0}).initial.tolist() == [0.0, 1.0, 0.0]
    for wrong, message in (
        ({"mild": 0.5, "none": 0.5}, "initial names the state 'none'"),
        ([1.0, 0.0, 0.0], "initial is a list, but states have names"),
        ({"mild": 0.5}, "initial sums to 0.5"),
        ({"mild": 1.5, "severe": -0.5}, "initial has a probability -0.5"),
    ):
        with pytest.raises((DataError, SettingsError), match=message):
            Declarations.of(named, initial=wrong)
    with pytest.raises(SettingsError, match=r"initial has shape \(2,\)"):
        Declarations.of(counts, initial=[0.5, 0.5])


def test_successors_that_the_log_contradicts_are_refused():
    counts = Counts.from_log(LOG)
    for wrong, message in (
        (
            [(0, 0)],
            r"10 transitions that successors rule out \(first at state 0, action 0, next st",
        ),
        ([(0, 1, 9)], "successors names the state '9'"),
        ([(0, 7, 1)], "successors names the action '7'"),
        ([(0,)], r"successors holds \(0,\)"),
        ("known", "successors is 'known'"),
    ):
        with pytest.raises((DataError, SettingsError), match=message):
            Declarations.of(counts, successors=wrong)
    pairs = Declarations.of(counts, successors=[(0, 0, 0), (0, 0, 1), (1, 2)]).successors.toarray()
    assert pairs.astype(int).tolist() == [
        [1, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0],
    ]  # fmt: skip


def test_the_radius_covers_at_every_size_at_once():
    """A fair coin, 2,000 runs of 3,000 flips, stopped where it looks worst."""
    rng = np.random.default_rng(1)
    n, n_runs, alpha = 3_000, 2_000, 0.2
    limit = time_uniform_radius(np.arange(1, n + 1), np.log(1 / alpha)) / 2.0
    ever = 0
    for _ in range(n_runs):
        mean = np.cumsum(rng.random(n) < 0.5) / np.arange(1, n + 1)
        ever += bool((np.abs(mean - 0.5) > limit).any())
    assert ever <= alpha * n_runs
    assert ever > 0.02 * n_runs, "so loose that the test says nothing"


def test_one_outcome_and_no_data():
    assert log_events(1) == -np.inf
    assert time_uniform_radius(5, log_events(1) + 3.0) == 0.0
    assert time_uniform_radius(0, 1.0) == np.inf
    assert time_uniform_radius(0, -np.inf) == np.inf, "what the one outcome is, nobody has seen"
    assert time_uniform_radius(10, 3000 * np.log(2)) < np.inf


def test_a_problem_is_made_in_one_place():
    asked = {"baseline": TabularPolicy.uniform(3, 2), "gamma": 0.9, "accept_baseline": True}
    problem = Problem.of(LOG, **asked, unseen="terminal")
    assert problem.model.ending[0, 1] == 1.0
    assert problem.estimate().ending[0, 1] == 1.0
    average = Problem.of(LOG, **asked)
    np.testing.assert_allclose(average.model.dense[0, 1], average.model.dense[0, 0])
    given_start = Problem.of(LOG, **asked, initial={1: 1.0})
    assert given_start.model.initial.tolist() == [0.0, 1.0, 0.0]
