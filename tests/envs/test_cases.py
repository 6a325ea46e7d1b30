"""Processes of others: ICU-Sepsis under its own masks, SysAdmin, toy text."""

from dataclasses import fields, replace
from importlib.util import find_spec

import gymnasium
import numpy as np
import pytest

from spibb import (
    Counts,
    ExactSoftSPIBB,
    Limits,
    Log,
    PiLeqBSPIBB,
    Problem,
    TabularPolicy,
    evaluate,
    improve_many,
    solve,
)
from spibb.algorithms.auto_spibb import candidates
from spibb.algorithms.base import Algorithm
from spibb.algorithms.registry import ALGORITHMS
from spibb.envs import ICUSepsis, SysAdmin, from_gymnasium
from spibb.errors import MissingDependencyError, SettingsError
from spibb.posterior.model import PosteriorModel
from spibb.problem import ProblemBatch

needs_sepsis = pytest.mark.skipif(
    find_spec("icu_sepsis") is None, reason="requirements/data.txt is not installed"
)
LIMITED = [
    name for name in ALGORITHMS if Algorithm.named(name).keeps_limits and name != "auto-spibb"
]


@pytest.fixture(scope="module")
def sepsis():
    """The process, its clinicians, what is admissible, and a log of 500 patients."""
    process = ICUSepsis()
    mdp, clinicians = process.to_mdp(), process.baseline()
    log = Log.sample(mdp, clinicians, n_episodes=500, rng=np.random.default_rng(1))
    return mdp, clinicians, process.allowed(), log


def some_patients(sepsis, n_patients):
    """Return the log of some patients in the states that they were in, with rows of these."""
    _, clinicians, allowed, log = sepsis
    rows = log.episode < n_patients
    met = np.union1d(log.state[rows], log.next_state[rows])
    small = Log.from_arrays(
        state=np.searchsorted(met, log.state[rows]), action=log.action[rows],
        reward=log.reward[rows], next_state=np.searchsorted(met, log.next_state[rows]),
        terminated=log.terminated[rows], episode=log.episode[rows], n_states=len(met), n_actions=25,
    )  # fmt: skip
    return small, TabularPolicy(clinicians.probabilities[met]), allowed[met]


@needs_sepsis
def test_most_of_what_the_clinicians_do_is_not_on_their_list(sepsis):
    mdp, clinicians, allowed, _ = sepsis
    assert (mdp.n_states, mdp.n_actions, mdp.gamma) == (716, 25, 1.0)
    taken = clinicians.probabilities[:-3] > 0.0
    assert (int(taken.sum()), int((taken & ~allowed[:-3]).sum())) == (9_252, 7_014)
    assert allowed.any(axis=1).all()
    for x in (0, 100, 500):
        row = mdp.dense[x]
        np.testing.assert_allclose(row[~allowed[x]] - row[allowed[x]].mean(axis=0), 0.0, atol=1e-12)


@needs_sepsis
@pytest.mark.parametrize("name", LIMITED)
def test_no_mass_moves_to_what_is_not_admissible(sepsis, name):
    """By any algorithm that takes limits; what the clinicians did there may stay, or go."""
    log, clinicians, allowed = some_patients(sepsis, 100)
    # So little data would move nothing at default settings.
    bold = {"epsilon": 4.0, "n_wedge": 1}
    known = {item.name for item in fields(Algorithm.named(name))}
    algorithm = Algorithm.named(name)(**{key: bold[key] for key in bold if key in known})
    gamma = 0.99 if name == "r-min" else 1.0  # whose least value needs a discount
    problem = Problem.of(
        log, baseline=clinicians, gamma=gamma, reward_range=(0.0, 1.0),
        limits=Limits(allowed=allowed),
    )  # fmt: skip
    rise, freed = (
        improve_many([algorithm], [one]).probabilities[0, 0] - clinicians.probabilities
        for one in (problem, replace(problem, limits=None))
    )
    assert rise[~allowed].max() <= 1e-12
    assert rise[allowed].max() > 1e-3
    assert freed[~allowed].max() > 1e-3, "which the mask prevents"


@needs_sepsis
def test_nor_by_anything_that_auto_spibb_may_choose(sepsis):
    log, clinicians, allowed = some_patients(sepsis, 25)
    problem = Problem.of(
        log, baseline=clinicians, gamma=1.0, reward_range=(0.0, 1.0),
        limits=Limits(allowed=allowed),
    )  # fmt: skip
    tried, _, _ = candidates(ProblemBatch.of([problem]), [PosteriorModel.of(problem)], 1.5)
    rise = tried[:, 0] - clinicians.probabilities
    assert len(tried) > 10
    assert rise[:, ~allowed].max() <= 1e-12
    assert rise[:, allowed].max() > 1e-3


