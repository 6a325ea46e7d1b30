"""The short adversarial suite: what is called exact, on processes made to break it.

``python benchmarks/adversarial.py`` is the long version; docs/adversarial.md has its table.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from spibb import HCPI, Log, TabularPolicy
from spibb.certify import audit
from spibb.ope import evaluate_policy
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


def test_the_cell_of_a_state_that_nobody_names_would_notice():
    """Were the states complete, as they are not, the same logs would say too much."""
    adversary = ADVERSARIES["unlisted-state"]
    asked = {"baseline": adversary.baseline, "policy": adversary.policy,
             "gamma": adversary.mdp.gamma, "reward_range": adversary.reward_range}  # fmt: skip
    log, truth = adversary.draw(np.random.default_rng(0)), adversary.gain(adversary.policy)
    assert audit(log, **asked).bound < truth < audit(log, **asked, states_complete=True).bound


def test_the_cell_of_another_policy_would_notice():
    """Exact statements that weigh returns by the baseline are about the behaviour policy."""
    cell = ADVERSARIES["wrong-baseline"]
    log = cell.draw(np.random.default_rng(0))
    asked = {"gamma": cell.mdp.gamma, "reward_range": cell.reward_range}
    known = {"bound": "betting", "return_range": cell.return_range}
    judged = {**asked, **known, "policy": cell.policy, "estimators": ["is"]}
    wrong = evaluate_policy(log, baseline=cell.baseline, **judged)
    assert not wrong.is_exact
    assert any("contradict that the baseline made it" in text for text in wrong.warnings)
    right = evaluate_policy(log, baseline=cell.made_by, **judged)
    assert right.is_exact
    assert not any("contradict that the baseline" in text for text in right.warnings)


def test_an_exact_held_out_test_refuses_a_log_of_another_policy():
    """It acted otherwise in 1 % of the rows, in a state where nothing can be gained."""
    rng, n = np.random.default_rng(0), 3_000
    rare = rng.random(n) < 0.01
    action = np.where(rare, rng.random(n) < 0.05, rng.random(n) < 0.5).astype(int)
    log = Log.from_arrays(
        state=rare.astype(int), action=action, reward=np.where(rare, 0.0, action),
        terminated=np.ones(n, bool), episode=np.arange(n),
    )  # fmt: skip
    asked = {"gamma": 0.9, "reward_range": (0.0, 1.0)}
    given = TabularPolicy([[0.5, 0.5], [0.1, 0.9]]), TabularPolicy([[0.5, 0.5], [0.95, 0.05]])
    settings = HCPI(bound="betting", return_range=(0.0, 1.0))
    for baseline, holds in zip(given, (False, True), strict=True):
        claim = settings.improve(log, baseline=baseline, **asked).certificate.guarantee
        assert claim.theorem.startswith("Held-out test")
        made_by = [one for one in claim.conditions if one.name == "made-by-baseline"]
        assert [one.is_satisfied for one in made_by] == [holds]
        assert claim.applies == holds


def documented():
    """The tables of the page: what stands in each cell, by process and claim, of both kinds."""
    text = (Path(__file__).parents[2] / "docs/adversarial.md").read_text(encoding="utf-8")
    filled = text.split("<!-- fill: table -->")[1].split("<!-- end: table -->")[0]
    found = []
    for part in filled.split("\n\n"):
        lines = [line.strip("| ").split("|") for line in part.splitlines() if line[:1] == "|"]
        if lines:
            head, _, *rows = [[cell.strip() for cell in line] for line in lines]
            found.append({
                (row[0], claim): cell
                for row in rows for claim, cell in zip(head[1:], row[1:], strict=False) if cell
            })  # fmt: skip
    return found


def test_the_page_has_every_process_and_no_broken_exact_claim():
    exact, approximate = documented()
    assert {process for process, _ in exact | approximate} == set(ADVERSARIES)
    assert not any("**" in cell for cell in exact.values())
    assert sum("**" in cell for cell in approximate.values()) > 10, "they do have bad cells"


def test_bad_cells_of_approximate_intervals_are_warned_about():
    _, approximate = documented()
    bad = {process for (process, _), cell in approximate.items() if "**" in cell}
    for process in sorted(bad):
        adversary = ADVERSARIES[process]
        for seed in range(3):
            log = adversary.draw(np.random.default_rng([1, seed]))
            found = evaluate_policy(
                log, policy=adversary.given_policy(log), baseline=adversary.given_baseline(log),
                gamma=adversary.mdp.gamma, reward_range=adversary.reward_range,
                bound="student-t", estimators=["dr"],
                improve_on=adversary.declared.get("improve_on"),
            )  # fmt: skip
            assert found.warnings or found["dr"].warnings, process
