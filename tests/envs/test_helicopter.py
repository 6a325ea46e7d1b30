"""The helicopter obeys its definition, whoever flies it: arrays, tensors, one or thousands."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from spibb.compiled.random_numbers import uniforms
from spibb.envs import Helicopter
from spibb.envs.helicopter_picture import helicopter_figure, render_rgb
from spibb.errors import PolicyError, SettingsError
from spibb.testing.reference_deep import fly_one_step

CALM = np.zeros(4, np.float32)


def uniform(states):
    return np.full((*states.shape[:-1], 9), 1 / 9, np.float32)


def pilot(states):
    """Steer both velocities towards 0.6: a policy that depends on the state."""
    wanted = np.where(states[..., 2:] < 0.6, 2, 0)
    action = 3 * wanted[..., 0] + wanted[..., 1]
    return 0.5 * np.eye(9, dtype=np.float32)[action] + np.float32(0.5 / 9)


def tensor_pilot(states):
    return torch.from_numpy(pilot(states.cpu().numpy())).to(states.device)


@pytest.mark.parametrize(
    ("action", "after"),
    [
        (0, (0.505, 0.475, 0.0, -0.3)),
        (4, (0.51, 0.48, 0.1, -0.2)),
        (5, (0.51, 0.485, 0.1, -0.1)),
        (7, (0.515, 0.48, 0.2, -0.2)),
        (8, (0.515, 0.485, 0.2, -0.1)),
    ],
)
def test_one_step_by_hand(action, after):
    state = np.float32([0.5, 0.5, 0.1, -0.2])
    found, reward, terminated = Helicopter().step(state, action, CALM)
    np.testing.assert_allclose(found, after, atol=1e-7)
    assert reward == 0
    assert not terminated


def test_noise_is_scaled_per_coordinate():
    state = np.float32([0.5, 0.5, 0.0, 0.0])
    found, _, _ = Helicopter().step(state, 4, np.float32([1, -2, 3, -4]))
    np.testing.assert_allclose(found, [0.525, 0.45, 0.15, -0.2], atol=1e-7)


@pytest.mark.parametrize(
    ("state", "reward"),
    [
        ((0.995, 0.995, 0.5, 0.5), 10.0),  # over the corner
        ((0.95, 0.5, 0.5, 0.0), -1.0),  # 1 / 0.5 - 4 = -2, cut at -1
        ((0.95, 0.8, 0.5, 0.0), 1.0),  # 1 / 0.2 - 4
        ((0.875, 0.95, 0.0, 0.5), 4.0),  # 1 / 0.125 - 4
        ((0.02, 0.5, -0.5, 0.0), -1.0),
        ((0.5, 0.02, 0.0, -0.5), -1.0),
    ],
)
def test_rewards_at_the_border(state, reward):
    _, found, terminated = Helicopter().step(np.float32(state), 4, CALM)
    assert found == pytest.approx(reward, abs=1e-4)
    assert terminated


def test_the_border_itself_is_outside_and_the_corner_pays_ten():
    still = Helicopter(position_noise=1.0)
    for x, y, reward in ((1.0, 1.0, 10.0), (0.0, 0.5, -1.0), (0.5, 1.0, -1.0)):
        state, noise = np.float32([0.5, 0.5, 0, 0]), np.float32([x - 0.5, y - 0.5, 0, 0])
        _, found, terminated = still.step(state, 4, noise)
        assert (found, terminated) == (reward, True)


@pytest.mark.parametrize("velocity", [(0.95, 0.0), (-0.95, 0.0), (0.0, 0.95), (0.0, -0.95)])
def test_speeding_ends_the_flight_and_overrides_the_reward(velocity):
    helicopter = Helicopter()
    action = 3 * (1 + int(np.sign(velocity[0]))) + 1 + int(np.sign(velocity[1]))
    for position in ((0.5, 0.5), (0.95, 0.95)):
        state = np.float32([*position, *velocity])
        _, reward, terminated = helicopter.step(state, action, CALM)
        assert (reward, terminated) == (-1, True)
    # Without thrust the same velocity is allowed.
    _, reward, terminated = helicopter.step(np.float32([0.5, 0.5, *velocity]), 4, CALM)
    assert (reward, terminated) == (0, False)


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32 - 1))
def test_arrays_and_tensors_equal_the_scalar_twin(seed):
    rng = np.random.default_rng(seed)
    state = rng.uniform((-0.1, -0.1, -1.1, -1.1), 1.1, (5, 7, 4)).astype(np.float32)
    action = rng.integers(9, size=(5, 7))
    noise = rng.standard_normal((5, 7, 4), dtype=np.float32)
    helicopter = Helicopter()
    after, reward, ended = helicopter.step(state, action, noise)
    assert after.dtype == reward.dtype == np.float32
    tensors = helicopter.step(*(torch.from_numpy(part) for part in (state, action, noise)))
    np.testing.assert_allclose(tensors[0].numpy(), after, atol=1e-6)
    np.testing.assert_allclose(tensors[1].numpy(), reward, atol=2e-4)
    for i, j in np.ndindex(5, 7):
        slow = fly_one_step(state[i, j], int(action[i, j]), noise[i, j])
        np.testing.assert_allclose(after[i, j], slow[0], atol=1e-6)
        edge = min(abs(part) for part in (*slow[0][:2], *(np.array(slow[0]) - 1), *slow[0][2:]))
        if edge > 1e-5:  # else rounding decides
            assert ended[i, j] == slow[2]
            assert reward[i, j] == pytest.approx(slow[1], abs=1e-3)


def test_noise_of_a_data_set_is_normal_and_independent():
    data = Helicopter().collect(uniform, 20_000, np.random.default_rng(0))
    thrust = np.stack((data.action // 3 - 1, data.action % 3 - 1), axis=1)
    position, velocity = data.state[:, :2], data.state[:, 2:]
    rest = np.concatenate(
        (
            (data.next_state[:, :2] - position - 0.1 * velocity - 0.005 * thrust) / 0.025,
            (data.next_state[:, 2:] - velocity - 0.1 * thrust) / 0.05,
        ),
        axis=1,
    )
    for k in range(4):
        assert kstest(rest[:, k], "norm").pvalue > 1e-4
    everything = np.column_stack((rest, rest**2, data.action, data.state))
    correlation = np.corrcoef(everything, rowvar=False)[:4]
    np.fill_diagonal(correlation, 0)
    assert abs(correlation).max() < 5 / np.sqrt(len(data))
    np.testing.assert_allclose(np.bincount(data.action) / len(data), 1 / 9, atol=0.01)


def test_starts_are_uniform():
    data = Helicopter().collect(uniform, 20_000, np.random.default_rng(1))
    first = data.state[np.append(True, (data.terminated | data.truncated)[:-1])]
    assert len(first) > 2_000
    for k, (low, width) in enumerate(((0, 1 / 3), (0, 1 / 3), (-1, 2), (-1, 2))):
        assert kstest(first[:, k], "uniform", (low, width)).pvalue > 1e-4


def test_data_set_has_its_size_and_hangs_together():
    helicopter = Helicopter()
    for n in (1, 7, 1_000):
        data = helicopter.collect(pilot, n, np.random.default_rng(n))
        assert len(data) == n
        goes_on = ~(data.terminated | data.truncated)[:-1]
        np.testing.assert_array_equal(data.next_state[:-1][goes_on], data.state[1:][goes_on])
        assert data.terminated[-1] | data.truncated[-1]
        assert not data.truncated[:-1].any()
        assert (data.reward[~data.terminated] == 0).all()


def test_episodes_are_truncated_at_their_cap():
    # Nearly at rest and without noise, nobody leaves the box or speeds.
    still = Helicopter(position_noise=0, velocity_noise=0, start_speed=0.001, max_steps=100)
    drifting = lambda states: np.eye(9, dtype=np.float32)[np.full(states.shape[:-1], 4)]  # noqa: E731
    data = still.collect(drifting, 1_050, np.random.default_rng(2))
    ends = np.flatnonzero(data.truncated | data.terminated)
    lengths = np.diff(np.append(-1, ends))
    assert data.truncated.sum() >= 9
    assert lengths.max() == 100
    assert lengths[-1] < 100  # the data set was full
    found = still.run_episodes(drifting, [3], n_episodes=50)
    assert found.n_steps.max() == 100
    assert (found.n_episodes == 1).all()


@pytest.mark.parametrize(("n_steps", "n_runs"), [(1, 40), (60, 3), (1_000, 1)])
def test_population_equals_one_helicopter_after_the_other(n_steps, n_runs):
    helicopter = Helicopter()
    seeds = np.array([5, 2**63 + 11])
    found = helicopter.run_episodes(pilot, seeds.astype(np.uint64), n_steps=n_steps, n_runs=n_runs)
    for r, e in np.ndindex(2, n_runs):
        total, n_episodes, flown = fly_run(helicopter, int(seeds[r]), e, n_steps, n_runs)
        assert (found.n_episodes[r, e], found.n_steps[r, e]) == (n_episodes, flown)
        assert found.total[r, e] == pytest.approx(total, abs=1e-3)


def fly_run(helicopter, seed, e, n_steps, n_runs):
    """Fly one run, step by step, from the numbers that the module's docstring promises."""
    total, n_episodes, t = 0.0, 0, 0
    while t < n_steps:
        state = helicopter.start(uniforms(seed, 2, 4 * (n_runs * t + e) + np.arange(4)))
        for _ in range(100):
            draws = uniforms(seed, 3, 5 * (n_runs * t + e) + np.arange(5))
            radius, angle = np.sqrt(-2 * np.log(1 - draws[:2])), 2 * np.pi * draws[2:4]
            noise = np.concatenate((radius * np.cos(angle), radius * np.sin(angle)))
            action = int((pilot(state).cumsum()[:-1] <= draws[4]).sum())
            state, reward, terminated = helicopter.step(state, action, noise.astype(np.float32))
            total += float(reward)
            t += 1
            if terminated:
                break
        n_episodes += 1
    return total, n_episodes, t


