"""Verdicts on the paper's claims follow from the numbers, whatever they are."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spibb.studies.claims import to_markdown
from spibb.studies.metrics import IntervalEstimate
from spibb.studies.random_mdps.claims import findings as judge
from spibb.studies.registry import PLANS
from spibb.studies.results.aggregates import Aggregates, Results

PLAN = PLANS["random-mdps"]
LABELS = PLAN.labels
APPROX, EXACT = "Approx-Soft-SPIBB, epsilon=2", "Exact-Soft-SPIBB, epsilon=2"
ONE_STEP = "Approx-Soft-SPIBB 1-step, epsilon=2"


def invented(**changes):
    """Return aggregates in which the paper is right, but for the settings named."""
    shape = PLAN.shape
    mean, tail, rare = np.full((3, *shape), 0.1)
    for label, level in {"Basic RL": 0.9, EXACT: 0.6, APPROX: 0.5, ONE_STEP: 0.4}.items():
        mean[:, :, LABELS.index(label)] = level
    for setting, place in zip(PLAN.settings, range(len(LABELS)), strict=True):
        if setting.family == "RaMDP":
            mean[:, :, place] = 0.9 if setting.value < 0.0035 else 0.0
            tail[:, :, place] = rare[:, :, place] = -0.5
    tail[:, :, LABELS.index("Basic RL")] = -0.5
    tail[:, :, LABELS.index(APPROX)] = 0.3
    tail[:, :, LABELS.index(EXACT)] = 0.2
    for name, (label, level) in changes.items():
        {"mean": mean, "tail": tail, "rare": rare}[name][:, :, LABELS.index(label)] = level
    estimates = [IntervalEstimate(part, part, part) for part in (mean, tail, rare)]
    n = np.full(shape, 1000)
    cvar = {0.01: estimates[1], 0.001: estimates[2]}
    return Aggregates(n=n, mean=estimates[0], cvar=cvar, worse=np.zeros(shape))


def findings(aggregates, plan=PLAN):
    return judge(Results(plan, aggregates, Path()))


def verdicts(aggregates):
    return {found.claim: found.verdict for found in findings(aggregates)}


def test_where_the_paper_is_right():
    found = verdicts(invented())
    assert len(found) == 17
    assert set(found.values()) == {"confirmed"}


@pytest.mark.parametrize(("measure", "label", "level", "claim", "verdict"), [
    ("mean", EXACT, 0.95, "Basic RL and RaMDP win in mean", "not confirmed"),
    ("tail", "Basic RL", 0.0, "Basic RL is not safe", "not confirmed"),
    ("tail", APPROX, -0.04, "Approx-Soft-SPIBB, epsilon=2 is safe", "in part"),
    ("tail", APPROX, -0.4, "Approx-Soft-SPIBB, epsilon=2 is safe", "not confirmed"),
    ("mean", APPROX, 0.05, "Approx-Soft-SPIBB is better than Pi_b-SPIBB", "in part"),
    ("mean", EXACT, 0.2, "Exact-Soft-SPIBB is slightly better", "not confirmed"),
    ("tail", ONE_STEP, 0.5, "One step is not safer", "not confirmed"),
    ("mean", ONE_STEP, 0.5, "… and is worse with much data", "not confirmed"),
    ("rare", APPROX, -0.05, "Approx-Soft-SPIBB is slightly unsafe only", "in part"),
    ("rare", APPROX, -0.5, "Approx-Soft-SPIBB is slightly unsafe only", "not confirmed"),
    ("mean", "RaMDP, kappa=0.004", 0.9, "From κ = 0.0035 on", "not confirmed"),
    ("mean", "Approx-Soft-SPIBB, epsilon=5", 0.9, "The best ε of Approx-Soft", "not confirmed"),
])  # fmt: skip
def test_where_it_is_not(measure, label, level, claim, verdict):
    found = verdicts(invented(**{measure: (label, level)}))
    assert next(part for key, part in found.items() if key.startswith(claim)) == verdict


def test_a_plan_without_the_settings_says_nothing():
    plan = replace(PLAN, eta=(0.1,))
    assert findings(invented(), plan) == []


def test_differences_say_of_what():
    found = {one.claim: one.numbers for one in findings(invented())}
    by_start = {name: text for claim, text in found.items()
                for name in ("Exact-Soft", "… and slightly", "One step", "From κ")
                if claim.startswith(name)}  # fmt: skip
    assert by_start["Exact-Soft"].startswith("Exact-Soft-SPIBB - Approx-Soft-SPIBB: mean +0.100")
    assert by_start["… and slightly"].startswith(
        "Approx-Soft-SPIBB - Exact-Soft-SPIBB: 1 %-CVaR +0.100"
    )
    assert by_start["One step"].startswith("1 %-CVaR, one step - iterated: -0.2")
    assert by_start["From κ"].startswith("mean at κ = 0.003 - mean at κ = 0.004: +0.9")


def test_markdown():
    text = to_markdown(findings(invented()))
    assert text.startswith("| claim | verdict | numbers |\n|---|---|---|\n")
    assert "| **confirmed** | mean over all sizes: Basic RL 0.900, RaMDP 0.900;" in text
