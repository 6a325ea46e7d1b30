"""The posterior model against dense loops, and what it is on average."""

import numpy as np
import pytest
from posterior_problems import changed_log, noisy_log, noisy_problem, problem_of, some_policies

from spibb import Counts, Log, TabularMDP, TabularPolicy, evaluate
from spibb.errors import SettingsError
from spibb.posterior import model as model_module
from spibb.posterior.model import PosteriorModel, check_size
from spibb.posterior.settings import ModelSettings
from spibb.testing.reference_model import Parts

PROBLEMS = {
    "rare events": {"seed": 0},
    "no events": {"seed": 1, "rare": 0.0},
    "few rows": {"seed": 2, "n_rows": 12, "n_states": 6},
    "without a discount": {"seed": 3, "gamma": 1.0, "ends": 0.4},
    "nothing follows": {"seed": 4, "gamma": 0.0},
    "a declared range": {
        "seed": 5, "n_rows": 12, "n_states": 6, "options": {"reward_range": (-50.0, 50.0)},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("is_dense", [True, False])
def test_values_visits_and_transitions_are_those_of_dense_loops(monkeypatch, name, is_dense):
    if not is_dense:
        monkeypatch.setattr(model_module, "_DENSE_ENTRIES", 0)
    problem = noisy_problem(**PROBLEMS[name])
    model = PosteriorModel.of(problem)
    assert (model._dense is not None) == is_dense
    parts, policies = Parts.of(model), some_policies(problem, 3)
    n_states = problem.counts.n_states
    close = {"rtol": 1e-7, "atol": 1e-9}
    found, weights = (
        model.evaluate(policies),
        np.random.default_rng(0).normal(size=policies[0].shape),
    )
    for k, policy in enumerate(policies):
        v, visits = parts.solve(policy)
        np.testing.assert_allclose(found.v[k], v, **close)
        np.testing.assert_allclose(found.visits[k], visits, **close)
        np.testing.assert_allclose(model.q(found.v)[k], parts.q(v), **close)
        # V(x) = sum_a pi(a | x) Q(x, a), and visits times rewards are the performance.
        np.testing.assert_allclose((policy * model.q(found.v)[k]).sum(axis=1), v, **close)
        paid = (visits[:, None] * policy * model.reward).sum()
        assert paid == pytest.approx(model.initial @ v, rel=1e-7)
    whole = parts.whole
    np.testing.assert_allclose(
        model.transition(weights).toarray(),
        np.einsum("xa,xay->xy", weights, whole[..., :n_states]), atol=1e-10,
    )  # fmt: skip
    np.testing.assert_allclose(model.reward, whole[..., n_states], atol=1e-10)


@pytest.mark.parametrize("name", PROBLEMS)
def test_pairs_lead_somewhere_with_a_probability_of_at_most_one(name):
    problem = noisy_problem(**PROBLEMS[name])
    model = PosteriorModel.of(problem)
    n_states, n_actions = problem.counts.n_sa.shape
    for a in range(n_actions):
        table = model.transition(np.tile(np.eye(n_actions)[a], (n_states, 1))).toarray()
        assert table.min() >= 0.0
        assert table.sum(axis=1).max() <= 1.0 + 1e-12
    np.testing.assert_allclose(model.pseudo_counts.mean.sum(axis=0), 1.0)
    assert model.bulk_share.min() >= 0.0


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != "without a discount"])
def test_the_mean_model_gives_policies_the_same_values(name):
    problem = noisy_problem(**PROBLEMS[name])
    model = PosteriorModel.of(problem)
    mdp = TabularMDP.of_arrays(model.mean_model, problem.counts.terminal)
    for policy in some_policies(problem, 2):
        found = model.evaluate(policy[None])
        expected = evaluate(mdp, TabularPolicy(policy))
        np.testing.assert_allclose(found.v[0], expected.v, rtol=1e-7, atol=1e-9)


def test_actions_that_are_sure_to_be_alike_get_the_mean_of_their_state():
    log, policy = noisy_log(0, rare=0.0, ends=1.0)
    model = PosteriorModel.of(problem_of(log, policy), ModelSettings(equal_actions=1.0))
    state = [log.reward[log.state == x].mean() for x in range(4)]
    np.testing.assert_allclose(model.reward, np.tile(state, (3, 1)).T, rtol=1e-3, atol=1e-3)


def test_many_rows_are_believed():
    log, policy = noisy_log(0, n_rows=5000, rare=0.0)
    model = PosteriorModel.of(problem_of(log, policy))
    counts = Counts.from_log(log)
    np.testing.assert_allclose(model.reward, counts.reward_sum / counts.n_sa, atol=0.1)


def test_means_lie_between_those_of_the_pair_and_of_its_state():
    for seed in range(4):
        problem = noisy_problem(seed, rare=0.0)
        model = PosteriorModel.of(problem)
        v = model.baseline_values.v
        own = model.rows.mean(v, 0.9)[0]
        found = model.q(v)[0]
        low, high = own.min(axis=1, keepdims=True), own.max(axis=1, keepdims=True)
        assert (found >= low - 1e-9).all()
        assert (found <= high + 1e-9).all()
        # The best is worth less than its rows say, the worst more.
        assert (found.max(axis=1) <= high[:, 0]).all()
        assert (found.min(axis=1) >= low[:, 0]).all()


