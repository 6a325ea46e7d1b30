"""One planner of another package, on a model that benchmarks/large_models.py wrote.

    python benchmarks/peer_planners.py quantecon|mdpsolver MODEL.npz VALUES.npy

prints the seconds of planning and writes the values; needs that package, and spibb not.
"""

import sys
import time

import numpy as np
import scipy.sparse as sp


def by_quantecon(rows, reward, gamma, accuracy):
    """Modified policy iteration of quantecon, compiled by a first run."""
    from quantecon.markov import DiscreteDP

    n_states, n_actions = reward.shape
    states = np.repeat(np.arange(n_states), n_actions)
    actions = np.tile(np.arange(n_actions), n_states)
    process = DiscreteDP(reward.ravel(), rows, gamma, states, actions)
    n_sweeps = 20 if gamma < 0.995 else 500
    process.solve(method="mpi", epsilon=accuracy, max_iter=1, k=1)
    begun = time.perf_counter()
    done = process.solve(method="mpi", epsilon=accuracy, max_iter=100_000, k=n_sweeps)
    return time.perf_counter() - begun, done.v


def by_mdpsolver(rows, reward, gamma, accuracy):
    """Modified policy iteration of mdpsolver, in C++ threads; lists are copied before the clock."""
    import mdpsolver

    n_states, n_actions = reward.shape
    pairs = [slice(rows.indptr[k], rows.indptr[k + 1]) for k in range(n_states * n_actions)]

    def nested(values):
        flat = [values[pair].tolist() for pair in pairs]
        return [flat[x * n_actions : (x + 1) * n_actions] for x in range(n_states)]

    model = mdpsolver.model()
    model.mdp(
        discount=gamma, rewards=reward.tolist(), tranMatProbs=nested(rows.data),
        tranMatColumns=nested(rows.indices),
    )  # fmt: skip
    begun = time.perf_counter()
    model.solve(algorithm="mpi", tolerance=accuracy, parallel=True)
    seconds = time.perf_counter() - begun
    return seconds, np.array(model.getValueVector())


PLANNERS = {"quantecon": by_quantecon, "mdpsolver": by_mdpsolver}


def main():
    """Plan, print the seconds and write the values."""
    name, model, values = sys.argv[1:]
    given = np.load(model)
    reward = given["reward"]
    shape = (reward.size, len(reward))
    rows = sp.csr_matrix((given["data"], given["indices"], given["indptr"]), shape=shape)
    seconds, v = PLANNERS[name](rows, reward, float(given["gamma"]), float(given["accuracy"]))
    np.save(values, v)
    print(seconds)


if __name__ == "__main__":
    main()
