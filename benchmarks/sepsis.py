"""``auto-spibb`` on ICU-Sepsis: ``python benchmarks/sepsis.py [PATIENTS]``.

716 states, 25 actions, no discount: survival. Needs the package icu-sepsis (Choudhary et al. 2024,
``pip install icu-sepsis``), of which only the data file is read.
"""

import resource
import sys
import time

import numpy as np

from spibb import AutoSPIBB, Counts, evaluate, solve
from spibb.studies.risk.problems import PROBLEMS


def main(n_patients: int) -> None:
    """Print what was chosen, what was expected of it, and the truth."""
    mdp, clinicians = PROBLEMS["sepsis"].make(np.random.default_rng(0))
    old, best = evaluate(mdp, clinicians).performance, solve(mdp).performance
    rng = np.random.default_rng([5, 0, n_patients])
    counts = Counts.sample(mdp, clinicians, n_episodes=n_patients, max_steps=1_000, rng=rng)
    began = time.perf_counter()
    result = AutoSPIBB().improve(counts, baseline=clinicians, gamma=1.0)
    took = time.perf_counter() - began
    print(result.choice.summary)
    if result.choice.chosen is not None:
        gain = result.choice.candidates[result.choice.chosen].gain
        low, high = gain.interval()
        print(
            f"expected gain: {gain.mean:.4f}, from {low:.4f} to {high:.4f} at 95 %; probability of "
            f"harm {gain.probability_of_harm:.2g}"
        )
    new = evaluate(mdp, result.policy).performance
    print(f"survival: clinicians {old:.4f}, chosen {new:.4f} ({new - old:+.4f}), best {best:.4f}")
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{took:.0f} s, {megabytes:.0f} MB at most")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
