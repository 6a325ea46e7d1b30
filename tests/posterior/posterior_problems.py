"""Small problems on which the posterior model is held to its oracles."""

import numpy as np

from spibb import Log, Problem, TabularPolicy
from spibb.posterior.model import PosteriorModel, _start
from spibb.posterior.rare_events import far_steps
from spibb.posterior.steps import Steps
from spibb.testing import reference_model


def noisy_log(
    seed, n_rows=400, n_states=4, n_actions=3, *, rare=0.03, loss=-20.0, ends=0.2, noise=1.0
):
    """Return a log with normal rewards and rare losses and wins, and the policy that made it."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(n_states, 0.5), (n_states, n_actions)) * (1.0 - ends)
    p = np.concatenate([p, np.full((n_states, n_actions, 1), ends)], axis=2)
    mean, policy = (
        rng.normal(size=(n_states, n_actions)),
        rng.dirichlet(np.full(n_actions, 2.0), n_states),
    )
    rows, x, episode = [], rng.integers(n_states), 0
    for _ in range(n_rows):
        a = rng.choice(n_actions, p=policy[x])
        y = rng.choice(n_states + 1, p=p[x, a])
        reward, u = mean[x, a] + noise * rng.normal(), rng.random()
        if u < rare and a != 0:
            reward += loss
        elif u > 1.0 - rare / 2.0:
            reward -= loss
        ended = y == n_states
        rows.append((x, a, reward, -1 if ended else y, ended, False, episode))
        if ended:
            episode += 1
        x = rng.integers(n_states) if ended else y
    rows[-1] = (*rows[-1][:5], not rows[-1][4], rows[-1][6])
    names = ("state", "action", "reward", "next_state", "terminated", "truncated", "episode")
    columns = dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))
    return Log.from_arrays(**columns, n_states=n_states, n_actions=n_actions), TabularPolicy(policy)


def noisy_problem(seed, gamma=0.9, baseline=None, options=None, **settings):
    log, policy = noisy_log(seed, **settings)
    return problem_of(log, baseline or policy, gamma, **(options or {}))


def problem_of(log, baseline, gamma=0.9, **options):
    return Problem.of(log, baseline=baseline, gamma=gamma, accept_baseline=True, **options)


def changed_log(log, **columns):
    """Return a log with some columns of another, and others instead."""
    names = ("state", "action", "reward", "next_state", "terminated", "truncated", "episode")
    kept = {name: getattr(log, name) for name in names} | columns
    sizes = {"n_states": log.n_states, "n_actions": log.n_actions}
    return Log.from_arrays(**kept, **sizes)


def last_fit(problem):
    """Return the values and the steps without rare events that a model was fitted to at last."""
    steps, model = Steps.of(problem), PosteriorModel.of(problem)
    baseline = problem.baseline.probabilities[None]
    before = _start(problem, model.settings, model.gamma, model.rows)
    before = before._fitted(steps, before.evaluate(baseline).v[0])
    v = before.evaluate(baseline).v[0]
    up, down, _ = far_steps(steps, v, model.gamma, model.settings.event_threshold)
    return v, steps, ~(up | down)


def bulk_rows(problem):
    """Return the rows of a log that are no rare events."""
    _, steps, is_bulk = last_fit(problem)
    return reference_model.rows_of_steps(taken(steps, is_bulk))


def some_policies(problem, n, seed=0):
    shape = problem.counts.n_sa.shape
    return np.random.default_rng(seed).dirichlet(np.ones(shape[1]), (n, shape[0]))


def taken(steps, which):
    """Return some of the cells."""
    return Steps(*(column[which] for column in steps[:-1]), steps.shape)
