"""Print how far gains in models drawn on a GPU are from those of the CPU, as JSON."""

import json
import sys

import numpy as np

from spibb import AutoSPIBB, Counts, Problem
from spibb.envs import Garnet
from spibb.posterior.posterior import Posterior
from spibb.problem import ProblemBatch
from spibb.problem.batch import models_on


def main(*given):
    n_states, n_actions, n_draws, is_chosen = given
    rng = np.random.default_rng(0)
    garnet = Garnet.random(rng, n_states=n_states, n_actions=n_actions, n_successors=2)
    baseline = garnet.baseline(0.5, rng)
    counts = Counts.sample(garnet.mdp, baseline, n_episodes=60, max_steps=20, rng=rng)
    problem = Problem.of(counts, baseline=baseline, gamma=0.95)
    policies = np.stack(
        [np.full((n_states, n_actions), 1.0 / n_actions), garnet.uniform.policy.probabilities]
    )
    policies[1] = np.eye(n_actions)[0]
    np.seterr(over="ignore")  # the simulator's integers are NumPy's
    here, there = (
        Posterior(problem, device).gains(policies, n_draws) for device in ("cpu", "cuda")
    )
    found = {name: float(np.abs(here[name] - there[name]).max()) for name in here}
    found["size"] = float(min(np.abs(values).max() for values in here.values()))
    if is_chosen:
        batch = ProblemBatch.of([problem] * 3)
        both = batch, batch.with_models(models_on(batch.models, "cuda"))
        first, second = (AutoSPIBB(caution=0.5).search(one).policy for one in both)
        found["chosen"] = float(np.abs(first - second).max())
        found["changed"] = float(np.abs(first - batch.baseline).max())
    return found


if __name__ == "__main__":
    print(json.dumps(main(*map(int, sys.argv[1:]))))
