"""Planning in large models beside other planners, each to 1e-6 in the values: one table.

    python benchmarks/large_models.py --peers PYTHON      # 100,000 states, every planner
    python benchmarks/large_models.py --states 20000      # spibb and SciPy
    python benchmarks/large_models.py --methods           # solvers of one policy's chain
    python benchmarks/large_models.py --soft-spibb 10000 100000 1000000

quantecon and mdpsolver are run by a Python that has them, of an environment of its own:

    python -m venv peers; peers/bin/pip install -r benchmarks/requirements-peers.txt

Each planner gets the model in the form it wants before the clock starts, plans once to compile and
once for the time, and is held to 1e-6 against the values and the stated error of spibb.
"""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path
from threading import Event, Thread

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import gmres as scipy_gmres

from spibb import ApproxSoftSPIBB, Counts, ExactSoftSPIBB, Problem, TabularMDP, TabularPolicy, solve
from spibb.mdp.batch import ModelBatch
from spibb.mdp.chain import Chain
from spibb.mdp.incomplete_lu import IncompleteLU
from spibb.mdp.krylov import bicgstab, solve_chain
from spibb.problem import ProblemBatch

N_ACTIONS, N_SUCCESSORS = 10, 5
ACCURACY = 1e-6
PEERS = ("quantecon", "mdpsolver")


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


def by_peer(name, python, limit):
    """Another package, in a Python that has it; None where that does not, or takes too long."""

    def prepare(mdp):
        folder = tempfile.TemporaryDirectory()
        model, values = (Path(folder.name) / file for file in ("model.npz", "values.npy"))
        rows = mdp.rows
        np.savez(
            model, indptr=rows.indptr, indices=rows.indices, data=rows.data, reward=mdp.reward,
            gamma=mdp.gamma, accuracy=ACCURACY,
        )  # fmt: skip
        command = [python, str(Path(__file__).with_name("peer_planners.py")), name, model, values]

        def run():
            with folder:
                done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
                if done.returncode:
                    raise SystemExit(f"{name}: {done.stderr.strip().splitlines()[-1]}")
                return float(done.stdout.split()[-1]), np.load(values)

        return run

    return prepare


def timed(run):
    """Run twice; return the seconds of the second, and what it found."""
    run()
    begun = time.perf_counter()
    found = run()
    return time.perf_counter() - begun, found


def compare_planners(n_states, peers, limit):
    """Print seconds, ratios to spibb and distances to its values."""
    print(f"{'graph':14}{'planner':18}{'seconds':>9}{'ratio':>8}{'distance':>11}")
    for make in (random_graph, corridor):
        mdp = make(n_states)
        found = solve(mdp)
        seconds, v = timed(by_spibb(mdp))
        own = seconds
        line = f"{make.__name__:14}{{:18}}{{:9.3f}}{{:8.1f}}{{:11.1e}}".format
        print(line("spibb", seconds, 1.0, np.abs(v - found.v).max()), flush=True)
        seconds, v = timed(by_scipy(mdp))
        print(line("SciPy (mpi)", seconds, seconds / own, np.abs(v - found.v).max()), flush=True)
        for name in PEERS if peers is not None else ():
            try:
                seconds, v = by_peer(name, peers, limit)(mdp)()
            except subprocess.TimeoutExpired:
                print(f"{make.__name__:14}{name + ' (mpi)':18} not within {limit:g} s", flush=True)
                continue
            off = np.abs(v - found.v).max()
            print(line(f"{name} (mpi)", seconds, seconds / own, off), flush=True)
        print(f"{make.__name__:14}{'stated error':46}{found.error:.1e}", flush=True)


def compare_methods(n_states):
    """Print seconds, and residuals as shares of the values, of solvers of one policy's chain."""
    print(f"{'graph':14}{'method':26}{'seconds':>9}{'residual':>10}")
    for make in (random_graph, corridor):
        mdp = make(n_states)
        policy = np.zeros(mdp.reward.shape)
        policy[np.arange(n_states), mdp.reward.argmax(axis=1)] = 1.0
        chain = Chain.of(ModelBatch.stack([mdp]), 0, policy)
        for name, method in METHODS.items():
            solve_chain(chain, np.zeros(n_states))  # compiled before the clock starts
            x = np.zeros(n_states)
            begun = time.perf_counter()
            method(chain, x)
            seconds = time.perf_counter() - begun
            left = chain.residual(x, np.empty(n_states)) / np.abs(x).max()
            print(f"{make.__name__:14}{name:26}{seconds:9.3f}{left:10.0e}", flush=True)


def sweeps(chain, x):
    """Value iteration of the policy, 500 sweeps at most."""
    r = np.empty_like(x)
    for _ in range(500):
        if chain.residual(x, r) <= 1e-12 * np.abs(x).max():
            break
        x += r


