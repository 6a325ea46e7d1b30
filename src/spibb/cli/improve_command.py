"""``spibb improve``."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from spibb.algorithms.base import Algorithm
from spibb.algorithms.improvement import Improvement
from spibb.algorithms.registry import find_algorithm
from spibb.cli.inputs import find_error, read_inputs
from spibb.cli.printing import (
    console,
    print_changes,
    print_changes_csv,
    print_guarantee,
    print_json,
    print_place,
)
from spibb.errors import SettingsError
from spibb.report.changes import list_changes
from spibb.report.folder import refuse_existing, write_result
from spibb.report.summary import summarise


def run_improve(
    log: str,
    baseline: str,
    gamma: float,
    *,
    algorithm: str,
    settings: dict[str, Any],
    reward_range: tuple[float, float] | None,
    columns: str | None,
    out: Path,
    overwrite: bool,
    printed: str,
) -> None:
    """Read, improve, write, print."""
    chosen = build_algorithm(algorithm, settings)
    refuse_existing(out, overwrite=overwrite)
    rows, policy = read_inputs(log, baseline, columns)
    with console.status("Improving ..."):
        result = chosen.improve(rows, baseline=policy, gamma=gamma, reward_range=reward_range)
        write_result(result, out, overwrite=overwrite)
    if printed == "json":
        print_json(summarise(result))
    elif printed == "csv":
        print_changes_csv(_changes(result))
    else:
        print_result(result)
        print_place(out)


def build_algorithm(name: str, settings: dict[str, Any]) -> Algorithm:
    """Build the settings object, refusing what the algorithm does not have."""
    kind = find_algorithm(name)
    known = [item.name for item in fields(kind)]
    for setting in settings:
        if setting not in known:
            raise SettingsError(
                f"{name} has no setting {_option(setting)}",
                expected=f"one of {', '.join(map(_option, known))}" if known else "none at all",
                hint="leave it out, or choose another algorithm",
            )
    if "error" in settings:
        settings = {**settings, "error": find_error(settings["error"])}
    return kind(**settings)


def _option(setting: str) -> str:
    return f"--{setting.replace('_', '-')}"


def print_result(result: Improvement) -> None:
    """Print a result for people."""
    summary = summarise(result)
    console.print(
        f"{summary['n_rows']:,} rows, {summary['n_states']} states, {summary['n_actions']} "
        f"actions; {summary['n_unseen_pairs']} pairs never tried"
    )
    if summary["n_dropped_rows"]:
        console.print(
            f"{summary['n_dropped_rows']:,} rows left out: truncated, next state unknown."
        )
    if summary["is_baseline_estimated"]:
        console.print("The baseline was estimated from the log.")
    console.print(
        f"Estimated performance: baseline {result.baseline.performance:.4g}, "
        f"new policy {result.performance:.4g}"
    )
    steps = f"{result.n_iterations} step{'' if result.n_iterations == 1 else 's'}"
    console.print(f"{result.status.value} ({steps})")
    print_changes(_changes(result))
    print_guarantee(result.certificate)


def _changes(result: Improvement) -> list[Any]:
    return list_changes(result.policy, result.baseline.policy, result.certificate.states)
