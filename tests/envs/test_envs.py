"""Benchmarks honour their definitions, and Gymnasium's own checker."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import spibb
from spibb import TabularMDP, evaluate, solve
from spibb.envs import Garnet, GridWorld, TabularEnv, WetChicken, from_gymnasium
from spibb.errors import ModelError, SettingsError


def test_garnet_has_distinct_successors_that_sum_to_one():
    garnet = Garnet.random(np.random.default_rng(0), n_states=30, n_actions=3, n_successors=5)
    assert ((garnet.transition > 0).sum(axis=2) == 5).all()
    np.testing.assert_allclose(garnet.transition.sum(axis=2), 1.0)


def test_gaps_of_sorted_uniforms_are_exchangeable():
    garnet = Garnet.random(np.random.default_rng(1), n_states=60, n_actions=10, n_successors=4)
    gaps = garnet.transition[garnet.transition > 0]
    assert gaps.mean() == pytest.approx(1 / 4)
    # Gaps of three uniforms are Beta(1, 3): variance 3 / (16 * 5).
    assert gaps.var() == pytest.approx(3 / 80, rel=0.1)


def test_goal_is_the_hardest_that_can_be_reached():
    garnet = Garnet.random(np.random.default_rng(2), n_states=15)
    values = {}
    for goal in range(1, 15):
        terminal = np.arange(15) == goal
        mdp = TabularMDP(garnet.transition, garnet.transition[:, :, goal], 0.95, terminal=terminal)
        values[goal] = solve(mdp).v[0]
    reachable = {goal: value for goal, value in values.items() if value > 0.95**50}
    assert garnet.goals == (min(reachable, key=reachable.get),)


@pytest.mark.parametrize("eta", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_baseline_has_the_strength_asked_for(eta):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        garnet = Garnet.random(rng)
        baseline = garnet.baseline(eta, rng)
        low, high = garnet.uniform.performance, garnet.optimum.performance
        found = (evaluate(garnet.to_mdp(), baseline).performance - low) / (high - low)
        # One perturbation of one state moves the performance by little.
        assert eta - 0.05 <= found <= eta + 1e-9


@pytest.mark.parametrize("eta", [0.1, 0.5, 0.9])
def test_baseline_is_one_perturbation_below_its_target(eta):
    """With the last tenth given back to some state's best action, it is still above."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        garnet = Garnet.random(rng)
        table = garnet.baseline(eta, rng).probabilities
        best, worst = garnet.optimum, garnet.uniform.performance
        target = eta * best.performance + (1 - eta) * worst
        found = []
        for x in np.flatnonzero(~garnet.mdp.terminal):
            before, a = table.copy(), best.q[x].argmax()
            before[x, a] = table[x, a] / 0.9
            before[x] /= before[x].sum()
            found.append(evaluate(garnet.mdp, before).performance)
        assert evaluate(garnet.mdp, table).performance <= target + 1e-12
        assert max(found) > target


def test_second_goal_makes_a_better_optimum_and_a_bad_one_does_not():
    rng = np.random.default_rng(3)
    garnet = Garnet.random(rng)
    better = garnet.with_second_goal(rng)
    assert better.goals[1] not in (0, garnet.goals[0])
    assert better.optimum.performance >= garnet.optimum.performance
    bad = garnet.with_second_goal(np.random.default_rng(4), reward=-1.0)
    assert bad.optimum.performance <= garnet.optimum.performance


def test_gridworld_moves_and_walls():
    mdp = GridWorld().to_mdp(gamma=0.95)
    north, east, south, _west = range(4)
    # From the corner 0: north and west are blocked.
    np.testing.assert_allclose(mdp.dense[0, north, [0, 1, 5]], [0.85, 0.10, 0.05])
    # Column 2 to 3 is walled in rows 0 to 2, open in row 3.
    assert mdp.dense[2, east, 3] == 0
    assert mdp.dense[12, east, 13] == 0
    assert mdp.dense[17, east, 18] == pytest.approx(0.75)
    # Column 3 to 4 is walled in rows 2 and 3, open in row 1.
    assert mdp.dense[13, east, 14] == 0
    assert mdp.dense[18, east, 19] == 0
    assert mdp.dense[8, east, 9] == pytest.approx(0.75)
    assert mdp.reward[19, south] == pytest.approx(0.75)
    assert mdp.terminal.tolist() == [False] * 24 + [True]


def test_multiplied_actions_are_copies():
    once, thrice = GridWorld().to_mdp(), GridWorld(n_copies=3).to_mdp()
    assert thrice.n_actions == 12
    assert solve(thrice).performance == pytest.approx(solve(once).performance)


