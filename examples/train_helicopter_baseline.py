"""Train the helicopter's baseline online and write the file that ``Helicopter().baseline()`` reads.

Run it as ``OMP_NUM_THREADS=1 python examples/train_helicopter_baseline.py [OUT.safetensors
[SEED]]``; it takes a few minutes on one core and gives the same network again on the same machine.
Others round otherwise and may keep another snapshot, of the same strength; the file that ships was
kept after 3,600 steps, and stays as it is because the study rests on it.

Double-DQN with the paper's network (4-32-128-32-9, ReLU, he_uniform), discount 0.9, RMSProp 0.95,
minibatches of 32, target network copied every 10 gradient steps, ten transitions flown a gradient
step, nearly at random (epsilon falls from 1 to 0.9 only, as in the authors' settings). As training
goes on, the policy softmax(Q / 0.1) passes from worse than crashing at random to about 4, far above
the paper's baseline (undiscounted mean 2.30; 10 %-CVaR 1.59 over runs of 1,000 steps). So snapshots
are scored, and the one nearest to those two numbers is kept and measured afresh.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

from spibb.deep.baseline import SoftmaxNetwork
from spibb.deep.network import Network, first_parameters
from spibb.envs.helicopter import Helicopter

SEED = 2
SIZES = (4, 32, 128, 32, 9)
GAMMA, TEMPERATURE = 0.9, 0.1
PAPER_MEAN, PAPER_CVAR = 2.30, 1.59
N_HELICOPTERS, BATCH, N_STEPS = 10, 32, 8_000
LEARNING_RATE, TARGET_PERIOD, SCORE_PERIOD = 0.001, 10, 100
N_CANDIDATES = 8


def main(
    out: str = "src/spibb/envs/helicopter_baseline.safetensors", seed: int | str = SEED
) -> None:
    """Train, keep the snapshot of the wanted strength, measure it afresh and write it."""
    seed = int(seed)
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    snapshots = train(seed)
    near = sorted(snapshots, key=lambda found: abs(found[2] - PAPER_MEAN))[:N_CANDIDATES]
    compared = [
        (step, network, measure(network, seed=100, n_episodes=50_000, n_runs=3_000))
        for step, network, _ in near
    ]
    for step, _, found in sorted(compared, key=lambda candidate: candidate[0]):
        print(f"candidate after {step} steps: {found}", flush=True)
    step, network, _ = min(compared, key=lambda candidate: distance(candidate[2]))
    measured = measure(network, seed=200, n_episodes=1_000_000, n_runs=30_000)
    print(f"kept the snapshot after {step} gradient steps: {measured}")
    network.write(
        Path(out),
        {
            "temperature": TEMPERATURE,
            "made_by": "examples/train_helicopter_baseline.py",
            "algorithm": f"online Double-DQN, seed {seed}, {step} gradient steps",
            **measured,
        },
    )
    print(f"wrote {out}")


def distance(measured: dict[str, float]) -> float:
    """Return how far a policy is from the paper's baseline."""
    return abs(measured["mean_return"] - PAPER_MEAN) + abs(measured["cvar_10_percent"] - PAPER_CVAR)


def train(seed: int) -> list[tuple[int, Network, float]]:
    """Return the snapshots of one training with their scores."""
    helicopter = Helicopter()
    online = dense(first_parameters([seed], SIZES)[0])
    target = dense(first_parameters([seed], SIZES)[0])
    optimiser = torch.optim.RMSprop(online.parameters(), lr=LEARNING_RATE, alpha=0.95, eps=1e-7)
    memory = Memory()
    state, age = start(helicopter, N_HELICOPTERS), torch.zeros(N_HELICOPTERS)
    snapshots = []
    for step in range(N_STEPS + 1):
        if step % SCORE_PERIOD == 0:
            network = frozen(online)
            policy = SoftmaxNetwork(network, TEMPERATURE)
            flown = helicopter.run_episodes(policy.action_probabilities, [seed], n_episodes=4_000)
            snapshots.append((step, network, float(flown.mean[0])))
            if step % 1_000 == 0:
                print(f"step {step}: mean return {flown.mean[0]:.2f}", flush=True)
        with torch.no_grad():
            action = online(state).argmax(1)
        is_random = torch.rand(N_HELICOPTERS) < 1 - 0.1 * step / N_STEPS
        action = torch.where(is_random, torch.randint(9, (N_HELICOPTERS,)), action)
        after, reward, terminated = helicopter.step(state, action, torch.randn(N_HELICOPTERS, 4))
        memory.add(state, action, reward, after, terminated)
        age = age + 1
        is_over = terminated | (age >= helicopter.max_steps)
        state = torch.where(is_over[:, None], start(helicopter, N_HELICOPTERS), after)
        age = torch.where(is_over, 0, age)
        if step % TARGET_PERIOD == 0:
            target.load_state_dict(online.state_dict())
        if step * N_HELICOPTERS >= BATCH:
            learn(online, target, optimiser, memory.sample())
    return snapshots


