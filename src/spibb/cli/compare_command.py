"""``spibb improve --compare``: several algorithms on one log."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rich.table import Table

from spibb.algorithms.registry import find_algorithm
from spibb.cli.improve_command import build_algorithm
from spibb.cli.inputs import Declared, read_inputs, refuse_inputs_in
from spibb.cli.printing import console, print_data, print_json, print_sentence, print_start
from spibb.errors import SettingsError
from spibb.folders import refuse_existing
from spibb.problem import Problem
from spibb.report.comparison import Compared, compare, merged_warnings, write_comparison


def run_compare(
    names: str,
    log: str,
    baseline: str,
    gamma: float,
    *,
    settings: dict[str, Any],
    declared: Declared,
    certificate_delta: float,
    columns: str | None,
    out: Path,
    overwrite: bool,
    printed: str,
) -> None:
    """Run several algorithms and print one table; each setting goes to those that have it."""
    listed = [name.strip() for name in names.split(",") if name.strip()]
    if len(set(listed)) != len(listed) or not listed:
        raise SettingsError(f"--compare is {names!r}", expected="different ids, as a,b,c")
    known = {name: {item.name for item in fields(find_algorithm(name))} for name in listed}
    for setting in settings:
        if not any(setting in have for have in known.values()):
            raise SettingsError(f"none of {names} has a setting {setting!r}")
    algorithms = [
        build_algorithm(name, {k: v for k, v in settings.items() if k in known[name]})
        for name in listed
    ]
    refuse_existing(out, overwrite=overwrite, known={"comparison.csv", "comparison.json", *listed})
    refuse_inputs_in(out, log, baseline, *declared.files)
    rows, policy = read_inputs(log, baseline, columns)
    with console.status("Improving ..."):
        problem = Problem.of(rows, baseline=policy, gamma=gamma, **declared.keywords)
        results = [
            algorithm.improve(problem, certificate_delta=certificate_delta)
            for algorithm in algorithms
        ]
        delta = float(settings.get("delta", 0.05))
        table = compare(problem, algorithms, results, delta=delta)
        write_comparison(table, results, out, overwrite=overwrite)
    _print(table, delta, rows.n_episodes, out, printed)


def _print(rows: list[Compared], delta: float, n_episodes: int, out: Path, printed: str) -> None:
    if printed == "json":
        print_json({"results": [asdict(row) for row in rows]})
    elif printed == "csv":
        buffer = io.StringIO()
        writer = csv.DictWriter(
            buffer, [item.name for item in fields(Compared)], lineterminator="\n"
        )
        writer.writeheader()
        writer.writerows(row.cells() for row in rows)
        print_data(buffer.getvalue())
    else:
        _print_table(rows, delta)
        print_start(n_episodes)
        console.print(f"Written to {out}", markup=False, soft_wrap=True)


def _print_table(rows: list[Compared], delta: float) -> None:
    table = Table(title="Compared", title_justify="left", title_style="bold")
    table.add_column("algorithm", no_wrap=True)
    for name in ("gain, est.", "guaranteed", "moved", "off-policy", "ess"):
        table.add_column(name, justify="right", overflow="fold")
    for row in rows:
        guaranteed = "none" if row.bound is None else f"{row.bound:+.3g}"
        if row.is_vacuous:
            guaranteed = "vacuous"
        table.add_row(
            row.algorithm,
            "withheld" if row.estimated_gain is None else f"{row.estimated_gain:+.3g}",
            guaranteed,
            f"{100 * row.moved:.0f}%",
            _interval(row),
            "" if row.ess is None else f"{row.ess:.0f}",
        )
    console.print(table)
    for text, names in merged_warnings(rows).items():
        print_sentence(f"{', '.join(names)}: {text}")
    console.print(
        "gain, est.: over the baseline, in the model made from the log, which flatters. "
        "guaranteed: lower bound on the true gain; vacuous if it allows any loss. moved: "
        "probability taken from the baseline, "
        f"over the rows. off-policy: performance with its {100 * (1 - delta):g} % interval, each "
        "half of the episodes judging the policy made of the other half (doubly robust, Student's "
        "t: approximate). ess: effective episodes behind it."
    )


def _interval(row: Compared) -> str:
    if row.off_policy is None:
        return "no or few episodes"
    low = "-inf" if row.off_policy_low is None else f"{row.off_policy_low:.3g}"
    high = "inf" if row.off_policy_high is None else f"{row.off_policy_high:.3g}"
    return f"{row.off_policy:.3g} [{low}, {high}]"
