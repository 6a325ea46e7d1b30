"""``spibb improve``: one algorithm, the boldest that keeps a promise, or several in a table."""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Option

from spibb.cli import options as o

_ALGORITHM = (
    f"Algorithm, by id; 'spibb algorithms' lists them [default: {o.DEFAULT_ALGORITHM}; with a "
    f"setting that it does not have, as --epsilon, with --min-gain {o.OTHERWISE}]."
)
AlgorithmId = Annotated[str | None, Option(help=_ALGORITHM)]
Epsilon = Annotated[float | None, Option(help="Budget of the soft algorithms [default: 0.5].")]
NWedge = Annotated[
    float | None, Option(help="Observations that make a pair trusted [default: 10; in r-min 3].")
]
MaxIterations = Annotated[int | None, Option(help="Improvement steps; 1 is one-step.")]
_CAUTION = "How many standard deviations a gain must exceed in auto-spibb [default: 1.25]."
Caution = Annotated[float | None, Option(help=_CAUTION)]
_OTHERS = "Any other setting, as kappa=0.01 or mixtures=0,0.5; may be repeated."
Others = Annotated[list[str] | None, Option("--set", metavar="NAME=VALUE", help=_OTHERS)]
_LOSS = "Choose n_wedge of pi-b-spibb so that at most this loss is certified."
Loss = Annotated[float | None, Option(help=_LOSS)]
_COMPARED = "Run several, in one table; with settings as pi-b-spibb(n_wedge=5)."
Ids = Annotated[str | None, Option("--compare", metavar="A,B,...", help=_COMPARED)]
CertificateDelta = Annotated[float, Option(help="Allowed probability of error of the certificate.")]


def improve(
    log: o.LogFile,
    out: o.ResultFolder,
    gamma: o.Gamma = None,
    baseline: o.Baseline = None,
    algorithm: AlgorithmId = None,
    epsilon: Epsilon = None,
    n_wedge: NWedge = None,
    delta: o.Delta = None,
    error: o.Error = None,
    max_iterations: MaxIterations = None,
    caution: Caution = None,
    others: Others = None,
    guarantee: Loss = None,
    compared: Ids = None,
    certificate_delta: CertificateDelta = 0.05,
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
    by: o.By = None,
    accept_baseline: o.AcceptBaseline = False,
    improve_on: o.ImproveOn = None,
    printed: o.PrintFormat = o.Format.table,
    overwrite: o.Overwrite = False,
) -> None:
    """Improve the baseline on the evidence of its log and write the result to a folder."""
    from spibb.algorithms.guarantee_planning import plan_promise
    from spibb.assessment.assessment import Assessment
    from spibb.atomic_folders import check_replaceable
    from spibb.cli.inputs import (
        check_inputs_outside,
        command_line,
        read_limits,
        read_mask,
        read_problem,
    )
    from spibb.cli.printing import print_sentence
    from spibb.cli.result_printing import print_comparison, print_improvement
    from spibb.cli.search_status import search_status
    from spibb.cli.settings import (
        OPTIONS,
        build_algorithms,
        chosen_algorithms,
        parse_settings,
        too_large,
    )
    from spibb.report.comparison import compare, comparison_files, row_names
    from spibb.report.folder import FILES, write_result

    named = zip(OPTIONS, (epsilon, n_wedge, delta, error, max_iterations, caution), strict=True)
    given = [f"{name}={value}" for name, value in named if value is not None]
    settings = parse_settings([*given, *(others or [])])
    # A least gain leaves auto-spibb no choice.
    is_decided = min_gain is not None
    algorithms = chosen_algorithms(settings, algorithm, compared, guarantee, is_decided=is_decided)
    parts = FILES if compared is None else comparison_files(row_names(algorithms))
    check_replaceable(out, overwrite=overwrite, known=parts)
    check_inputs_outside(out, log, initial, successors, allowed, lock, *(baseline or []))
    mask = read_mask(log, allowed, allowed_column, columns, query)
    limits = read_limits(
        forbid, no_increase, mask, lock, cap, cap_increase, max_states, min_gain, cost
    )
    problem = read_problem(
        log, baseline, gamma, columns, by, query, features,
        minimize=minimize, reward_range=reward_range, initial=initial,
        unseen=unseen, states_complete=states_complete, never_ends=never_ends,
        successors=successors, accept_baseline=accept_baseline, improve_on=improve_on,
        limits=limits,
    )  # fmt: skip
    if compared is not None:
        level = settings.get("delta", 0.05)
        with search_status("Improving ..."):
            table = compare(problem, algorithms, delta=level, certificate_delta=certificate_delta)
            facts = table.write(out, overwrite=overwrite, command=command_line())
        print_comparison(table, facts, out, printed)
        return
    is_default = algorithm is None and guarantee is None and not settings and not is_decided
    if is_default and (why := too_large(problem)):
        algorithms = build_algorithms([o.OTHERWISE], {})
        print(why, file=sys.stderr)
    if guarantee is not None:
        with search_status("Looking for a threshold ..."):
            promise = plan_promise(problem, zeta=guarantee, delta=certificate_delta)
        algorithms = build_algorithms(["pi-b-spibb"], settings | {"n_wedge": promise.n_wedge})
        if printed == "table":
            print_sentence(promise.summary + "\n")
    with search_status("Improving ..."):
        result = algorithms[0].improve(problem, certificate_delta=certificate_delta)
        assessment = Assessment.of(result)
        summary = write_result(assessment, out, overwrite=overwrite, command=command_line())
    print_improvement(assessment, summary, out, printed)
