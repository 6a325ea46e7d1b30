"""What the helicopter study says in its page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from spibb.errors import DataError
from spibb.studies.claims import markdown_table, to_markdown
from spibb.studies.helicopter.claims import compared_in_mean, findings
from spibb.studies.helicopter.plan import LONG, HelicopterPlan
from spibb.studies.helicopter.scores import CVAR, MEAN, Best, HelicopterResults, best_settings

# Where and how long a study ran, by name; "speeds" holds gradient steps a second by rule.
COSTS = "costs.json"


def helicopter_pages(given: Sequence[HelicopterResults]) -> dict[str, dict[str, str]]:
    """Return what studies say in the helicopter's page: the paper's, and one of more baselines."""
    blocks: dict[str, str] = {}
    named = {results.plan.name: results for results in given}
    if "helicopter" in named:
        main = named["helicopter"]
        costs = _read_costs(main)
        blocks |= {
            "facts": _facts(main),
            "table": best_table(best_settings(main)),
            "claims": to_markdown(findings(main, costs.get("speeds", {}))),
            "costs": _costs(costs),
        }
    if "helicopter-baselines" in named:
        every = [named[name] for name in ("helicopter", "helicopter-baselines") if name in named]
        by_name = {name: one for results in every for name, one in results.by_baseline().items()}
        blocks["baselines"] = _baselines(by_name)
    return {"helicopter.md": blocks} if blocks else {}


def _read_costs(results: HelicopterResults) -> dict[str, Any]:
    file = results.folder / COSTS
    if not file.exists():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        speeds = {rule: float(speed) for rule, speed in found.get("speeds", {}).items()}
        return {**found, "speeds": speeds}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        expected = "a JSON object of what was measured"
        raise DataError(f"cannot read {file}: {error}", expected=expected) from None


def _facts(results: HelicopterResults) -> str:
    plan, n_runs = results.plan, int(results.aggregates.n.max())
    n_trained = sum(rule is not None for rule in plan.rules_of_settings)
    n_networks = n_runs * n_trained * len(plan.transitions)
    n_diverged = int(results.rows().diverged.any(axis=-4).sum())
    return (
        f"* plan {plan.in_words}\n"
        f"* {n_runs} runs ({n_runs // plan.n_trainings} data sets x {plan.n_trainings} trainings) "
        f"of {n_trained} settings and the baseline, on {len(plan.transitions)} sizes: "
        f"{n_networks:,} networks of {plan.n_passes:,} passes each\n"
        f"* {n_diverged} trainings diverged; they count with the least return, -1"
    )


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


def _baselines(by_name: Mapping[str, HelicopterResults]) -> str:
    """Return mean and CVaR of every algorithm at its best over each baseline, and comparisons."""
    plan: HelicopterPlan = next(iter(by_name.values())).plan
    tables = []
    for size in plan.transitions:
        best = [
            {one.setting.name: one for one in best_settings(results) if one.size == size}
            for results in by_name.values()
        ]
        rows = [[name, *(_cell(name, found) for found in best)] for name in best[0]]
        runs = (f"{name} ({results.n_runs().max()} runs)" for name, results in by_name.items())
        tables.append(markdown_table([f"{size:,} transitions", *runs], rows))
    judged = [compared_in_mean(results) for results in by_name.values()]
    rows = [[pair, *(found.get(pair, "") for found in judged)] for pair in judged[0]]
    title = f"difference of means, on {len(plan.transitions)} sizes"
    return "\n\n".join([*tables, markdown_table([title, *by_name], rows)])


def _cell(name: str, found: Mapping[str, Best]) -> str:
    """Return mean and CVaR, long; the best of each in bold."""
    numbers = []
    for measure in (MEAN, CVAR):
        values = {other: one.estimates[measure, LONG].value for other, one in found.items()}
        text = f"{values[name]:.2f}"
        numbers.append(f"**{text}**" if values[name] == max(values.values()) else text)
    return " / ".join(numbers)


_HEAD = (
    "transitions", "algorithm", "best at", "paper: mean", "paper: CVaR", "short: mean",
    "short: CVaR", "long: mean", "long: CVaR",
)  # fmt: skip


def best_table(rows: Sequence[Best]) -> str:
    """Return the table as Markdown; an asterisk marks a best value at the end of its grid."""
    lines = []
    for one in rows:
        setting, mark = one.setting, "" if one.is_inside else " *"
        best_at = f"{setting.parameter} = {setting.value:g}{mark}" if setting.parameter else ""
        published = [f"{number:.2f}" for number in one.published or ()] or ["", ""]
        ours = (estimate.told() for estimate in one.estimates.values())
        lines.append([f"{one.size:,}", setting.name, best_at, *published, *ours])
    return markdown_table(_HEAD, lines)
