"""``spibb evaluate``."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from spibb.cli import options as o

Estimators = Annotated[
    str | None, Option(help="is, pdis, wis, cwpdis, dr, model; several with commas.")
]
Bound = Annotated[
    str, Option(help="Interval: bca or student-t (approximate), betting or concentration (exact).")
]
Returns = Annotated[
    tuple[float, float] | None, Option(metavar="LOW HIGH", help="Smallest and largest return.")
]


def evaluate(
    log: o.LogFile,
    baseline: o.Baseline,
    policy: Annotated[str, Option(metavar="FILE", help="The policy to estimate.")],
    gamma: o.Gamma,
    estimator: Estimators = None,
    bound: Bound = "bca",
    delta: o.Level = 0.05,
    reward_range: o.Rewards = None,
    return_range: Returns = None,
    unseen: o.Unseen = "average",
    columns: o.Columns = None,
    printed: o.PrintFormat = o.Format.table,
) -> None:
    """Estimate what a policy would earn, from the log of another, with intervals."""
    import spibb
    from spibb.cli.evaluation_printing import print_evaluation
    from spibb.cli.inputs import read_problem
    from spibb.cli.shown_progress import shown_progress

    problem = read_problem(log, baseline, gamma, columns, reward_range=reward_range, unseen=unseen)
    judged = spibb.TabularPolicy.read(policy)
    with shown_progress("Estimating", "estimates") as progress:
        found = spibb.evaluate_policy(
            problem,
            policy=judged,
            estimators=None if estimator is None else [one.strip() for one in estimator.split(",")],
            bound=bound,
            delta=delta,
            return_range=return_range,
            progress=progress,
        )
    print_evaluation(found, printed)
