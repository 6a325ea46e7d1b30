"""What commands print of a result: its changes, its guarantee, what was checked."""

from __future__ import annotations

from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from spibb.assessment.assessment import Assessment
from spibb.certify.certificate import Certificate
from spibb.cli import printing as p
from spibb.cli.representation_printing import print_representation
from spibb.cli.sensitivity_printing import print_sensitivity
from spibb.data.objective import FEWEST_EPISODES, Objective
from spibb.display import visible
from spibb.posterior.risk import format_cross_validation, format_held_out, format_share
from spibb.report import sensitivity
from spibb.report.changes import Change, result_changes
from spibb.report.comparison import HEAD, Comparison
from spibb.report.representation import QUESTION
from spibb.words import number, percent

_N_SHOWN, _N_FINDINGS = 10, 3


def print_improvement(
    assessment: Assessment, summary: dict[str, Any], out: Path, printed: str
) -> None:
    """Print what an algorithm returned, and where it was written."""

    def show() -> None:
        describe_improvement(assessment, summary)
        p.print_written(out)

    p.print_as(
        printed,
        json=lambda: summary,
        csv=lambda: change_records(result_changes(assessment)),
        table=show,
    )


def describe_improvement(assessment: Assessment, summary: dict[str, Any]) -> None:
    """Print a result for people: the verdict and the answers first, what they rest on after."""
    p.print_objective(assessment.problem.objective)
    _print_answers(summary)
    _print_pilot(summary["pilot"])
    log = assessment.problem.log
    print_representation(summary, has_columns=log is not None and log.features is not None)
    _print_changes(result_changes(assessment))
    _print_groups(summary["groups"])
    print_sensitivity(summary)
    _print_log(assessment)
    p.print_title("What it rests on")
    p.print_sentence("\n".join(assessment.findings))
    _print_risk(assessment)
    _print_guarantee(assessment.certificate)


def _print_answers(summary: dict[str, Any]) -> None:
    """Print the verdict and, a line or two each, what is asked first."""
    p.print_title(visible(summary["verdict"]["sentence"]))
    lines = Table.grid(padding=(0, 1))
    lines.add_column(no_wrap=True)
    for one in summary["answers"]:
        lines.add_row(Text(f"  {one['name']}"), Text(visible(one["sentence"])))
    p.console.print(lines)


def _print_pilot(pilot: dict[str, Any] | None) -> None:
    """Print how to run a pilot, where that is the verdict."""
    if pilot is None:
        return
    p.print_title("How to run a pilot")
    steps = Table.grid(padding=(0, 1))
    for place, text in enumerate(pilot["steps"], 1):
        steps.add_row(f"  {place}.", Text(visible(text)))
    p.console.print(steps)


def print_comparison(found: Comparison, facts: dict[str, Any], out: Path, printed: str) -> None:
    """Print several results in one table, and where they were written."""

    def show() -> None:
        p.print_objective(found.problem.objective)
        p.print_title("Compared")
        head = (Column(HEAD[0], no_wrap=True), *map(p.right, HEAD[1:]))
        p.print_table(head, (row.cells for row in found.rows))
        names = (row.algorithm for row in found.rows[1:])
        p.print_bullets(
            f"{name}: {one['verdict']['sentence']}"
            for name, one in zip(names, facts["settings"], strict=True)
        )
        if found.lines:
            p.print_title(QUESTION)
            p.print_bullets(found.lines)
        p.print_title(sensitivity.QUESTION)
        p.print_bullets(found.sensitivity_lines)
        p.print_sentence("\n".join(found.remarks))
        p.print_written(out)

    p.print_as(
        printed,
        json=lambda: facts,
        csv=found.records,
        table=show,
    )


def change_records(changes: list[Change]) -> list[Any]:
    """Return the rows of a CSV file, names of the columns first."""
    return [[item.name for item in fields(Change)], *map(astuple, changes)]


def _print_log(assessment: Assessment) -> None:
    """Print what was found in the log, the worst first."""
    found = () if assessment.inspection is None else assessment.inspection.findings
    if found:
        p.print_title("The log ('spibb inspect' says more)")
        p.print_bullets(f"{one.found} {one.effect}" for one in found[:_N_FINDINGS])


