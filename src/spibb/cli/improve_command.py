"""``spibb improve``."""

from __future__ import annotations

import csv
import math
import re
import reprlib
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from rich.padding import Padding
from rich.text import Text

from spibb.algorithms.base import Algorithm
from spibb.algorithms.improvement import Improvement
from spibb.algorithms.promise import plan_promise
from spibb.algorithms.registry import ALGORITHMS, find_algorithm
from spibb.cli.inputs import (
    Declared,
    find_error,
    parse_settings,
    read_inputs,
    refuse_inputs_in,
)
from spibb.cli.printing import (
    console,
    print_changes,
    print_changes_csv,
    print_guarantee,
    print_json,
    print_place,
    print_start,
)
from spibb.errors import SettingsError
from spibb.folders import refuse_existing
from spibb.ope.support import HARDLY
from spibb.problem import Problem
from spibb.report.changes import list_changes
from spibb.report.folder import FILES, write_result
from spibb.report.summary import summarise
from spibb.settings import in_words
from spibb.uncertainty.error_functions import checked_delta

DEFAULT_ALGORITHM = "approx-soft-spibb"


def run_improve(
    log: str,
    baseline: str,
    gamma: float,
    *,
    algorithm: str | None,
    settings: dict[str, Any],
    declared: Declared,
    certificate_delta: float,
    columns: str | None,
    out: Path,
    overwrite: bool,
    printed: str,
    guarantee: float | None = None,
) -> None:
    """Read, improve, write, print."""
    if guarantee is None:
        chosen = build_algorithm(algorithm or DEFAULT_ALGORITHM, settings)
    else:
        _refuse_with_guarantee(algorithm, settings)
    refuse_existing(out, overwrite=overwrite, known=FILES)
    refuse_inputs_in(out, log, baseline, *declared.files)
    rows, policy = read_inputs(log, baseline, columns)
    asked: dict[str, Any] = {"baseline": policy, "gamma": gamma, **declared.keywords}
    if guarantee is not None:
        with console.status("Looking for a threshold ..."):
            level = checked_delta(certificate_delta, "certificate_delta")
            promise = plan_promise(Problem.of(rows, **asked), zeta=guarantee, delta=level)
        chosen = build_algorithm("pi-b-spibb", {**settings, "n_wedge": promise.n_wedge})
        if printed == "table":
            console.print(promise.summary + "\n", markup=False)
    with console.status("Improving ..."):
        result = chosen.improve(rows, **asked, certificate_delta=certificate_delta)
        write_result(result, out, overwrite=overwrite)
    if printed == "json":
        print_json(summarise(result))
    elif printed == "csv":
        print_changes_csv(_changes(result))
    else:
        print_result(result)
        print_place(out)


def _refuse_with_guarantee(algorithm: str | None, settings: dict[str, Any]) -> None:
    if algorithm not in (None, "pi-b-spibb") or "n_wedge" in settings:
        raise SettingsError(
            "--guarantee chooses n_wedge of pi-b-spibb",
            hint="leave out --algorithm and --n-wedge, or leave out --guarantee",
        )


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
    if isinstance(settings.get("candidates"), str):
        settings = {**settings, "candidates": _candidates(settings["candidates"])}
    if "error" in settings:
        settings = {**settings, "error": find_error(str(settings["error"]))}
    try:
        return kind(**settings)
    except SettingsError:
        raise
    except (TypeError, ValueError, OverflowError):  # a word where a number belongs
        given = ", ".join(f"{name}={reprlib.repr(value)}" for name, value in settings.items())
        raise SettingsError(
            f"{name} cannot be built from {given}", expected="numbers where it takes numbers"
        ) from None


