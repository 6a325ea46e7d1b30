"""The problems that are timed: random MDPs of 50 states, 4 actions and 4 successors."""

from __future__ import annotations

import os
import time
from functools import lru_cache

import numpy as np

from spibb import Counts, Log, TabularMDP, TabularPolicy

GAMMA = 0.95
# Where ratios are compared (benchmarks/check.py), processor time: other programs add little to it.
clock = time.process_time if "SPIBB_BENCH_PROCESSOR" in os.environ else time.perf_counter


def garnet(rng: np.random.Generator, n_states: int = 50, n_actions: int = 4) -> TabularMDP:
    """Return a random MDP: 4 distinct successors a pair, reward 1 on entering the last state."""
    transition = np.zeros((n_states, n_actions, n_states))
    for x in range(n_states):
        for a in range(n_actions):
            successors = rng.choice(n_states, 4, replace=False)
            cuts = np.sort(rng.random(3))
            transition[x, a, successors] = np.diff(cuts, prepend=0.0, append=1.0)
    terminal = np.arange(n_states) == n_states - 1
    return TabularMDP(transition, transition[:, :, -1].copy(), GAMMA, terminal=terminal)


@lru_cache
def logs(n_problems: int) -> tuple[tuple[Log, TabularPolicy], ...]:
    """Return logs of 100 episodes of at most 50 steps, each with the baseline that made it."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(n_problems):
        mdp = garnet(rng)
        baseline = TabularPolicy(rng.dirichlet(np.ones(mdp.n_actions), mdp.n_states))
        log = Log.sample(mdp, baseline, n_episodes=100, max_steps=50, rng=rng)
        found.append((log, baseline))
    return tuple(found)


@lru_cache
def counted(n_problems: int) -> tuple[list[Counts], list[TabularPolicy]]:
    """Return the counts of those logs, and the baselines."""
    made = logs(n_problems)
    return [Counts.from_log(log) for log, _ in made], [baseline for _, baseline in made]


def dense_counts(n_states: int, n_actions: int) -> Counts:
    """Return counts in which every pair has been followed by every state."""
    import scipy.sparse as sp

    rng = np.random.default_rng(1)
    n_sas = rng.integers(1, 20, (n_states * n_actions, n_states))
    n_sa = n_sas.sum(axis=1).reshape(n_states, n_actions)
    return Counts(
        n_sa=n_sa,
        n_sas=sp.csr_array(n_sas),
        n_end=sp.csr_array(n_sas.shape, dtype=np.int64),
        reward_sum=n_sa * rng.uniform(-1, 1, n_sa.shape),
        reward_range=(-1.0, 1.0),
        n_initial=np.eye(n_states, dtype=np.int64)[0],
    )
