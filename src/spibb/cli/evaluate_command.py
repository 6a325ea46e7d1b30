"""``spibb evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from spibb.cli import options as o

_POLICY = "The policy to estimate [default: the log's target_probability]."
Policy = Annotated[str | None, Option(metavar="FILE", help=_POLICY)]
Estimators = Annotated[
    str | None, Option(help="is, pdis, wis, cwpdis, dr, model; several with commas.")
]
Bound = Annotated[
    str, Option(help="Interval: bca or student-t (approximate), betting or concentration (exact).")
]
Returns = Annotated[
    tuple[float, float] | None, Option(metavar="LOW HIGH", help="Smallest and largest return.")
]

Page = Annotated[Path | None, Option("--out", help="Folder for the estimates and a page of them.")]
_ALL = "Use the episodes of all policies that the log names, weighted over their mixture."
AllEpisodes = Annotated[bool, Option("--all-episodes", help=_ALL)]
_LARGEST = (
    "Largest possible weight of a one-step log whose probabilities are those of rows: makes exact "
    "ends of rare rewards tight."
)
LargestWeight = Annotated[float | None, Option("--largest-weight", help=_LARGEST)]
SameLog = Annotated[
    bool, Option("--same-log", help="Give intervals although this log made the policy.")
]


def evaluate(
    log: o.LogFile,
    gamma: o.Gamma = None,
    baseline: o.Baseline = None,
    policy: Policy = None,
    estimator: Estimators = None,
    bound: Bound = "bca",
    delta: o.Level = 0.05,
    reward_range: o.Rewards = None,
    return_range: Returns = None,
    unseen: o.Unseen = "average",
    query: o.Query = None,
    columns: o.Columns = None,
    features: o.Features = None,
    minimize: o.Minimize = False,
    show_ids: o.ShowIds = False,
    same_log: SameLog = False,
    all_episodes: AllEpisodes = False,
    largest_weight: LargestWeight = None,
    accept_baseline: o.AcceptBaseline = False,
    improve_on: o.ImproveOn = None,
    printed: o.PrintFormat = o.Format.table,
    out: Page = None,
    overwrite: o.Overwrite = False,
) -> None:
    """Estimate what a policy would earn, from the log of another, with intervals."""
    import spibb
    from spibb.atomic_folders import check_replaceable
    from spibb.cli.evaluation_printing import print_evaluation
    from spibb.cli.inputs import check_inputs_outside, command_line, read_given
    from spibb.cli.shown_progress import shown_progress
    from spibb.report.evaluation import FILES, evaluation_facts, write_evaluation

    if out is not None:
        check_replaceable(out, overwrite=overwrite, known=FILES)
        check_inputs_outside(out, log, policy, *(baseline or []))
    given = read_given(
        log, baseline, gamma, columns, None, query, features,
        minimize=minimize, reward_range=reward_range, unseen=unseen,
        accept_baseline=accept_baseline, improve_on=improve_on,
    )  # fmt: skip
    judged = None if policy is None else spibb.TabularPolicy.read(policy)
    with shown_progress("Estimating", "estimates") as progress:
        found = spibb.evaluate_policy(
            **given,
            policy=judged,
            estimators=None if estimator is None else [one.strip() for one in estimator.split(",")],
            bound=bound,
            delta=delta,
            return_range=return_range,
            same_log=same_log,
            all_episodes=all_episodes,
            largest_weight=largest_weight,
            progress=progress,
        )
    facts = evaluation_facts(found, command_line())
    if out is not None:
        write_evaluation(found, facts, out, overwrite=overwrite)
    print_evaluation(found, facts, out, printed)