def _candidates(text: str) -> list[Algorithm]:
    """Read ``approx-soft-spibb(epsilon=0.1), pi-b-spibb`` as algorithms."""
    one = r"\s*([\w-]+)\s*(?:\(([^()]*)\))?\s*"
    parts = re.findall(rf"{one}(?:,|$)", text)
    if not re.fullmatch(rf"{one}(?:,{one})*", text):
        raise SettingsError(
            f"candidates is {text!r}",
            expected="algorithms, as approx-soft-spibb(epsilon=0.1),pi-b-spibb(n_wedge=5)",
        )
    return [
        build_algorithm(name, parse_settings([part for part in inner.split(",") if part.strip()]))
        for name, inner in parts
    ]


# Settings with an option of their own; the others are given by --set.
_OPTIONS = ("epsilon", "n_wedge", "delta", "error", "max_iterations")


def _option(setting: str) -> str:
    return f"--{setting.replace('_', '-')}" if setting in _OPTIONS else f"--set {setting}=..."


def list_algorithms(printed: str) -> None:
    """Print every algorithm with its settings and their defaults."""
    facts = {name: kind().to_config() for name, kind in ALGORITHMS.items()}
    if printed == "json":
        print_json(facts)
        return
    rows = [
        (name, (ALGORITHMS[name].__doc__ or "").splitlines()[0], _defaults(config))
        for name, config in facts.items()
    ]
    if printed == "csv":
        csv.writer(sys.stdout, lineterminator="\n").writerows(
            [("id", "description", "settings"), *rows]
        )
        return
    for name, summary, settings in rows:
        console.print(Text(f"{name}: {summary}"))
        console.print(Padding(Text(settings or "no settings"), (0, 0, 0, 4), expand=False))


def _defaults(config: dict[str, Any]) -> str:
    """Write settings as ``epsilon=0.5; max_iterations``, the name alone where none is set."""
    return "; ".join(
        name if value is None else f"{name}={in_words(value)}"
        for name, value in config.items()
        if name != "algorithm"
    )


def print_result(result: Improvement) -> None:
    """Print a result for people."""
    summary = summarise(result)
    console.print(
        f"{summary['n_rows']:,} rows, {summary['n_states']} states, {summary['n_actions']} "
        f"actions; {summary['n_unseen_pairs']} pairs never tried"
    )
    if summary["n_dropped_rows"]:
        console.print(f"{summary['n_dropped_rows']:,} rows left out: their next state is unknown.")
    if summary["n_gaps"]:
        console.print(f"In {summary['n_gaps']:,} places steps of an episode are missing.")
    if summary["is_baseline_estimated"]:
        console.print("The baseline was estimated from the log.")
    _print_values(result)
    print_start(summary["n_episodes"])
    steps = f"{result.n_iterations} step{'' if result.n_iterations == 1 else 's'}"
    console.print(f"{result.status.value} ({steps})")
    print_changes(_changes(result))
    print_guarantee(result.certificate)


def _print_values(result: Improvement) -> None:
    """Print what the baseline earned in the log, and what the model says, if it may."""
    found = result.log_return
    if found is not None:
        low, high = found.interval
        ends = "" if math.isinf(low) else f", from {low:.4g} to {high:.4g} at 95 %, approximately"
        cut = f"; {found.n_truncated:,} records stop early" if found.n_truncated else ""
        console.print(f"The baseline earned {found.mean:.4g} an episode in the log{ends}{cut}.")
        for text in found.warnings:
            console.print(f"  {text}", markup=False)
    if result.withheld is not None:
        console.print(f"Estimates by the model are withheld: {result.withheld}.", markup=False)
        return
    console.print(
        f"Estimated by the model: baseline {result.baseline.performance:.4g}, new policy "
        f"{result.performance:.4g} (flattering; {100 * result.visits.hardly:.0f} % of the new "
        f"policy's visits are to pairs seen fewer than {HARDLY} times, "
        f"{100 * result.baseline_visits.hardly:.0f} % of the baseline's)"
    )


def _changes(result: Improvement) -> list[Any]:
    return list_changes(result.policy, result.baseline.policy, result.certificate.states)