def anderson(chain, x, depth=5):
    """Sweeps with Anderson's mixing, 500 at most."""
    r, steps, changes = np.empty_like(x), [], []
    before = None
    for _ in range(500):
        if chain.residual(x, r) <= 1e-12 * np.abs(x).max():
            break
        if before is not None:
            steps, changes = [*steps, x - before[0]][-depth:], [*changes, r - before[1]][-depth:]
        before = x.copy(), r.copy()
        x += r
        if steps:
            weights = np.linalg.lstsq(np.stack(changes, axis=1), r, rcond=None)[0]
            x -= (np.stack(steps, axis=1) + np.stack(changes, axis=1)) @ weights


def krylov(chain, x, factor=None):
    """BiCGSTAB, 500 steps at most."""
    r = np.empty_like(x)
    chain.residual(x, r)
    bicgstab(chain, x, r, 1e-12 * 1e2, 500, factor)


def gmres(chain, x):
    """SciPy's GMRES(30), 300 steps at most."""
    matrix = sp.eye_array(len(x)).tocsr() - chain.matrix
    x[:], _ = scipy_gmres(matrix, chain.reward, rtol=1e-12, restart=30, maxiter=10)


def preconditioned(chain, x):
    """BiCGSTAB with an incomplete factor; without one where it fills in."""
    krylov(chain, x, IncompleteLU.of(chain))


METHODS = {
    "sweeps": sweeps,
    "sweeps, Anderson 5": anderson,
    "BiCGSTAB": krylov,
    "BiCGSTAB, factor": preconditioned,
    "GMRES(30)": gmres,
    "what is used": solve_chain,
}


def counts_of(n_states, n_actions=N_ACTIONS, n_successors=N_SUCCESSORS, seed=0):
    """Counts of a log on a random graph, every pair seen."""
    rng = np.random.default_rng(seed)
    n_pairs = n_states * n_actions
    starts = np.arange(0, n_pairs * n_successors + 1, n_successors)
    seen = rng.integers(1, 20, n_pairs * n_successors)
    successors = rng.integers(0, n_states, n_pairs * n_successors, dtype=np.int32)
    n_sas = sp.csr_array((seen, successors, starts), shape=(n_pairs, n_states))
    n_sas.sum_duplicates()
    n_sa = np.add.reduceat(seen, starts[:-1]).reshape(n_states, n_actions)
    ends = sp.csr_array(n_sas.shape, dtype=np.int64)
    paid, once = n_sa * rng.random(n_sa.shape), np.ones(n_states, dtype=np.int64)
    baseline = TabularPolicy(rng.dirichlet(np.ones(n_actions), n_states))
    return Counts(n_sa, n_sas, ends, paid, (0.0, 1.0), once), baseline


class Peak:
    """The most memory that the process holds while the block runs."""

    def __enter__(self):
        self._stop, self.most = Event(), _resident()
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self):
        while not self._stop.wait(0.02):
            self.most = max(self.most, _resident())

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def _resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def soft_spibb(sizes):
    """Print seconds and memory of Soft-SPIBB to convergence; memory beyond what counts take."""
    algorithms = {"approx": ApproxSoftSPIBB(epsilon=1.0), "exact": ExactSoftSPIBB(epsilon=1.0)}
    print(f"{'states':>10}{'part':>10}{'seconds':>9}{'CPU s':>8}{'steps':>7}{'memory / model':>16}")
    for n_states in sizes:
        counts, baseline = counts_of(n_states)
        problem = Problem.of(counts, baseline=baseline, gamma=0.99, accept_baseline=True)
        # Successors and probabilities; where rows start, rewards and ends of pairs.
        size = 12 * len(counts.n_sas.indices) + 24 * counts.n_sa.size
        held = _resident()

        def report(part, function, held=held, size=size, n_states=n_states):
            begun, used = time.perf_counter(), time.process_time()
            with Peak() as peak:
                found = function()
            seconds, used = time.perf_counter() - begun, time.process_time() - used
            steps = "" if not hasattr(found, "status") else str(found.n_iterations[0])
            memory = (peak.most - held) / size
            told = f"{n_states:10,}{part:>10}{seconds:9.1f}{used:8.1f}{steps:>7}{memory:16.1f}"
            print(told, flush=True)
            return found

        batch = report("model", lambda problem=problem: ProblemBatch.alone(problem))
        for name, algorithm in algorithms.items():
            found = report(name, lambda one=algorithm, batch=batch: one.search(batch))
            if not found.status[0].is_success:
                print(found.status[0].value)


def main():
    """Print the table that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", type=int, default=100_000)
    parser.add_argument("--peers", metavar="PYTHON", help="a Python with quantecon and mdpsolver")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds that a peer may take")
    parser.add_argument("--methods", action="store_true", help="solvers of one policy's chain")
    parser.add_argument("--soft-spibb", nargs="*", type=int, help="numbers of states")
    asked = parser.parse_args()
    if asked.methods:
        compare_methods(asked.states)
    elif asked.soft_spibb:
        soft_spibb(asked.soft_spibb)
    else:
        compare_planners(asked.states, asked.peers, asked.limit)


if __name__ == "__main__":
    main()
