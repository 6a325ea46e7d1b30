"""What the helicopter study says for each place of its page: see spibb.studies.page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spibb.studies.gallery import Drawing
from spibb.studies.helicopter.claims import Claim, judged_claims
from spibb.studies.helicopter.scores import Scores, aggregate_scores
from spibb.studies.helicopter.tables import best_settings, to_markdown

_ORDER = {"helicopter-domain": 0, "helicopter-by-size": 1}


def make_blocks(scores: Scores, costs: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return what a study says for each place of the page.

    Args:
        scores: The results.
        costs: Where and how long it ran, by name; "speeds" holds gradient steps a second by rule.
    """
    speeds: Mapping[str, float] = (costs or {}).get("speeds", {})
    blocks = {
        "facts": _facts(scores),
        "table": to_markdown(best_settings(scores.plan, aggregate_scores(scores))),
        "claims": _claims(judged_claims(scores, speeds)),
    }
    return blocks | ({"costs": _costs(costs)} if costs else {})


def figure_block(drawings: Sequence[Drawing], folder: str) -> str:
    """Return the figures for the page, as Markdown, each with its caption below.

    Args:
        drawings: The figures.
        folder: Where the pictures are, seen from the page.
    """
    # What all sizes come to stands before the single ones.
    ordered = sorted(drawings, key=lambda one: _ORDER.get(one.stem, len(_ORDER)))
    return "\n\n".join(
        f"![{one.title}]({folder}/{one.stem}.svg)\n\n*{one.caption}*" for one in ordered
    )


def _facts(scores: Scores) -> str:
    plan, n_runs = scores.plan, len(scores.runs)
    n_trained = sum(setting.rule() is not None for setting in plan.settings)
    n_networks = n_runs * n_trained * len(plan.sizes)
    lines = [
        f"plan `{plan.name}`, fingerprint `{plan.fingerprint}`, seed {plan.seed}",
        f"{n_runs} runs ({scores.n_data_sets} data sets x {plan.n_trainings} trainings) of "
        f"{n_trained} settings and the baseline, on {len(plan.sizes)} sizes: {n_networks:,} "
        f"networks of {plan.n_passes:,} passes each",
        f"{int(scores.diverged.sum())} trainings diverged; they count with the least return, -1",
    ]
    return "\n".join(f"* {line}" for line in lines)


def _claims(claims: Sequence[Claim]) -> str:
    lines = ["| claim | verdict | numbers |", "|---|---|---|"]
    lines += [f"| {one.text} | **{one.verdict}** | {one.evidence} |" for one in claims]
    return "\n".join(lines)


def _costs(costs: Mapping[str, Any]) -> str:
    """Return what was measured, not what was predicted from it, line by line."""
    lines = []
    for name, value in costs.items():
        if name == "speeds":
            lines += [
                f"{rule}: {float(speed) / 1e6:.2f} million gradient steps a second"
                for rule, speed in value.items()
            ]
        elif isinstance(value, Mapping):
            lines.append(f"{name}: " + ", ".join(f"{key} {part}" for key, part in value.items()))
        elif not name.startswith("predicted"):
            lines.append(f"{name}: {value}")
    return "\n".join(f"* {line}" for line in lines)