@needs_sepsis
def test_masks_on_all_states(sepsis):
    mdp, clinicians, allowed, log = sepsis
    problem = Problem.of(
        log, baseline=clinicians, gamma=1.0, reward_range=(0.0, 1.0),
        limits=Limits(allowed=allowed),
    )  # fmt: skip
    found = improve_many([ExactSoftSPIBB(epsilon=1.0), PiLeqBSPIBB(n_wedge=1)], [problem])
    for table in found.probabilities[:, 0]:
        rise = table - clinicians.probabilities
        assert rise[~allowed].max() <= 1e-12
        assert rise[allowed].max() > 0.0
    assert evaluate(mdp, clinicians).performance == pytest.approx(0.7818, abs=5e-5)


def test_what_is_not_there_is_said(monkeypatch):
    monkeypatch.setattr("spibb.envs.icu_sepsis.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="pip install --no-deps icu-sepsis"):
        ICUSepsis().to_mdp()


@pytest.mark.parametrize("n", [3, 7])
def test_machines_match_simulation(n):
    """Machine by machine, by drawing."""
    rng = np.random.default_rng(0)
    mdp, n_drawn = SysAdmin(n).to_mdp(gamma=0.85), 20_000
    assert (mdp.n_states, mdp.n_actions) == (2**n, n + 1)
    np.testing.assert_allclose(mdp.dense.sum(axis=2), 1.0, err_msg="it never ends")
    for x in (0, 1, 5, 2**n - 2, 2**n - 1):
        runs = [bool(x >> m & 1) for m in range(n)]
        for a in (0, n - 1, n):
            after = np.zeros(n_drawn, dtype=np.int64)
            for m in range(n):
                down = [runs[m - 1], runs[(m + 1) % n]].count(False)
                stays = (rng.random(n_drawn) >= 0.05 + 0.3 * down) & runs[m]
                after += ((stays | (a == m)).astype(np.int64)) << m
            found = np.bincount(after, minlength=2**n) / n_drawn
            np.testing.assert_allclose(found, mdp.dense[x, a], atol=0.015)
            assert mdp.reward[x, a] == sum(runs) - (a < n)


def test_machines_begin_running_and_their_rule_can_be_improved():
    process = SysAdmin()
    mdp = process.to_mdp()
    assert mdp.gamma == 0.85
    assert mdp.initial[-1] == 1.0
    table = process.baseline(epsilon=0.0).probabilities
    assert [int(table[x].argmax()) for x in (127, 126, 0, 0b1111011)] == [7, 0, 0, 2]
    rule = evaluate(mdp, process.baseline()).performance
    assert evaluate(mdp, TabularPolicy.uniform(128, 8)).performance < rule
    assert rule < solve(mdp).performance - 1.0
    with pytest.raises(SettingsError, match="n_machines is 11; expected 10 at most"):
        SysAdmin(11)


def test_a_log_of_the_machines_improves_their_rule():
    """As in Castellini et al. (2023): seven machines, gamma 0.85, n_wedge 50."""
    mdp, rule = SysAdmin().to_mdp(), SysAdmin().baseline()
    counts = Counts.sample(mdp, rule, n_episodes=2_000, max_steps=20, rng=np.random.default_rng(2))
    found = improve_many([PiLeqBSPIBB(n_wedge=50)], [counts], baselines=rule, gamma=0.85)
    gained = evaluate(mdp, found.probabilities[0, 0]).performance - evaluate(mdp, rule).performance
    assert gained > 0.1


@pytest.mark.parametrize(
    "name", ["FrozenLake-v1", "CliffWalking-v1", "Taxi-v4", "spibb/SysAdmin-v0"]
)
def test_rollouts_in_an_environment_are_a_log_of_its_process(name):
    """Played through Gymnasium's own interface, and counted: the process that it tells."""
    env = gymnasium.make(name)
    inner = env.unwrapped
    mdp = inner.mdp if name.startswith("spibb") else from_gymnasium(env, 0.95)
    rng, rows = np.random.default_rng(3), []
    env.reset(seed=3)
    for episode in range(30):
        state, _ = env.reset()
        for _ in range(40):
            action = int(rng.integers(mdp.n_actions))
            after, reward, terminated, truncated, _ = env.step(np.int64(action))
            rows.append((episode, state, action, float(reward), after, terminated, truncated))
            if terminated or truncated:
                break
            state = after
    names = "episode", "state", "action", "reward", "next_state", "terminated", "truncated"
    columns = dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))
    log = Log.from_arrays(**columns, n_states=mdp.n_states, n_actions=mdp.n_actions)
    going_on = ~log.terminated
    assert (mdp.dense[log.state, log.action, log.next_state][going_on] > 0.0).all()
    rule = TabularPolicy.uniform(mdp.n_states, mdp.n_actions)
    result = ExactSoftSPIBB(epsilon=0.5).improve(log, baseline=rule, gamma=0.95)
    assert result.status.is_success
