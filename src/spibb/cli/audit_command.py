"""``spibb audit``."""

from __future__ import annotations

from typing import Annotated

from typer import Exit, Option

from spibb.cli import options as o


def audit(
    log: o.LogFile,
    policy: Annotated[str, Option(metavar="FILE", help="The policy to judge.")],
    gamma: o.Gamma = None,
    baseline: o.Baseline = None,
    epsilon: Annotated[float | None, Option(help="Budget to hold the policy to.")] = None,
    n_wedge: Annotated[float | None, Option(help="Threshold to hold the policy to.")] = None,
    delta: o.Level = 0.05,
    error: o.Error = None,
    reward_range: o.Rewards = None,
    initial: o.Initial = None,
    states_complete: o.StatesComplete = False,
    never_ends: o.NeverEnds = False,
    successors: o.Successors = None,
    unseen: o.Unseen = "average",
    forbid: o.Forbid = None,
    no_increase: o.NoIncrease = None,
    allowed: o.Allowed = None,
    allowed_column: o.AllowedColumn = None,
    lock: o.Lock = None,
    cap: o.Cap = None,
    cap_increase: o.CapIncrease = None,
    max_states: o.MaxStates = None,
    min_gain: o.MinGain = None,
    cost: o.Cost = None,
    query: o.Query = None,
    columns: o.Columns = None,
    features: o.Features = None,
    minimize: o.Minimize = False,
    show_ids: o.ShowIds = False,
    accept_baseline: o.AcceptBaseline = False,
    improve_on: o.ImproveOn = None,
    printed: o.PrintFormat = o.Format.table,
) -> None:
    """Judge any policy against a log and the baseline that made it.

    Exit code 1 if a budget, a threshold or limits were given and the policy does not keep to them.
    """
    import spibb
    from spibb.certify.checks import LIMIT_CHECKS
    from spibb.cli.inputs import read_limits, read_mask, read_problem
    from spibb.cli.printing import print_as
    from spibb.cli.result_printing import change_records, print_audit
    from spibb.cli.settings import find_error
    from spibb.report.changes import list_changes
    from spibb.report.sensitivity import sensitivity_facts
    from spibb.report.summary import representation_facts

    mask = read_mask(log, allowed, allowed_column, columns, query)
    limits = read_limits(
        forbid, no_increase, mask, lock, cap, cap_increase, max_states, min_gain, cost
    )
    problem = read_problem(
        log, baseline, gamma, columns, None, query, features,
        minimize=minimize, reward_range=reward_range, initial=initial,
        unseen=unseen, states_complete=states_complete, never_ends=never_ends,
        successors=successors, accept_baseline=accept_baseline, improve_on=improve_on,
        limits=limits,
    )  # fmt: skip
    judged = problem.align(spibb.TabularPolicy.read(policy))
    chosen = None if error is None else find_error(error)
    certificate = spibb.audit(
        problem, policy=judged, delta=delta, epsilon=epsilon, n_wedge=n_wedge, error=chosen
    )
    changes = list_changes(judged, problem.baseline, certificate.states)
    assessment = spibb.Assessment.of(problem, judged)
    found = representation_facts(assessment)
    told = sensitivity_facts(assessment.sensitivity, assessment.sensitivity_remark)
    print_as(
        printed,
        json=lambda: (
            {"objective": problem.objective.to_dict()}
            | certificate.to_dict()
            | ({} if features is None else found)
            | told
        ),
        csv=lambda: change_records(changes),
        table=lambda: print_audit(
            certificate,
            problem.objective,
            changes,
            found | told,
            has_columns=features is not None,
        ),
    )
    asked = [] if epsilon is None else [certificate.check("constraint")]
    if n_wedge is not None:
        conditions = (one for other in certificate.others for one in other.conditions)
        asked += [one for one in conditions if one.name == "bootstrapped-copy"]
    asked += [one for one in certificate.checks if one.name in LIMIT_CHECKS]
    raise Exit(0 if all(condition.is_satisfied for condition in asked) else 1)