def test_a_member_does_not_depend_on_its_population():
    helicopter = Helicopter()
    together = helicopter.run_episodes(pilot, [1, 2, 3], n_episodes=200)
    alone = helicopter.run_episodes(pilot, [2], n_episodes=200)
    np.testing.assert_array_equal(together.total[1], alone.total[0])
    runs = helicopter.run_episodes(pilot, [1, 2, 3], n_steps=200, n_runs=2)
    run = helicopter.run_episodes(pilot, [2], n_steps=200, n_runs=2)
    np.testing.assert_array_equal(runs.total[1], run.total[0])


def test_members_get_their_own_policies():
    def two(states):
        return np.stack((pilot(states[0]), uniform(states[1])))

    found = Helicopter().run_episodes(two, [1, 1], n_episodes=2_000)
    assert found.mean[0] > found.mean[1] + 0.5


def test_tensors_fly_as_arrays_do():
    helicopter = Helicopter()
    for length in ({"n_episodes": 300}, {"n_steps": 300}):
        arrays = helicopter.run_episodes(pilot, [1, 2], **length)
        tensors = helicopter.run_episodes(tensor_pilot, [1, 2], device="cpu", **length)
        np.testing.assert_array_equal(arrays.n_steps, tensors.n_steps)
        np.testing.assert_allclose(arrays.total, tensors.total, atol=1e-2)