def test_wet_chicken_matches_simulation():
    rng = np.random.default_rng(5)
    mdp = WetChicken().to_mdp()
    np.testing.assert_allclose(mdp.dense.sum(axis=2), 1.0)
    moves = [(0, 0), (-1, 0), (-2, 0), (0, -1), (0, 1)]
    n = 40_000
    for x, y, a in [(0, 0, 0), (4, 4, 0), (2, 3, 2), (3, 1, 4), (1, 0, 3)]:
        dx, dy = moves[a]
        stream = 3 * y / 5
        to_x = np.floor(x + dx + stream + rng.uniform(-1, 1, n) * (3.5 - stream) + 0.5)
        to_y = min(max(y + dy, 0), 4)
        fell = to_x >= 5
        state = np.where(fell, 0, 5 * np.clip(to_x, 0, None) + to_y).astype(int)
        found = np.bincount(state, minlength=25) / n
        np.testing.assert_allclose(found, mdp.dense[5 * x + y, a], atol=0.015)
        pay = np.where(fell, 0, np.clip(to_x, 0, None)).mean()
        assert pay == pytest.approx(mdp.reward[5 * x + y, a], abs=0.04)


def test_wet_chicken_heuristic():
    table = WetChicken().baseline(epsilon=0.1).probabilities
    assert table[5 * 4 + 0].argmax() == 2  # near the fall: paddle back
    assert table[5 * 0 + 0].argmax() == 4  # left bank: go right
    assert table[5 * 1 + 2].argmax() == 1  # middle: hold
    np.testing.assert_allclose(table.max(axis=1), 0.92)


@pytest.mark.parametrize(
    "name", ["Garnet", "GridWorld", "WetChicken", "Queue", "Inventory", "Maintenance"]
)
def test_environments_pass_the_checker(name):
    env = gymnasium.make(f"spibb/{name}-v0")
    check_env(env.unwrapped, skip_render_check=True)


def test_environment_follows_the_process():
    mdp = TabularMDP(
        [[[0.0, 0.25]], [[0.0, 0.0]]], [[2.0], [0.0]], 0.9, terminal=[False, True],
        initial=[1.0, 0.0], ending=[[0.75], [1.0]],
    )  # fmt: skip
    env = TabularEnv(mdp)
    env.reset(seed=0)
    arrived = 0
    for _ in range(2_000):
        env.reset()
        state, reward, terminated, truncated, _ = env.step(0)
        assert reward == 2.0
        assert terminated
        assert not truncated
        arrived += int(state == 1)
    assert arrived / 2_000 == pytest.approx(0.25, abs=0.04)


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1", "Taxi-v4"])
def test_toy_text_becomes_an_exact_process(name):
    env = gymnasium.make(name)
    mdp = from_gymnasium(env, gamma=0.99)
    assert mdp.n_states == env.observation_space.n
    best = solve(mdp)
    rng = np.random.default_rng(6)
    total = []
    for k in range(300):
        state, _ = env.reset(seed=k)
        gain, discount, over = 0.0, 1.0, False
        while not over and discount > 1e-3:
            action = best.policy.sample(int(state), rng)
            state, reward, terminated, truncated, _ = env.step(action)
            gain += discount * float(reward)
            discount *= 0.99
            over = terminated
            if truncated and not terminated:
                break
        total.append(gain)
    error = 4 * np.std(total) / np.sqrt(len(total)) + 0.02
    assert np.mean(total) == pytest.approx(best.performance, abs=error)


def test_an_environment_without_dynamics_is_refused():
    with pytest.raises(ModelError, match="no attribute P"):
        from_gymnasium(gymnasium.make("CartPole-v1"), gamma=0.9)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Garnet.random(np.random.default_rng(0), n_states=1),
        lambda: Garnet.random(np.random.default_rng(0), n_successors=60),
        lambda: Garnet.random(np.random.default_rng(0), gamma=1.0),
        lambda: Garnet.random(np.random.default_rng(0)).baseline(1.5, np.random.default_rng(0)),
        lambda: GridWorld(n_copies=0),
        lambda: GridWorld().baseline(temperature=0.0),
        lambda: WetChicken().baseline(epsilon=2.0),
    ],
)
def test_bad_settings_are_refused(build):
    with pytest.raises(SettingsError):
        build()


def test_envs_are_reachable_from_the_package():
    assert spibb.envs.Garnet is Garnet
