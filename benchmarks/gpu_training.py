"""Build, check and time the fused training kernel: ``python benchmarks/gpu_training.py``.

Needs one GPU and the extra gpu. ``--profile`` launches the kernel once and nothing else, for
``ncu --clock-control none --set full``; ``--option=-DNAME=VALUE`` goes to the compiler.
"""

import argparse
import time

import numpy as np
import torch

from spibb.compiled.random_numbers import minibatch
from spibb.deep.forward import layer_places
from spibb.deep.population import Member, PopulationState, TrainingBatch, TrainingSettings
from spibb.deep.rules import (
    ApproxSoftSPIBBDQN,
    DoubleDQN,
    ExactSoftSPIBBDQN,
    PiBSPIBBDQN,
    PiLeqBSPIBBDQN,
    RaMDPDQN,
)
from spibb.deep.train_cpu import CpuEngine
from spibb.deep.train_fused import FusedEngine
from spibb.deep.training_data import TrainingData
from spibb.operators.rows import step_rows

SIZES = (4, 32, 128, 32, 9)
SOFT = [
    kind(epsilon=epsilon)
    for epsilon in (0.2, 0.5, 1.0, 2.0)
    for kind in (ExactSoftSPIBBDQN, ApproxSoftSPIBBDQN)
]
OTHERS = [DoubleDQN(), RaMDPDQN(kappa=0.3), PiBSPIBBDQN(n_wedge=5), PiLeqBSPIBBDQN(n_wedge=5)]
# What the compiler may be told; the first is what the package uses.
VARIANTS: dict[str, tuple[str, ...]] = {
    "as shipped": (),
    "1 tile abreast": ("-DN_ABREAST=1",),
    "4 tiles abreast": ("-DN_ABREAST=4",),
    "3 sums a product": ("-DN_SUMS=3",),
    "low parts by cutting": ("-DROUNDS=0",),
    "tf32 only (wrong)": ("-DN_PRODUCTS=1",),
}


def training_data(seed: int, n_rows: int) -> TrainingData:
    rng = np.random.default_rng(seed)
    shape = (n_rows, SIZES[-1])
    return TrainingData(
        state=rng.normal(size=(n_rows, SIZES[0])),
        action=rng.integers(SIZES[-1], size=n_rows),
        reward=rng.normal(size=n_rows),
        next_state=rng.normal(size=(n_rows, SIZES[0])),
        terminated=rng.random(n_rows) < 0.1,
        n_here=1.0 + rng.exponential(5.0, n_rows),
        baseline_next=rng.dirichlet(np.ones(shape[1]), n_rows),
        n_next=np.where(rng.random(shape) < 0.1, 0.0, rng.exponential(8.0, shape)),
    )


def population(rules: list, n_members: int, n_rows: int = 10_000) -> TrainingBatch:
    data = [training_data(seed, n_rows) for seed in range(4)]
    members = [Member(k % 4, rules[k % len(rules)], k) for k in range(n_members)]
    return TrainingBatch(data, members, TrainingSettings())


class Run:
    """A population on the GPU."""

    def __init__(self, trainings: TrainingBatch, options: tuple[str, ...] = ()) -> None:
        self.trainings = trainings
        self.engine = FusedEngine(trainings, "cuda", options)
        self.start = PopulationState.start(trainings.members, SIZES)

    def steps(self, n_steps: int, state=None, t0: int = 0) -> dict[str, torch.Tensor]:
        """Take steps from ``state``, or from the start: params, target, v and diverged_at."""
        if state is None:
            state = {n: torch.tensor(part, device="cuda") for n, part in self.start.arrays.items()}
            state["diverged_at"] = state["diverged_at"].int()
        tensors = {name: tensor.clone() for name, tensor in state.items()}
        self.engine.launch(tensors, t0, n_steps)
        return tensors

    def speed(self, n_steps: int, repeats: int = 3) -> float:
        """Return gradient steps a second, the median of some launches."""
        state, t0, found = self.steps(100), 100, []
        for _ in range(repeats):
            torch.cuda.synchronize()
            began = time.perf_counter()
            state = self.steps(n_steps, state, t0)
            found.append(time.perf_counter() - began)
            t0 += n_steps
        if not bool(torch.isfinite(state["params"]).all()):
            print("   parameters are not finite")
        return len(self.trainings.members) * n_steps / float(np.median(found))