class Memory:
    """All transitions flown, drawn uniformly with replacement."""

    def __init__(self) -> None:
        n_rows = (N_STEPS + 1) * N_HELICOPTERS
        self.columns = [
            torch.zeros(n_rows, 4),
            torch.zeros(n_rows, dtype=torch.int64),
            torch.zeros(n_rows),
            torch.zeros(n_rows, 4),
            torch.zeros(n_rows, dtype=torch.bool),
        ]
        self.n_rows = 0

    def add(self, *row: torch.Tensor) -> None:
        """Store one transition of every helicopter: state, action, reward, next state, end."""
        for column, part in zip(self.columns, row, strict=True):
            column[self.n_rows : self.n_rows + len(part)] = part
        self.n_rows += len(row[0])

    def sample(self) -> list[torch.Tensor]:
        """Return a minibatch."""
        place = torch.randint(self.n_rows, (BATCH,))
        return [column[place] for column in self.columns]


def learn(
    online: torch.nn.Sequential,
    target: torch.nn.Sequential,
    optimiser: torch.optim.Optimizer,
    batch: list[torch.Tensor],
) -> None:
    """Take one step on the squared error of Double-DQN."""
    state, action, reward, after, terminated = batch
    with torch.no_grad():
        best = online(after).argmax(1, keepdim=True)
        value = target(after).gather(1, best)[:, 0]
        wanted = reward + GAMMA * (~terminated) * value
    found = online(state).gather(1, action[:, None])[:, 0]
    loss = (found - wanted).square().mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def start(helicopter: Helicopter, n: int) -> torch.Tensor:
    """Return starting states."""
    states: torch.Tensor = helicopter.start(torch.rand(n, 4))
    return states


def dense(parameters: np.ndarray) -> torch.nn.Sequential:
    """Return a trainable network with given parameters."""
    network = Network.from_flat(parameters, SIZES)
    layers: list[torch.nn.Module] = []
    for weight, bias in zip(network.weights, network.biases, strict=True):
        layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
        layer.weight.data, layer.bias.data = torch.tensor(weight), torch.tensor(bias)
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def frozen(module: torch.nn.Sequential) -> Network:
    """Return a copy of the parameters as they are now."""
    layers = [layer for layer in module if isinstance(layer, torch.nn.Linear)]
    return Network(
        [layer.weight.detach().numpy() for layer in layers],
        [layer.bias.detach().numpy() for layer in layers],
    )


def measure(network: Network, *, seed: int, n_episodes: int, n_runs: int) -> dict[str, float]:
    """Return the strength over many episodes, and over the paper's runs of 1,000 steps."""
    policy, helicopter = SoftmaxNetwork(network, TEMPERATURE), Helicopter()
    long = helicopter.run_episodes(policy.action_probabilities, [seed], n_episodes=n_episodes)
    short = helicopter.run_episodes(
        policy.action_probabilities, [seed + 1], n_steps=1_000, n_runs=n_runs
    ).score[0]
    return {
        "mean_return": round(float(long.mean[0]), 3),
        "steps_per_episode": round(float(long.n_steps.mean()), 2),
        "mean_of_runs": round(float(short.mean()), 3),
        "cvar_10_percent": round(float(np.sort(short)[: n_runs // 10].mean()), 3),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