def test_runs_of_steps_end_with_their_last_episode():
    found = Helicopter().run_episodes(pilot, np.arange(50), n_steps=200)
    assert (found.n_steps >= 200).all()
    assert (found.n_steps < 300).all()
    assert (found.n_steps > 200).any()
    assert (found.n_episodes > 1).all()
    np.testing.assert_allclose(found.score, found.total / found.n_episodes)


@pytest.mark.statistical
def test_shipped_baseline_has_the_papers_strength():
    helicopter = Helicopter()
    baseline = helicopter.baseline()
    long = helicopter.run_episodes(baseline.action_probabilities, [0], n_episodes=60_000)
    # One episode has a standard deviation of 4.4, so the mean of these one of 0.018.
    assert 2.2 < long.mean[0] < 2.4
    assert long.mean[0] == pytest.approx(baseline.metadata["mean_return"], abs=0.09)
    runs = helicopter.run_episodes(baseline.action_probabilities, [1], n_steps=1_000, n_runs=900)
    worst = np.sort(runs.score[0])[:90].mean()
    assert 1.45 < worst < 1.75


def test_baseline_on_tensors_equals_arrays():
    helicopter = Helicopter()
    states = helicopter.collect(uniform, 500, np.random.default_rng(4)).state
    arrays = helicopter.baseline().action_probabilities(states)
    tensors = helicopter.baseline().action_probabilities(torch.from_numpy(states))
    np.testing.assert_allclose(tensors.numpy(), arrays, atol=1e-5)
    np.testing.assert_allclose(arrays.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda x: np.full((*x.shape[:-1], 9), np.nan), r"not distributions \(first at member 0\)"),
        (lambda x: np.full((*x.shape[:-1], 9), 1.0), "sum to one"),
        (lambda x: np.tile([2.0, -1.0, 0, 0, 0, 0, 0, 0, 0], (*x.shape[:-1], 1)), "sum to one"),
        (lambda x: np.full((*x.shape[:-1], 3), 1 / 3), r"shape \(2, 4, 3\)"),
        (lambda x: torch.full((*x.shape[:-1], 9), 1 / 9), "returned Tensor"),
    ],
)
def test_bad_policies(policy, message):
    with pytest.raises(PolicyError, match=message):
        Helicopter().run_episodes(policy, [1, 2], n_episodes=4)


