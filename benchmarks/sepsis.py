"""``auto-spibb`` on ICU-Sepsis: ``python benchmarks/sepsis.py [PATIENTS]``.

716 states, 25 actions, no discount: survival. The dynamics are those of the package icu-sepsis
(Choudhary et al. 2024, ``pip install icu-sepsis``), of which only the data file is read.
"""

import resource
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from spibb import AutoSPIBB, Counts, TabularMDP, TabularPolicy, evaluate, solve


def main(n_patients: int) -> None:
    """Print what was chosen, what was expected of it, and the truth."""
    package = find_spec("icu_sepsis")
    if package is None or package.origin is None:
        sys.exit("icu-sepsis is not installed: pip install icu-sepsis")
    facts = np.load(Path(package.origin).parent / "envs" / "assets" / "dynamics.npz")
    n_states = len(facts["d_0"])
    terminal = np.arange(n_states) >= n_states - 3
    paid = facts["r_mat"].max(axis=(0, 1))
    mdp = TabularMDP(facts["tx_mat"], None, 1.0, facts["d_0"], terminal, entry_reward=paid)
    table = facts["expert_policy"]
    acted = table.sum(axis=1, keepdims=True)
    table = np.where(acted > 0, table / np.maximum(acted, 1e-9), 1.0 / table.shape[1])
    clinicians = TabularPolicy(table)
    old, best = evaluate(mdp, clinicians).performance, solve(mdp).performance
    rng = np.random.default_rng([5, 0, n_patients])
    counts = Counts.sample(mdp, clinicians, n_episodes=n_patients, max_steps=1_000, rng=rng)
    began = time.perf_counter()
    result = AutoSPIBB().improve(counts, baseline=clinicians, gamma=1.0)
    took = time.perf_counter() - began
    print(result.choice.summary)
    if result.choice.chosen is not None:
        for name, gain in result.choice.candidates[result.choice.chosen].gains.items():
            print(f"expected gain, {name}: {gain.mean:.4f} +- {gain.deviation:.4f}")
    new = evaluate(mdp, result.policy).performance
    print(f"survival: clinicians {old:.4f}, chosen {new:.4f} ({new - old:+.4f}), best {best:.4f}")
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{took:.0f} s, {megabytes:.0f} MB at most")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
