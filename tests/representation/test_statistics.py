"""Standard errors, p-values and agreement over many simulated logs of known processes."""

import numpy as np
import pytest
from scipy.stats import binom

import spibb
from spibb.data.log import Log
from spibb.representation.agreement import find_agreement
from spibb.representation.dependence import dependence
from spibb.representation.linear_gain import linear_gain
from spibb.representation.outcome_dependence import outcome_dependence
from spibb.representation.refined_gain import label_values, refined_gain
from spibb.representation.steps import Steps
from spibb.representation.targets import outcome_targets

GAMMA = 0.9


def process(rng, n_states, n_actions, ending, start=None):
    transition = rng.dirichlet(np.full(n_states, 0.5), (n_states, n_actions))
    ends = ending * rng.random((n_states, n_actions))
    return spibb.TabularMDP(
        transition * (1.0 - ends[..., None]),
        rng.normal(size=(n_states, n_actions)),
        GAMMA,
        initial=start,
        ending=ends,
    )


def gains(log, rng, policy, baseline):
    """Return the gain in cells made by a column of noise, and the linear one."""
    steps, noise = Steps.of(log), rng.random(len(log))
    values = np.column_stack([rng.normal(size=len(log)) + log.state, noise])
    tables = np.repeat(policy, 2, axis=0), np.repeat(baseline, 2, axis=0)
    cells = refined_gain(steps, 2 * log.state + (noise > 0.5), *tables, GAMMA)
    return cells, linear_gain(steps, values, policy, GAMMA)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n_episodes", "n_steps", "ending", "start"),
    [(100, 30, 0.2, None), (5, 600, 0.0, None), (1, 3_000, 0.0, [1.0, 0.0, 0.0, 0.0])],
)
def test_standard_errors_are_the_deviations_over_logs(n_episodes, n_steps, ending, start):
    """A single record says nothing of how starts vary, hence the single start."""
    fixed = np.random.default_rng(5)
    mdp = process(fixed, 4, 2, ending, start)
    baseline, policy = fixed.dirichlet([3, 3], 4), fixed.dirichlet([1, 1], 4)
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        log = Log.sample(mdp, baseline, n_episodes=n_episodes, max_steps=n_steps, rng=rng)
        found.append([(one.gain, one.error) for one in gains(log, rng, policy, baseline)])
    gain, error = np.moveaxis(np.array(found), 2, 0)
    ratio = error.mean(axis=0) / gain.std(axis=0, ddof=1)
    assert (ratio > 0.8).all()
    assert (ratio < 1.25).all()


def test_standard_errors_are_those_of_an_episode_bootstrap():
    rng = np.random.default_rng(6)
    mdp, baseline = process(rng, 4, 2, 0.2), rng.dirichlet([3, 3], 4)
    policy = rng.dirichlet([1, 1], 4)
    log = Log.sample(mdp, baseline, n_episodes=120, max_steps=30, rng=rng)
    values = rng.normal(size=(len(log), 2))
    first = np.append(np.flatnonzero(log.is_first), len(log))

    def both(chosen):
        rows = np.concatenate([np.arange(first[i], first[i + 1]) for i in chosen])
        lengths = np.diff(first)[chosen]
        part = Log.from_arrays(
            **{name: getattr(log, name)[rows]
               for name in ("state", "action", "reward", "next_state", "terminated", "truncated")},
            episode=np.repeat(np.arange(len(chosen)), lengths), n_states=4, n_actions=2,
        )  # fmt: skip
        steps = Steps.of(part)
        code = 2 * part.state + (values[rows, 0] > 0.0)
        tables = np.repeat(policy, 2, axis=0), np.repeat(baseline, 2, axis=0)
        return (
            refined_gain(steps, code, *tables, GAMMA),
            linear_gain(steps, values[rows], policy, GAMMA),
        )

    drawn = [[one.gain for one in both(rng.integers(0, 120, 120))] for _ in range(200)]
    errors = [one.error for one in both(np.arange(120))]
    ratio = errors / np.std(drawn, axis=0, ddof=1)
    assert (ratio > 0.8).all()
    assert (ratio < 1.25).all()