def in_float64(trainings: TrainingBatch, n_steps: int) -> np.ndarray:
    """Train by plain NumPy in float64 and return the parameters."""
    records, recipes, chosen = trainings.records, trainings.recipes, trainings.settings
    params = PopulationState.start(trainings.members, SIZES).params.astype(np.float64)
    n = np.arange(chosen.batch_size)

    def layers(flat):
        return [(flat[a:b].reshape(i, o), flat[b:c]) for a, b, c, i, o in layer_places(SIZES)]

    def values(flat, states):
        found = [states.astype(np.float64)]
        for k, (w, b) in enumerate(layers(flat)):
            z = found[-1] @ w + b
            found.append(np.maximum(z, 0) if k < 3 else z)
        return found

    for m, online in enumerate(params):
        v = np.zeros_like(online)
        for t in range(n_steps):
            if t % chosen.target_period == 0:
                frozen = online.copy()
            rows = minibatch(recipes.seed[m], t, batch_size=len(n), n=int(recipes.n_rows[m]))
            rows = rows + recipes.first_row[m]
            here = values(online, records.state[rows])
            q_next = values(online, records.next_state[rows])[-1]
            q_target = values(frozen, records.next_state[rows])[-1]
            counts = records.n_next[rows].astype(np.float64)
            with np.errstate(divide="ignore"):
                errors = 1 / np.sqrt(counts)
            if not recipes.has_budget[m]:
                errors = np.where(counts >= recipes.n_wedge[m], 0.0, np.inf)
            policy = np.empty_like(q_next)
            step_rows(
                int(recipes.operator[m]), q_next, records.baseline_next[rows].astype(np.float64),
                errors, np.full(len(n), recipes.epsilon[m]), q_next, policy,
            )  # fmt: skip
            y = records.reward[rows] - recipes.kappa[m] / np.sqrt(
                records.n_here[rows].astype(float)
            )
            y += np.where(records.terminated[rows], 0, chosen.gamma * (policy * q_target).sum(1))
            pushed = np.zeros_like(here[-1])
            action = records.action[rows]
            pushed[n, action] = 2 / len(n) * (here[-1][n, action] - y)
            gradient = np.zeros_like(online)
            for k in range(3, -1, -1):
                weight, bias = layers(gradient)[k]
                weight[:], bias[:] = here[k].T @ pushed, pushed.sum(0)
                if k > 0:
                    pushed = (pushed @ layers(online)[k][0].T) * (here[k] > 0)
            v = chosen.rms_decay * v + (1 - chosen.rms_decay) * gradient**2
            rate = chosen.rate(t, int(recipes.n_rows[m]))
            online -= rate * gradient / (np.sqrt(v) + chosen.rms_epsilon)
    return params


def apart(found, expected) -> np.ndarray:
    found = found.cpu().numpy() if isinstance(found, torch.Tensor) else found
    return np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected, axis=1)


def check(options: tuple[str, ...] = ()) -> None:
    trainings = population(OTHERS + SOFT, 24)
    run = Run(trainings, options)
    for n_steps in (3, 200):
        expected = in_float64(trainings, n_steps)
        cpu = CpuEngine(trainings).advance(run.start, n_steps).params
        for name, found in (("fused", run.steps(n_steps)["params"]), ("cpu engine", cpu)):
            error = apart(found, expected)
            print(f"after {n_steps} steps, {name} against float64: relative error median "
                  f"{np.median(error):.1e}, worst {error.max():.1e}")  # fmt: skip
    whole = run.steps(200)
    half = run.steps(93)
    rest = run.steps(107, half, 93)
    alone = Run(TrainingBatch(trainings.data, trainings.members[9:10], trainings.settings), options)
    same = [
        all(torch.equal(whole[name], other[name]) for name in ("params", "target", "v"))
        for other in (run.steps(200), rest)
    ]
    same.append(torch.equal(alone.steps(200)["params"][0], whole["params"][9]))
    print("repeats, resumes, member alone are bitwise equal:", same)


def main() -> None:
    """Check, then time variants and populations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true", help="one launch, for ncu")
    parser.add_argument("--option", action="append", default=[], help="for the compiler")
    chosen = parser.parse_args()
    options = tuple(chosen.option)
    n_units = torch.cuda.get_device_properties(0).multi_processor_count
    if chosen.profile:
        Run(population(SOFT, n_units), options).steps(300)
        return
    began = time.perf_counter()
    check(options)
    table = []
    for name, more in VARIANTS.items():
        speed = Run(population(SOFT, n_units), options + more).speed(10_000)
        table.append((f"{name}, {n_units} members", speed))
    for rule in (*OTHERS, *SOFT):
        speed = Run(population([rule], n_units), options).speed(10_000)
        table.append((f"{rule.id} {rule.to_config()}"[:60], speed))
    for waves in (2, 20):
        speed = Run(population(SOFT, waves * n_units), options).speed(40_000 // waves)
        table.append((f"as shipped, {waves * n_units} members", speed))
    took = time.perf_counter() - began
    print(f"\n{torch.cuda.get_device_name()}, soft targets unless said; {took:.0f} s")
    for name, speed in table:
        print(
            f"{name:62} {speed / 1e6:6.2f} million steps/s {n_units / speed * 1e6:6.2f} us a step"
        )


if __name__ == "__main__":
    main()