def test_logs_and_counts_make_the_same_model_where_a_transition_has_one_reward():
    log, policy = noisy_log(0, rare=0.0)
    paid = np.random.default_rng(0).integers(-5, 6, size=(4, 3, 5)).astype(float)
    log = changed_log(log, reward=paid[log.state, log.action, log.next_state])
    one, other = (
        PosteriorModel.of(problem_of(data, policy)) for data in (log, Counts.from_log(log))
    )
    assert other.problem.log is None
    np.testing.assert_allclose(one.baseline_values.v, other.baseline_values.v, rtol=1e-9)
    np.testing.assert_allclose(one.pseudo_counts.mean, other.pseudo_counts.mean, atol=1e-9)
    assert one.variance == pytest.approx(other.variance)


def test_counts_without_squares_of_rewards_make_a_model():
    log, policy = noisy_log(0)
    known, unknown = (
        PosteriorModel.of(problem_of(Counts.from_log(log, spread=spread), policy))
        for spread in (True, False)
    )
    assert np.isfinite(unknown.baseline_values.v).all()
    assert unknown.variance > known.variance


def leading_on(reward=(1.0, 2.0, 1.0, 2.0), ended=(False,) * 4, following=(0, 0, 0, 1)):
    return Log.from_arrays(
        state=[0] * 4, action=[0, 1] * 2, reward=list(reward), next_state=list(following),
        terminated=list(ended),
    )  # fmt: skip


def test_states_that_were_never_left_pay_the_least_for_ever():
    policy = TabularPolicy([[0.5, 0.5]] * 2)
    for low, expected in ((-3.0, -3.0), (0.5, 0.5)):
        model = PosteriorModel.of(problem_of(leading_on(), policy, reward_range=(low, 5.0)))
        assert model.is_unentered.tolist() == [False, True]
        assert model.baseline_values.v[0, 1] == pytest.approx(expected / 0.1)
        assert model.q(model.baseline_values.v)[0, 1] == pytest.approx([expected / 0.1] * 2)
    # Without a declared range, the smallest mean of a state.
    costs = PosteriorModel.of(problem_of(leading_on(reward=(-1.0, -2.0, -1.0, -2.0)), policy))
    assert costs.baseline_values.v[0, 1] == pytest.approx(-1.5 / 0.1)
    gains = PosteriorModel.of(problem_of(leading_on(), policy))
    assert gains.baseline_values.v[0, 1] == pytest.approx(1.5 / 0.1)


def test_terminal_states_are_worth_nothing():
    log = leading_on(ended=(False, False, False, True))
    model = PosteriorModel.of(
        problem_of(log, TabularPolicy([[0.5, 0.5]] * 2), reward_range=(-3.0, 5.0))
    )
    assert not model.is_unentered.any()
    assert model.baseline_values.v[0, 1] == 0.0
    assert not model.transition(np.ones((2, 2))).toarray()[1].any()


def test_without_a_discount_states_that_were_never_left_end_as_often_as_others():
    """One of four rows ends, so that four steps remain."""
    log = leading_on(ended=(True, False, False, False), following=(-1, 0, 0, 1))
    model = PosteriorModel.of(
        problem_of(log, TabularPolicy([[0.5, 0.5]] * 2), 1.0, reward_range=(-3.0, 5.0))
    )
    assert model.baseline_values.v[0, 1] == pytest.approx(-3.0 * 4.0, rel=1e-4)


def test_pairs_without_data_are_like_their_state():
    log, policy = noisy_log(0, n_actions=2, rare=0.0)
    wide = Log.from_arrays(
        state=log.state, action=log.action, reward=log.reward, next_state=log.next_state,
        terminated=log.terminated, truncated=log.truncated, episode=log.episode, n_actions=3,
    )  # fmt: skip
    table = np.concatenate([policy.probabilities, np.zeros((4, 1))], axis=1)
    model = PosteriorModel.of(problem_of(wide, TabularPolicy(table)))
    q = model.q(model.baseline_values.v)[0]
    assert (q[:, 2] >= q[:, :2].min(axis=1)).all()
    assert (q[:, 2] <= q[:, :2].max(axis=1)).all()
    # The others do not notice.
    narrow = PosteriorModel.of(problem_of(log, policy))
    np.testing.assert_allclose(q[:, :2], narrow.q(narrow.baseline_values.v)[0], rtol=1e-9)


def test_covariances_of_outcomes_are_those_of_loops():
    problem = noisy_problem(0)
    model = PosteriorModel.of(problem)
    v, w = np.random.default_rng(0).normal(size=(2, 1, 4))
    own, both, other = model.spread(v, v), model.spread(v, w), model.spread(w, w)
    np.testing.assert_allclose(both, model.spread(w, v))
    assert (both**2 <= own * other * (1.0 + 1e-9)).all()
    # The variance of a sum.
    np.testing.assert_allclose(
        model.spread(0.5 * (v + w), 0.5 * (v + w)), 0.25 * (own + 2.0 * both + other)
    )


def test_too_many_states_are_refused(monkeypatch):
    monkeypatch.setattr(model_module, "LARGEST_DENSE", 3)
    with pytest.raises(SettingsError, match="risk of 4 states"):
        check_size(noisy_problem(0))


@pytest.mark.parametrize(
    ("name", "value"),
    [("equal_actions", 1.1), ("equal_actions", -0.1), ("event_threshold", -1.0),
     ("event_prior", float("nan")), ("prior_losses", -1.0), ("prior_groups", float("nan"))],
)  # fmt: skip
def test_settings_are_checked(name, value):
    with pytest.raises(SettingsError, match=name):
        ModelSettings(**{name: value})


@pytest.mark.parametrize("options", [{}, {"n_rows": 20}])
def test_transitions_are_the_same_as_a_table_and_sparse(options):
    for seed in range(3):
        model = PosteriorModel.of(noisy_problem(seed, **options))
        sparse = np.stack([one.toarray() for one in model._by_action()], axis=1)
        np.testing.assert_allclose(model._dense, sparse, atol=1e-12)
        assert model.events or options