def test_the_gain_in_labels_is_that_of_the_model_of_frequencies():
    rng = np.random.default_rng(7)
    mdp, policy = process(rng, 5, 3, 0.3), rng.dirichlet([1, 1, 1], 5)
    log = Log.sample(mdp, rng.dirichlet([3, 3, 3], 5), n_episodes=200, max_steps=1_000, rng=rng)
    assert log.terminated[np.append(log.is_first[1:], True)].all()  # every row is a step
    n = np.zeros((5, 3, 6))
    np.add.at(n, (log.state, log.action, np.where(log.terminated, 5, log.next_state)), 1.0)
    n_sa, paid = n.sum(axis=2), np.zeros((5, 3))
    assert (n_sa > 0).all()
    np.add.at(paid, (log.state, log.action), log.reward)
    start = np.bincount(log.state[log.is_first], minlength=5) / 200
    share = n / n_sa[..., None]
    model = spibb.TabularMDP(
        share[..., :5], paid / n_sa, GAMMA, initial=start, ending=share[..., 5]
    )
    behaviour = n_sa / n_sa.sum(axis=1, keepdims=True)
    new, old = (
        spibb.evaluate(model, spibb.TabularPolicy(table)).performance
        for table in (policy, behaviour)
    )
    found = refined_gain(Steps.of(log), log.state, policy, behaviour, GAMMA)
    assert found.gain == pytest.approx(new - old, abs=1e-9)
    assert found.label_loss == pytest.approx(0.0, abs=1e-9)


@pytest.mark.statistical
def test_columns_of_noise_leave_the_gain():
    """100 of 100 logs in each of three settings, when this was written."""
    n_held = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        mdp = process(rng, 6, 3, 0.1)
        baseline = spibb.TabularPolicy(rng.dirichlet([2, 2, 2], 6))
        log = Log.sample(mdp, baseline, n_episodes=50, max_steps=40, rng=rng)
        of_episode = rng.normal(size=50)[np.cumsum(log.is_first) - 1]
        log = log.with_features({"noise": rng.normal(size=len(log)), "constant": of_episode})
        problem = spibb.Problem.of(log, baseline=baseline, gamma=GAMMA)
        policy = spibb.PiBSPIBB(n_wedge=10).improve(problem).policy.probabilities
        assert not np.array_equal(policy, baseline.probabilities)
        n_held += find_agreement(log, policy, baseline.probabilities, GAMMA).holds
    assert n_held >= 85


def p_values(seed, n_actions, is_sharp, kind):
    """Return p-values of actions and of outcomes for a column of noise beside a true MDP."""
    rng = np.random.default_rng(seed)
    baseline = rng.dirichlet(np.full(n_actions, 2.0), 4)
    if is_sharp:
        baseline = 0.97 * np.eye(n_actions)[baseline.argmax(axis=1)] + 0.03 / n_actions
    mdp = process(rng, 4, n_actions, 0.05)
    log = Log.sample(mdp, baseline, n_episodes=40, max_steps=15, rng=rng)
    noise = rng.standard_t(3.0, len(log))
    log = Log.from_arrays(
        state=log.state, action=log.action, reward=log.reward + noise, episode=log.episode,
        next_state=log.next_state, terminated=log.terminated, truncated=log.truncated,
        n_states=4, n_actions=n_actions,
    )  # fmt: skip
    columns = {
        "new": rng.normal(size=len(log)),
        "of the episode": rng.normal(size=40)[np.cumsum(log.is_first) - 1],
        "rare": (rng.random(len(log)) < 0.02).astype(float),
    }
    x, steps = columns[kind][:, None], Steps.of(log)
    v = label_values(steps, None, (4, n_actions), GAMMA)
    targets = outcome_targets(steps, (4, n_actions), (v,), GAMMA)
    pair = steps.state * n_actions + steps.action
    return (
        dependence(x, log.state, log.state, np.eye(n_actions)[log.action]).p_value[0],
        outcome_dependence(x[steps.row], steps, pair, targets).p_value[0],
    )


@pytest.mark.statistical
@pytest.mark.parametrize("n_actions", [2, 5])
@pytest.mark.parametrize("is_sharp", [False, True])
def test_p_values_are_about_uniform_where_nothing_depends_on_a_column(n_actions, is_sharp):
    for kind in ("new", "of the episode", "rare"):
        found = np.array([p_values(seed, n_actions, is_sharp, kind) for seed in range(1_000)])
        most = binom.ppf(0.999, 1_000, 0.05)
        assert ((found <= 0.05).sum(axis=0) <= most).all()
        assert ((found <= 0.001).sum(axis=0) <= 8).all()
        # Not all too large either, where the approximation is a good one.
        if kind == "new":
            assert ((found <= 0.05).sum(axis=0) >= 25).all()


@pytest.mark.statistical
def test_small_p_values_are_rare_enough():
    found = np.array([p_values(seed, 3, seed % 2 == 0, "new") for seed in range(5_000)])
    assert ((found <= 0.001).mean(axis=0) <= 0.004).all()


def test_a_column_that_decides_is_found():
    rng = np.random.default_rng(8)
    column = rng.normal(size=(600, 1))
    label, action = rng.integers(0, 3, 600), (rng.random(600) < 0.5 + 0.4 * np.tanh(column[:, 0]))
    found = dependence(column, label, label, np.eye(2)[action.astype(int)])
    assert found.share[0] > 0.1
    assert found.p_value[0] < 1e-10
