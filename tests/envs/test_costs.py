"""The processes with costs are what their descriptions say, by playing them."""

import gymnasium
import numpy as np
import pytest

from spibb import evaluate, solve
from spibb.envs import Cliff, Inventory, Maintenance, Queue, RareAction
from spibb.errors import SettingsError

KINDS = {
    "queue": Queue,
    "inventory": Inventory,
    "maintenance": Maintenance,
    "drug": RareAction,
    "ruinous drug": lambda: RareAction(is_ruinous=True),
}
N = 40_000


def queue_step(x, a, rng):
    arrives = (rng.random(N) < 0.5) & (x < 39)
    leaves = (rng.random(N) < (0.3, 0.55, 0.8)[a]) & (x > 0)
    return x + arrives.astype(int) - leaves, -0.3 * x - (0.0, 0.5, 1.0)[a]


def inventory_step(x, a, rng):
    stock, order = x - 10, (0, 5, 10)[a]
    cost = 0.1 * max(stock, 0) + max(-stock, 0) + (order > 0) * (0.5 + 0.1 * order)
    left = np.maximum(min(stock + order, 20) - rng.binomial(8, 0.4, N), -10)
    return left + 10, -cost


def maintenance_step(x, a, rng):
    if x == 12:
        return np.zeros(N, int), -30.0
    wear = (x, max(0, x - 3), 0)[a]
    breaks = rng.random(N) < min(0.25, 0.0005 * 1.75**wear)
    after = np.minimum(wear + (rng.random(N) < 0.6), 11)
    return np.where(breaks, 12, after), -(0.0, 2.0, 5.0)[a] - 0.05 * wear


def drug_step(x, a, rng, ruin=0.0):
    if x == 10:
        return np.full(N, 10), -3.0
    lost = rng.random(N) < (0.2 if x == 9 else 0.0) + ruin * (a == 2)
    luck, up, down = rng.random(N), (0.4, 0.25, 0.1)[a], (0.3, 0.35, 0.7)[a]
    after = np.clip(x + (luck < up) - (luck > 1.0 - down), 0, 9)
    return np.where(lost, 10, after), -0.1 * x - (0.0, 0.2, 0.2)[a]


STEPS = {
    "queue": queue_step,
    "inventory": inventory_step,
    "maintenance": maintenance_step,
    "drug": drug_step,
    "ruinous drug": lambda x, a, rng: drug_step(x, a, rng, ruin=1 / 40),
}


@pytest.mark.parametrize("name", KINDS)
def test_they_match_simulation(name):
    rng = np.random.default_rng(0)
    mdp = KINDS[name]().to_mdp(gamma=0.95)
    np.testing.assert_allclose(mdp.dense.sum(axis=2), 1.0, err_msg="they never end")
    last = mdp.n_states - 1
    for x in (0, 1, 4, 10, last - 1, last):
        for a in range(mdp.n_actions):
            after, pay = STEPS[name](x, a, rng)
            found = np.bincount(after, minlength=mdp.n_states) / N
            np.testing.assert_allclose(found, mdp.dense[x, a], atol=0.012)
            assert mdp.reward[x, a] == pytest.approx(pay)


@pytest.mark.parametrize("name", KINDS)
def test_costs_only_and_a_baseline_that_can_be_improved(name):
    env = KINDS[name]()
    mdp = env.to_mdp(gamma=0.95)
    assert (mdp.reward <= 0).all()
    assert mdp.reward.min() < 0
    assert mdp.initial.max() == 1.0
    best = solve(mdp).performance
    uniform = np.full((mdp.n_states, mdp.n_actions), 1 / mdp.n_actions)
    worst = evaluate(mdp, uniform).performance
    for epsilon in (0.1, 0.3):
        heuristic = evaluate(mdp, env.baseline(epsilon)).performance
        # By chance the drug is given more often, which is best.
        assert name == "drug" or worst < heuristic, "not as bad as chance"
        assert heuristic < best - 0.05 * abs(best), "not optimal"


@pytest.mark.parametrize("kind", KINDS.values())
def test_baselines(kind):
    table = kind().baseline(epsilon=0.3).probabilities
    np.testing.assert_allclose(table.max(axis=1), 0.8)
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    for epsilon in (-0.1, 1.1, float("nan")):
        with pytest.raises(SettingsError, match=r"epsilon is .*; expected a share in \[0, 1\]"):
            kind().baseline(epsilon=epsilon)


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        (Queue, {0: 1, 3: 1, 4: 2, 39: 2}),
        (Inventory, {0: 2, 16: 2, 17: 1, 21: 1, 22: 0, 30: 0}),
        (Maintenance, {0: 0, 3: 0, 4: 1, 7: 1, 8: 2, 11: 2}),
    ],
)
def test_what_the_baselines_do(kind, rows):
    table = kind().baseline(epsilon=0.0).probabilities
    assert {x: int(table[x].argmax()) for x in rows} == rows


@pytest.mark.parametrize("name", ["spibb/Queue-v0", "spibb/Inventory-v0", "spibb/Maintenance-v0"])
def test_as_environments(name):
    env = gymnasium.make(name)
    _, _ = env.reset(seed=0)
    found = [env.step(env.action_space.sample()) for _ in range(1_000)]
    assert all(reward <= 0 for _, reward, *_ in found)
    assert not any(terminated for _, _, terminated, *_ in found)
    assert [truncated for *_, truncated, _ in found].index(True) == 999


def test_the_cliff_matches_simulation():
    """By walking: a step, then wind, then the edge."""
    rng = np.random.default_rng(0)
    mdp = Cliff().to_mdp(gamma=0.99)
    for x in (0, 9, 21, 25, 29, 30):
        for a, (down, right) in enumerate(((-1, 0), (0, 1), (1, 0), (0, -1))):
            wind = rng.random(N) < 0.1
            row = np.clip(x // 10 + down + wind, 0, 3)
            column = min(max(x % 10 + right, 0), 9)
            falls = (row == 3) & (0 < column < 9)
            after = np.where(falls, 30, row * 10 + column)
            found = np.bincount(after, minlength=40) / N
            np.testing.assert_allclose(found, mdp.dense[x, a], atol=0.012)
            assert mdp.reward[x, a] == pytest.approx((-1 - 50 * falls).mean(), abs=0.5)
    assert mdp.terminal[39]
    baseline = evaluate(mdp, Cliff().baseline()).performance
    assert baseline < solve(mdp).performance - 5.0