def test_a_diverged_member_is_named():
    def third_is_broken(states):
        rows = uniform(states)
        rows[2] = np.nan
        return rows

    with pytest.raises(PolicyError, match="member 2"):
        Helicopter().run_episodes(third_is_broken, [1, 2, 3], n_episodes=4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seeds": [1]}, "exactly one of them"),
        ({"seeds": [1], "n_steps": 5, "n_episodes": 5}, "exactly one of them"),
        ({"seeds": [1], "n_episodes": 5, "n_runs": 2}, "n_runs is 2"),
        ({"seeds": [1], "n_steps": 0}, "n_steps is 0"),
        ({"seeds": [1], "n_episodes": 0}, "n_episodes is 0"),
        ({"seeds": [], "n_steps": 5}, "one whole number per member"),
        ({"seeds": [0.5], "n_steps": 5}, "one whole number per member"),
        ({"seeds": [1], "n_steps": 5, "device": "abacus"}, "device is 'abacus'"),
    ],
)
def test_bad_evaluations(arguments, message):
    with pytest.raises(SettingsError, match=message):
        Helicopter().run_episodes(uniform, **arguments)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there():
    with pytest.raises(SettingsError, match=r"torch finds none.*device='cpu'"):
        Helicopter().run_episodes(uniform, [1], n_steps=5, device="cuda")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"dt": 0}, "dt is 0"),
        ({"position_noise": -1}, "position_noise is -1"),
        ({"start_side": 2}, "start_side is 2"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"max_speed": np.nan}, "max_speed is nan"),
        ({"reward_high": -2}, "at least reward_low"),
        ({"dt": "fast"}, "dt is 'fast'; expected a number"),
    ],
)
def test_bad_settings(setting, message):
    with pytest.raises(SettingsError, match=message):
        Helicopter(**setting)


def test_size_of_a_data_set_is_checked():
    with pytest.raises(SettingsError, match="n_transitions is 0"):
        Helicopter().collect(uniform, 0, np.random.default_rng(0))


def test_picture_shows_flights():
    helicopter = Helicopter()
    flights = helicopter.trajectories(pilot, 5, np.random.default_rng(5))
    assert len(flights) == 5
    for flight in flights:
        assert flight.shape[1] == 4
        inside = (flight[:-1, :2] > 0).all() & (flight[1:-1, :2] < 1).all()
        assert inside
    figure = helicopter_figure(helicopter, flights)
    assert [axes.get_xlabel() for axes in figure.axes] == ["x", ""]
    empty, drawn = render_rgb(helicopter, []), render_rgb(helicopter, flights)
    assert empty.shape == drawn.shape == (400, 400, 3)
    assert empty.dtype == np.uint8
    assert (empty != drawn).any()
    # Teal where flights start, red near the top right corner, blue elsewhere on the frame.
    red, green, blue = empty[330, 70].astype(int)
    assert green > red
    assert blue > red
    assert empty[25, 375, 0] > 100 > empty[25, 375, 2]
    assert empty[390, 390, 2] > empty[390, 390, 0]


def test_arrays_fly_without_gymnasium_and_torch():
    code = """
import sys
from importlib.machinery import PathFinder


class Bare:
    @staticmethod
    def find_spec(name, path=None, target=None):
        is_hidden = name.split(".")[0] in ("gymnasium", "torch", "safetensors")
        return None if is_hidden else PathFinder.find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Bare
import numpy as np
from spibb.envs import Helicopter
from spibb.errors import MissingDependencyError

flown = Helicopter().run_episodes(lambda x: np.full((*x.shape[:-1], 9), 1 / 9), [0], n_episodes=9)
assert flown.n_episodes.sum() == 9
for task in (
    Helicopter().baseline,
    lambda: Helicopter().run_episodes(None, [0], n_episodes=9, device="cpu"),
):
    try:
        task()
    except MissingDependencyError as problem:
        print(problem)
"""
    told = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("spibb[deep]") == 2
