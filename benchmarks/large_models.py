"""Planning in large models beside other planners, each to 1e-6 in the values: one table.

    python benchmarks/large_models.py                     # 100,000 states, every planner there is
    python benchmarks/large_models.py --states 20000
    python benchmarks/large_models.py --methods           # evaluation: what was tried
    python benchmarks/large_models.py --million           # Soft-SPIBB, one size after another

quantecon and mdpsolver are run where they are installed. Each planner gets the model in the form it
wants before the clock starts, plans once to compile and once for the time, and is held to 1e-6
against the values and the stated error of spibb.
"""

import argparse
import os
import resource
import sys
import time
from importlib.util import find_spec

import numpy as np
import scipy.sparse as sp

from spibb import TabularMDP, TabularPolicy, solve
from spibb.mdp.batch import ModelBatch
from spibb.mdp.chain import Chain
from spibb.mdp.incomplete_lu import IncompleteLU
from spibb.mdp.krylov import bicgstab, solve_chain

N_ACTIONS, N_SUCCESSORS = 10, 5
ACCURACY = 1e-6


def random_graph(n_states, seed=0):
    """Successors anywhere: mixes within a few steps."""
    rng = np.random.default_rng(seed)
    shape = (n_states * N_ACTIONS, N_SUCCESSORS)
    return _model(rng, rng.integers(0, n_states, shape), n_states, 0.99)


def corridor(n_states, seed=0):
    """Successors at most two places away, along a line whose states are numbered at random."""
    rng = np.random.default_rng(seed)
    name = rng.permutation(n_states)
    place = np.repeat(np.argsort(name), N_ACTIONS)
    near = np.clip(place[:, None] + np.arange(-2, 3), 0, n_states - 1)
    return _model(rng, name[near], n_states, 0.999)


def _model(rng, successors, n_states, gamma):
    n_pairs = len(successors)
    p = rng.dirichlet(np.ones(N_SUCCESSORS), n_pairs).ravel()
    starts = np.arange(0, n_pairs * N_SUCCESSORS + 1, N_SUCCESSORS)
    matrix = sp.csr_array((p, successors.ravel(), starts), shape=(n_pairs, n_states))
    matrix.sum_duplicates()
    return TabularMDP(matrix, rng.random((n_states, N_ACTIONS)), gamma)


def by_spibb(mdp):
    """Inexact policy iteration by Krylov steps."""
    return lambda: solve(mdp).v


def by_scipy(mdp):
    """Modified policy iteration: sweeps by SciPy's products, stopped by the span of a backup."""
    rows, rewards, gamma = mdp.rows, mdp.reward, mdp.gamma
    first = np.arange(mdp.n_states) * mdp.n_actions
    n_sweeps = 20 if gamma < 0.995 else 500

    def run():
        v = np.zeros(mdp.n_states)
        while True:
            q = rewards + gamma * (rows @ v).reshape(rewards.shape)
            actions = q.argmax(axis=1)
            new = q.max(axis=1)
            change = new - v
            if np.ptp(change) * gamma / (1 - gamma) <= ACCURACY:
                return new + gamma / (1 - gamma) * (change.max() + change.min()) / 2
            chosen = rows[first + actions]
            r = rewards[np.arange(mdp.n_states), actions]
            v = new
            for _ in range(n_sweeps):
                v = r + gamma * (chosen @ v)

    return run


def by_quantecon(mdp):
    """quantecon's modified policy iteration."""
    from quantecon.markov import DiscreteDP

    states = np.repeat(np.arange(mdp.n_states), mdp.n_actions)
    actions = np.tile(np.arange(mdp.n_actions), mdp.n_states)
    rows = sp.csr_matrix(mdp.rows)
    process = DiscreteDP(mdp.reward.ravel(), rows, mdp.gamma, states, actions)
    n_sweeps = 20 if mdp.gamma < 0.995 else 500

    def run():
        done = process.solve(method="mpi", epsilon=ACCURACY, max_iter=100_000, k=n_sweeps)
        return done.v

    return run


def by_mdpsolver(mdp):
    """mdpsolver's modified policy iteration, in C++ threads."""
    import mdpsolver

    n_states, n_actions = mdp.reward.shape
    rows = mdp.rows
    ends = rows.indptr.reshape(-1)
    pairs = [slice(ends[k], ends[k + 1]) for k in range(n_states * n_actions)]
    probabilities = [rows.data[pair].tolist() for pair in pairs]
    columns = [rows.indices[pair].tolist() for pair in pairs]

    def nested(flat):
        return [flat[x * n_actions : (x + 1) * n_actions] for x in range(n_states)]

    def run():
        model = mdpsolver.model()
        model.mdp(
            discount=mdp.gamma, rewards=mdp.reward.tolist(), tranMatProbs=nested(probabilities),
            tranMatColumns=nested(columns),
        )  # fmt: skip
        begun = time.perf_counter()
        model.solve(algorithm="mpi", tolerance=ACCURACY, parallel=True)
        run.seconds = time.perf_counter() - begun  # not the copying of lists
        return np.array(model.getValueVector())

    return run


PLANNERS = {
    "spibb": (by_spibb, None),
    "SciPy (mpi)": (by_scipy, None),
    "quantecon (mpi)": (by_quantecon, "quantecon"),
    "mdpsolver (mpi)": (by_mdpsolver, "mdpsolver"),
}


def timed(run):
    """Run twice; return the seconds of the second, and what it found."""
    run()
    begun = time.perf_counter()
    found = run()
    return getattr(run, "seconds", time.perf_counter() - begun), found


def compare_planners(n_states, names):
    """Print seconds, ratios to spibb and distances to its values."""
    print(f"{'graph':14}{'planner':18}{'seconds':>9}{'ratio':>8}{'distance':>11}")
    for make in (random_graph, corridor):
        mdp = make(n_states)
        found = solve(mdp)
        own = 0.0
        for name, (prepare, needed) in PLANNERS.items():
            if name not in names or (needed is not None and find_spec(needed) is None):
                continue
            seconds, v = timed(prepare(mdp))
            own = own or seconds
            off = np.abs(v - found.v).max()
            print(
                f"{make.__name__:14}{name:18}{seconds:9.3f}{seconds / own:8.1f}{off:11.1e}",
                flush=True,
            )
        print(f"{make.__name__:14}{'stated error':46}{found.error:.1e}")


def main():
    """Print the tables that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", type=int, default=100_000)
    parser.add_argument("--planners", nargs="*", default=list(PLANNERS))
    asked = parser.parse_args()
    compare_planners(asked.states, asked.planners)


if __name__ == "__main__":
    main()
