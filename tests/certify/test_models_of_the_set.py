"""The regret test in models drawn from its set, whatever is declared and however little is seen.

The set is built here a second time, from its definition alone: outcomes that are allowed, an L1
ball around what the log shows, anything at all where it shows nothing.
"""

import numpy as np
import pytest

from spibb import Log, TabularPolicy
from spibb.certify.model_set import radii
from spibb.certify.regret import RegretTest
from spibb.problem import Problem, ProblemBatch

REWARDS = (-1.0, 2.0)
DELTA = 0.05


def draw_log(rng, n_states, never_ends):
    """Rows of a sparse process, some of whose actions are hardly ever tried."""
    transition = rng.dirichlet(np.full(n_states, 0.4), (n_states, 2))
    transition[transition < 0.05] = 0.0
    transition /= transition.sum(axis=2, keepdims=True)
    n = int(rng.integers(5, 300))
    state = rng.integers(0, n_states, n)
    action = (rng.random(n) < rng.choice([0.5, 0.02])).astype(int)
    after = [rng.choice(n_states, p=transition[x, a]) for x, a in zip(state, action, strict=True)]
    ends = np.zeros(n, bool) if never_ends else rng.random(n) < 0.1
    log = Log.from_arrays(
        state=state, action=action, next_state=after, terminated=ends, episode=np.arange(n),
        reward=rng.choice([-1.0, 0.0, 2.0], n), n_states=n_states, n_actions=2,
    )  # fmt: skip
    return log, transition


def draw_row(rng, centre, radius, allowed):
    """A distribution over what is allowed, at most so far from the centre; None: anywhere."""
    target = np.zeros(len(allowed))
    target[rng.choice(np.flatnonzero(allowed))] = 1.0
    if centre is None:
        return target
    row, left = centre.copy(), min(1.0, radius / 2.0)
    moved = 0.0
    for place in rng.permutation(len(row)):
        taken = min(left - moved, row[place])
        row[place] -= taken
        moved += taken
    return row + moved * target


def draw_model(rng, problem, radius, reward_error):
    """Transitions over states, elsewhere and ending, and rewards, for one model of the set."""
    counts, declared = problem.counts, problem.declared
    n_states, n_actions = counts.n_sa.shape
    elsewhere, ending = n_states, n_states + 1
    model = np.zeros((n_states + 1, n_actions, n_states + 2))
    reward = rng.choice(REWARDS, (n_states + 1, n_actions))
    goes, ended = (
        part.toarray().reshape(n_states, n_actions, n_states)
        for part in (counts.n_sas, counts.n_end)
    )
    for x, a in np.ndindex(n_states, n_actions):
        allowed = np.ones(n_states + 2, bool)
        allowed[elsewhere] = not declared.states_complete
        if declared.successors is not None:
            rows = declared.successors.toarray().reshape(n_states, n_actions, n_states)
            if rows[x, a].any():
                allowed[:n_states], allowed[elsewhere] = rows[x, a], False
        allowed[ending] = not declared.never_ends
        n, centre = counts.n_sa[x, a], None
        if n:
            centre = np.zeros(n_states + 2)
            centre[:n_states], centre[ending] = goes[x, a] / n, ended[x, a].sum() / n
            centre[ending] += 1.0 - centre.sum()
            error = rng.choice([-1.0, 1.0]) * reward_error[0, x, a]
            reward[x, a] = np.clip(counts.reward_sum[x, a] / n + error, *REWARDS)
        model[x, a] = draw_row(rng, centre, radius[0, x, a], allowed)
    # In a state that nobody named both act alike, and anything may follow.
    model[elsewhere, :, rng.choice(n_states + (1 if declared.never_ends else 2))] = 1.0
    reward[elsewhere] = rng.choice(REWARDS)
    return model, reward


def difference(model, reward, gamma, policy, baseline):
    """V of the policy minus V of the baseline in a model."""
    n = model.shape[0]
    found = []
    for table in (policy, baseline):
        full = np.vstack([table, np.eye(table.shape[1])[:1]])
        steps = np.einsum("xa,xay->xy", full, model)[:, :n]
        found.append(np.linalg.solve(np.eye(n) - gamma * steps, (full * reward).sum(axis=1)))
    return (found[0] - found[1])[:-1]


@pytest.mark.parametrize("successors", [None, "seen", "given"])
@pytest.mark.parametrize("never_ends", [False, True])
@pytest.mark.parametrize("unseen", ["average", "terminal", "uniform", "self-loop"])
def test_d_is_a_bound_in_every_model_that_is_drawn(successors, never_ends, unseen):
    if never_ends and unseen != "average":
        unseen = "average"  # the others are refused: test_declarations
    rng = np.random.default_rng([len(unseen), never_ends, len(str(successors))])
    for _ in range(12):
        n_states = int(rng.integers(2, 5))
        log, transition = draw_log(rng, n_states, never_ends)
        said = np.argwhere(transition > 0).tolist() if successors == "given" else successors
        gamma = float(rng.choice([0.0, 0.5, 0.9]))
        baseline = 0.98 * rng.dirichlet([1.0, 1.0], n_states) + 0.01
        policy = np.where(
            rng.random((n_states, 1)) < 0.5, rng.dirichlet([1, 1], n_states), baseline
        )
        problem = Problem.of(
            log, baseline=TabularPolicy(baseline), gamma=gamma, reward_range=REWARDS,
            states_complete=bool(rng.random() < 0.5), never_ends=never_ends, successors=said,
            unseen=unseen, accept_baseline=True,
        )  # fmt: skip
        batch = ProblemBatch.of([problem])
        test = RegretTest.of(batch, DELTA)
        found = test.tested(policy[None].copy())
        d = test.models.listed(found.v)[0] - found.error[0]
        errors = radii(batch, DELTA)
        for _ in range(12):
            model, reward = draw_model(rng, problem, *errors)
            truth = difference(model, reward, gamma, policy, baseline)
            assert (d <= truth + 1e-8).all()


def test_a_pair_never_tried_goes_where_it_is_declared_to_go():
    """One declared outcome is certain; what stands in the estimated model is not it."""
    n = 500
    log = Log.from_arrays(
        state=[0, 1] * n + [2] * 50, action=[0, 0] * n + [0] * 50,
        reward=[0.0, 1.0] * n + [-1.0] * 50, next_state=[1, 1] * n + [2] * 50,
        terminated=[False] * (2 * n + 50), n_states=3, n_actions=2,
    )  # fmt: skip
    problem = Problem.of(
        log, baseline=TabularPolicy([[1.0, 0.0]] * 3), gamma=0.5, reward_range=(-1.0, 1.0),
        initial=[1.0, 0.0, 0.0], states_complete=True, never_ends=True,
        successors=[(0, 0, 1), (0, 1, 2), (1, 1), (2, 2)],
    )  # fmt: skip
    policy = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    test = RegretTest.of(ProblemBatch.of([problem]), DELTA)
    assert test.bounds(test.tested(policy[None].copy()))[0] <= 0.5 * (-2.0 - 2.0)