def _print_changes(changes: list[Change]) -> None:
    """Print the changes that matter most."""
    if not changes:
        p.console.print("The policy is the baseline: nothing changes.")
        return
    shown = changes[:_N_SHOWN]
    states = f"{len(changes)} state{'' if len(changes) == 1 else 's'}"
    cut = f" ({len(shown)} shown)" if len(shown) < len(changes) else ""
    p.print_title(f"Where it differs: {states}, most rows moved first{cut}")
    is_judged = shown[0].harm is not None
    p.print_table(
        (p.left("state"), p.right("rows"), p.left("less of"), p.left("more of"),
         p.right("harm" if is_judged else "value")),
        (
            (
                p.short_name(change.state),
                str(change.n_rows),
                p.short_name(change.less).append(f" -{100 * change.less_by:.0f}%"),
                p.short_name(change.more).append(f" +{100 * change.more_by:.0f}%"),
                f"{change.value_gain:+.3g}" if change.harm is None else percent(change.harm),
            )
            for change in shown
        ),
    )  # fmt: skip


def _print_groups(groups: list[dict[str, Any]]) -> None:
    """Print what the log and the changes are like in each group."""
    if not groups:
        return
    shown = groups[:_N_SHOWN]
    cut = f" ({len(shown)} of {len(groups)} shown)" if len(shown) < len(groups) else ""
    p.print_title(f"Group by group{cut}")
    p.print_table(
        (p.left("group"), *map(p.right, ("rows", "episodes", "return", "changed"))),
        (
            (
                p.short_name(one["name"]),
                f"{one['n_rows']:,}",
                f"{one['n_episodes']:,}",
                "" if one["log_return"] is None else number(one["log_return"]),
                percent(one["moved"]),
            )
            if one["n_rows"] is not None
            else (p.short_name(one["name"]), "", f"fewer than {FEWEST_EPISODES}", "", "")
            for one in shown
        ),
    )


def _print_risk(assessment: Assessment) -> None:
    """Print what the posterior says of a policy, and why it was chosen."""
    risk = assessment.risk if assessment.is_changed else None
    if risk is None and assessment.choice is None:
        return
    p.print_title("Risk, given the log and a prior; no guarantee")
    if doubt := assessment.verdict.doubt:
        p.print_sentence(
            f"All of it assumes that the recorded state is all that matters; here {doubt}."
        )
    if assessment.choice is not None:
        p.print_sentence(assessment.choice.summary)
    if risk is None:
        return
    low, high = risk.interval()
    p.print_table(
        tuple(map(p.right, ("gain", "95 %", "harm", "mean of the worst 10 %"))),
        (
            (
                f"{risk.mean:.4g}",
                f"{low:.4g} to {high:.4g}",
                format_share(risk.probability_of_harm),
                f"{risk.lower_tail_mean:.4g}",
            ),
        ),
    )
    least, most = map(format_share, risk.prior_range.probability_of_harm)
    p.print_sentence(f"Under other priors, the probability of harm is from {least} to {most}.")
    if risk.cross_fitted is not None:
        p.print_sentence(format_cross_validation(risk.cross_fitted))
    if risk.held_out is not None:
        p.print_sentence(f"Without models: {format_held_out(risk.held_out)}.")


def _print_guarantee(certificate: Certificate) -> None:
    """Print what is guaranteed and what is assumed."""
    p.print_title("Guarantee")
    p.print_sentence(certificate.statement)
    guarantee = certificate.guarantee
    if guarantee.applies and not guarantee.is_vacuous:
        p.print_sentence(guarantee.statement)
    if certificate.is_guaranteed and certificate.guarantee.assumptions:
        p.console.print("Assumed, and not to be checked on a log:")
        p.print_bullets(certificate.guarantee.assumptions)
    for other in certificate.others:
        told = f" {other.statement}" if other.applies else ""
        p.print_sentence(f"Beside it: {other.summary}{told}")


def print_audit(
    certificate: Certificate,
    objective: Objective,
    changes: list[Change],
    finer: dict[str, Any],
    *,
    has_columns: bool,
) -> None:
    """Print what was checked, where the policy differs, and what is guaranteed of it.

    Args:
        certificate: The certificate.
        objective: What is better, and what episodes look like.
        changes: Where the policy differs from the baseline.
        finer: The gain in finer states, and its sensitivity to an unrecorded cause, as JSON has
            them.
        has_columns: Whether raw columns were given.
    """
    p.print_objective(objective)
    if certificate.origin is not None:
        p.print_sentence(certificate.origin)
    p.print_title("Checks")
    p.print_bullets(check.summary for check in certificate.checks)
    print_representation(finer, has_columns=has_columns)
    _print_changes(changes)
    print_sensitivity(finer)
    _print_guarantee(certificate)
