"""The short adversarial suite: what is called exact, on processes made to break it.

``python benchmarks/adversarial.py`` is the long version; docs/adversarial.md has its table.
"""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom

from spibb.testing.adversaries import ADVERSARIES
from spibb.testing.claims import statements

DELTA, N_LOGS = 0.1, 24
# A false alarm in ten thousand, over all cells of the suite.
LEVEL = 1e-4 / (20 * len(ADVERSARIES))


@pytest.mark.statistical
@pytest.mark.parametrize("name", ADVERSARIES)
def test_exact_claims_fail_no_more_often_than_delta(name):
    adversary = ADVERSARIES[name]
    failed, claimed = Counter(), Counter()
    for k in range(N_LOGS):
        log = adversary.draw(np.random.default_rng([7, k]))
        for part in statements(adversary, log, DELTA):
            if part.is_exact:
                claimed[part.name] += 1
                failed[part.name] += not part.holds
    for claim, n in failed.items():
        assert n <= binom.ppf(1 - LEVEL, max(N_LOGS, claimed[claim]), DELTA), (claim, n)
    if adversary.is_whole and adversary.mdp.gamma < 1:
        assert claimed["Regret test"] == N_LOGS
    if not adversary.is_whole:
        assert not claimed, "nothing exact is said of a record with holes"


def test_every_kind_of_claim_is_there_and_says_something_somewhere():
    said = Counter()
    for adversary in ADVERSARIES.values():
        log = adversary.draw(np.random.default_rng(3))
        for part in statements(adversary, log, 0.5, resampled=True):
            said[part.name] += not part.is_vacuous
    for claim in (
        "Regret test", "Robust test, rewards known", "Theorem 1 (Soft-SPIBB), by returns",
        "Held-out test (HCPI, pdis by betting)", "Held-out test (HCPI, dr by student-t)",
        "is by betting", "pdis by betting", "is by concentration", "dr by student-t", "dr by bca",
        "model by bca",
    ):  # fmt: skip
        assert said[claim] > 0, claim
