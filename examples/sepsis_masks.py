"""Improve on the clinicians of ICU-Sepsis within what is admissible, and see how it turns out.

    pip install --no-deps icu-sepsis==2.0.1
    python examples/sepsis_masks.py [PATIENTS]

A log of the clinicians' policy is drawn; soft steps improve it with and without the mask; the
process itself says how many patients would survive.
"""

import sys

import numpy as np

from spibb import ApproxSoftSPIBB, Limits, Log, Problem, evaluate
from spibb.envs import ICUSepsis


def main(n_patients):
    """Print survival, and where the mass went."""
    process = ICUSepsis()
    mdp, clinicians, allowed = process.to_mdp(), process.baseline(), process.allowed()
    log = Log.sample(mdp, clinicians, n_episodes=n_patients, rng=np.random.default_rng(0))
    print(f"clinicians: {evaluate(mdp, clinicians).performance:.4f} survive")
    for limits in (None, Limits(allowed=allowed)):
        problem = Problem.of(
            log, baseline=clinicians, gamma=1.0, reward_range=(0.0, 1.0), limits=limits
        )
        result = ApproxSoftSPIBB(epsilon=2.0, delta=1.0).improve(problem)
        moved = result.policy.probabilities - clinicians.probabilities
        raised, lowered = (np.maximum(sign * moved, 0.0)[~allowed].sum() for sign in (1, -1))
        survive = evaluate(mdp, result.policy).performance
        name = "anything" if limits is None else "what is admissible"
        print(
            f"{name}: {survive:.4f} survive; of what is not admissible {raised:.2f} more and "
            f"{lowered:.2f} less, summed over states"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
