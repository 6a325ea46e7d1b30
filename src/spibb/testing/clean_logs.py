"""Sound logs of many shapes, for what looks for unsound ones to find nothing in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.data.log import Log
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy

KINDS = (
    "episodes",
    "sticky",
    "one long record",
    "few records",
    "one step",
    "deterministic",
    "many states",
    "tiny",
)


def clean_log(seed: int) -> tuple[str, Log, TabularPolicy]:
    """Return the kind of a log, the log, and the baseline that made it.

    Processes, their sizes, rewards and baselines (some deterministic, some nearly so) are drawn;
    ``seed % 8`` is the kind. Some logs have noisy rewards, some only a few different ones; some
    episodes end, others are cut off.
    """
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    low, high = {"tiny": (1, 4), "many states": (100, 1_000), "one step": (1, 40)}.get(
        kind, (2, 50)
    )
    n_states, n_actions = int(rng.integers(low, high)), int(rng.integers(1, 9))
    n_rows = int(10 ** rng.uniform(1.0, 4.3))
    if kind == "tiny":
        n_rows = int(rng.integers(2, 30))
    mdp = _process(kind, n_states, n_actions, rng)
    baseline = _baseline(n_states, n_actions, rng)
    max_steps = {"one long record": n_rows, "few records": max(2, n_rows // 10), "one step": 1}.get(
        kind, int(rng.integers(2, 60))
    )
    n_episodes = {"one long record": 1, "few records": int(rng.integers(2, 30))}.get(
        kind, max(1, n_rows // max_steps)
    )
    log = Log.sample(mdp, baseline, n_episodes=n_episodes, max_steps=max_steps, rng=rng)
    noise = rng.choice([0.0, 1.0]) * rng.normal(size=len(log))
    columns = {
        name: getattr(log, name)
        for name in ("state", "action", "next_state", "terminated", "truncated", "episode", "step")
    }
    if rng.random() < 0.2 and kind not in ("one long record", "few records"):
        del columns["episode"], columns["step"]  # transitions in any order
    reward = np.round(log.reward + noise, 3)
    return kind, Log.from_arrays(**columns, reward=reward, n_states=n_states,
                                 n_actions=n_actions), baseline  # fmt: skip


def _process(kind: str, n_states: int, n_actions: int, rng: np.random.Generator) -> TabularMDP:
    shape = (n_states, n_actions)
    goes_on = kind in ("one long record", "few records")
    if kind == "deterministic":
        transition = np.eye(n_states)[rng.integers(0, n_states, shape)]
    else:
        transition = np.zeros((*shape, n_states))
        n_after = int(rng.integers(1, min(n_states, 6) + 1))
        for x, a in np.ndindex(*shape):
            after = rng.choice(n_states, n_after, replace=False)
            transition[x, a, after] = rng.dirichlet(np.ones(n_after))
    if kind == "sticky":
        transition = 0.3 * transition + 0.7 * np.eye(n_states)[:, None, :]
    ending = np.zeros(shape) if goes_on else rng.choice([0.0, 0.1]) * rng.random(shape)
    reward = rng.choice([0.0, 1.0], shape) if rng.random() < 0.5 else rng.normal(size=shape)
    return TabularMDP(transition * (1.0 - ending[..., None]), reward, 0.9, ending=ending)


def _baseline(n_states: int, n_actions: int, rng: np.random.Generator) -> TabularPolicy:
    table: NDArray[np.float64] = rng.dirichlet(
        np.full(n_actions, rng.choice([0.3, 1.0, 5.0])), n_states
    )
    kind = rng.random()
    if kind < 0.2:
        table = np.eye(n_actions)[table.argmax(axis=1)]
    elif kind < 0.4:
        table = 0.98 * np.eye(n_actions)[table.argmax(axis=1)] + 0.02 / n_actions
    table = np.maximum(table, 0.0)
    return TabularPolicy(table / table.sum(axis=1, keepdims=True))
