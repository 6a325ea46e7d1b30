"""``spibb evaluate``."""

from __future__ import annotations

import csv
import math
import sys

from rich.table import Table
from rich.text import Text

from spibb.cli.inputs import read_inputs
from spibb.cli.printing import console, print_json, print_sentence
from spibb.data.estimate import checked_unseen
from spibb.mdp.policy import TabularPolicy
from spibb.ope.estimators import ESTIMATORS
from spibb.ope.evaluate import PolicyEstimate, PolicyEvaluation, evaluate_policy

_COLUMNS = ("estimator", "estimate", "lower", "upper", "ess", "largest_share", "mean_weight")


def run_evaluate(
    log: str,
    baseline: str,
    policy: str,
    gamma: float,
    *,
    estimator: str | None,
    bound: str,
    delta: float | None,
    reward_range: tuple[float, float] | None,
    return_range: tuple[float, float] | None,
    unseen: str | None,
    columns: str | None,
    printed: str,
) -> None:
    """Estimate what a policy would earn, and print it.

    Args:
        log: The log: a file, a folder or a glob.
        baseline: File of the policy that made it, or "estimate".
        policy: File of the policy to estimate.
        gamma: The discount.
        estimator: Ids, separated by commas; None: all that the bound is valid for.
        bound: "bca", "student-t", "betting" or "concentration".
        delta: Probability that an interval fails; None: 0.05.
        reward_range: Smallest and largest possible reward.
        return_range: Smallest and largest possible return.
        unseen: What pairs without data do in fitted models; None: as their state on average.
        columns: Columns that are called otherwise.
        printed: "table", "json" or "csv".
    """
    rows, made_by = read_inputs(log, baseline, columns)
    names = None if estimator is None else [part.strip() for part in estimator.split(",")]
    found = evaluate_policy(
        rows,
        policy=TabularPolicy.read(policy),
        baseline=made_by,
        gamma=gamma,
        estimators=names,
        bound=bound,
        delta=0.05 if delta is None else delta,
        reward_range=reward_range,
        return_range=return_range,
        unseen=checked_unseen("average" if unseen is None else unseen),
    )
    if printed == "json":
        print_json(found.to_dict())
    elif printed == "csv":
        _print_csv(found)
    else:
        _print_table(found)


def _print_csv(found: PolicyEvaluation) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for part in (found.baseline, *found.estimates):
        cells = (part.estimate, *part.interval, part.ess, part.largest_share, part.mean_weight)
        writer.writerow(
            [part.estimator, *("" if x is None or math.isnan(x) else repr(x) for x in cells)]
        )


def _print_table(found: PolicyEvaluation) -> None:
    console.print(
        f"{found.n_episodes:,} episodes, {found.n_rows:,} rows; "
        f"{100 * (1 - found.delta):g} % intervals by {found.bound}, "
        f"{'exact' if found.is_exact else 'approximate'}"
    )
    table = Table()
    table.add_column("estimator", no_wrap=True)
    for name in ("estimate", "from", "to", "effective episodes", "largest weight"):
        table.add_column(name, justify="right")
    _add_row(table, "baseline (mean return)", found.baseline)
    for part in found.estimates:
        _add_row(table, part.estimator, part)
    console.print(table)
    bullets = [f"{part.estimator}: {text}" for part in found.estimates for text in part.warnings]
    _print_list("Warnings", _merged([*found.warnings, *bullets]))
    _print_list("Assumed, and not to be checked on a log", found.assumptions)
    named = ", ".join(
        f"{part.estimator} ({ESTIMATORS[part.estimator]})" for part in found.estimates
    )
    print_sentence(f"Estimators: {named}.")


def _merged(texts: list[str]) -> list[str]:
    """Say what several estimators share once: the same words after different names."""
    names: dict[str, list[str]] = {}
    for text in texts:
        name, colon, rest = text.partition(": ")
        known = bool(colon) and name in ESTIMATORS
        names.setdefault(rest if known else text, []).extend([name] if known else [])
    return [f"{', '.join(who)}: {text}" if who else text for text, who in names.items()]


def _add_row(table: Table, name: str, part: PolicyEstimate) -> None:
    table.add_row(
        name,
        _number(part.estimate),
        *(_number(end) for end in part.interval),
        "" if part.ess is None else f"{part.ess:.1f}",
        "" if part.largest_share is None else f"{100 * part.largest_share:.1f} %",
    )


def _number(value: float) -> str:
    return "none" if math.isnan(value) else f"{value:.4g}"


def _print_list(title: str, texts: list[str] | tuple[str, ...]) -> None:
    if not texts:
        return
    console.print(Text(title, style="bold"))
    bullets = Table.grid(padding=(0, 1))
    for text in texts:
        bullets.add_row("  -", Text("".join(mark if mark.isprintable() else " " for mark in text)))
    console.print(bullets)
