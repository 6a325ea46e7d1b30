"""What the study on representations shows: Deploy verdicts, wrong ones, and what remains."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.representation.agreement import SURVIVING_SHARE
from spibb.studies.claims import markdown_table
from spibb.studies.drawing import GREY, Drawing, add_head
from spibb.studies.proportions import clopper_pearson, excess_p, holm
from spibb.studies.representations.halves import LOT_SEED, draw_lot
from spibb.studies.representations.plan import BEFORE, COLUMNS, LABELS, RULES, find_states
from spibb.studies.representations.registry import SIMULATORS
from spibb.studies.representations.results import RepresentationsResults
from spibb.studies.representations.simulator import behaviour_returns
from spibb.studies.representations.trace import find_trace
from spibb.words import number, several

Flags = NDArray[np.bool_]

PAGE = "representations.md"
# The largest share of logs with a wrong Deploy that a cell may have, and the level of its test.
MOST_WRONG, _LEVEL = 0.02, 0.05
_N_EPISODES = 4_000
# Each log is a shape in the file of the figure.
_DRAWN_RUNS = 50
_ADEQUATE, _INADEQUATE = ("#0072b2", "o"), ("#d55e00", "x")
_X_LIMITS, _Y_LIMITS = (-2.0, 1.5), (-4.0, 2.0)

_N_PANEL_COLUMNS = 2


class _Logs:
    """The results as arrays of shape (runs, states, sizes), and for each rule its verdicts."""

    def __init__(self, results: RepresentationsResults) -> None:
        self.plan = results.plan
        rules = [setting.rule for setting in results.plan.settings]
        deploys = results.deploys
        self.deploys = {rule: deploys[..., k] for k, rule in enumerate(rules)}
        # What is no verdict is the same under every rule.
        self.columns = {name: column[..., 0] for name, column in results.columns.items()}
        self.is_loss = results.is_loss[..., 0]
        states = [find_states(name) for name in results.plan.states]
        self.simulator = np.array([simulator.name for simulator, _ in states])
        self.is_adequate = np.array([one.is_adequate for _, one in states])
        # States whose hidden part, if they have one, shows over time.
        self.leaves_trace = np.array([one.is_adequate or find_trace(x, one).is_left
                                      for x, one in states])  # fmt: skip

    def wrong(self, rule: str) -> Flags:
        """Tell where a policy would be deployed that is worse than the behaviour."""
        return np.asarray(self.deploys[rule] & self.is_loss)

    @property
    def simulators(self) -> list[str]:
        """The names of the simulators, in the order of the plan."""
        return list(dict.fromkeys(self.simulator.tolist()))


def representations_pages(
    given: Sequence[RepresentationsResults],
) -> dict[str, dict[str, str]]:
    """Return what the studies say in their page."""
    parts: dict[str, Callable[[_Logs], str]] = {
        "trace": _trace, "cells": _cells, "rates": _rates, "tests": _tests, "power": _power,
        "seconds": _seconds,
    }  # fmt: skip
    blocks = {"lot": _lot()}
    for results in given:
        half = results.plan.name.rpartition("-")[2]
        if half not in draw_lot()._fields:
            continue
        logs = _Logs(results)
        blocks |= {f"{half}-{name}": told(logs) for name, told in parts.items()}
        blocks[f"{half}-cells"] = f"{_facts(results)}\n\n{blocks[f'{half}-cells']}"
        name, title = results.plan.name, _title(results)
        blocks[f"{half}-figure"] = f"![{title}](results/{name}/figures/{name}.svg)\n\n{_CAPTION}"
    return {PAGE: blocks} if len(blocks) > 1 else {}


def _lot() -> str:
    lot = draw_lot()
    rows = [[half, ", ".join(names)] for half, names in lot._asdict().items()]
    return f"{markdown_table([f'half (seed {LOT_SEED})', 'simulators'], rows)}\n"


def _facts(results: RepresentationsResults) -> str:
    plan, n = results.plan, len(results.runs)
    return (
        f"Plan {plan.in_words}: {several(n, 'log')} of each cell. "
        f"Run with `spibb study run {plan.name} --runs {plan.n_runs} --out DIR`."
    )


def _trace(logs: _Logs) -> str:
    """Say how much of what states hide the past shows."""
    rows = []
    for name in logs.plan.states:
        simulator, states = find_states(name)
        trace = find_trace(simulator, states)
        told = "adequate" if states.is_adequate else "yes" if trace.is_left else "no"
        shares = [_percent(x) for x in (trace.hidden, trace.past, trace.share)]
        rows.append([simulator.title, states.title, *shares, told])
    head = ["simulator", "states", "hidden", "past", "past / hidden", "leaves a trace"]
    return markdown_table(head, rows)


def _cells(logs: _Logs) -> str:
    """Say how often each cell is deployed, and how often that is wrong."""
    rows, before = [], ""
    for k, name in enumerate(logs.plan.states):
        simulator, states = find_states(name)
        title = simulator.title if simulator.name != before else ""
        before = simulator.name
        value = behaviour_returns(simulator, _N_EPISODES, 0).mean()
        told = []
        for j, size in enumerate(logs.plan.size):
            episodes = f"{logs.plan.n_episodes(simulator, size):,}: "
            told.append(episodes + " → ".join(_counts(logs, rule, k, j) for rule in RULES))
        yes = "yes" if states.is_adequate else "no"
        rows.append([title, states.title, yes, number(float(value)), *told])
    head = ["simulator", "states", "adequate", "behaviour value", *logs.plan.size]
    return markdown_table(head, rows)


def _counts(logs: _Logs, rule: str, states: int, size: int) -> str:
    n = int(logs.deploys[rule][:, states, size].sum())
    n_wrong = int(logs.wrong(rule)[:, states, size].sum())
    return f"{n} ({n_wrong})"


class _Scope(NamedTuple):
    """Which states are counted: what they are called, and a flag for each."""

    name: str
    states: Flags


def _rates(logs: _Logs) -> str:
    """Say how often verdicts are Deploy, and how often that is wrong, over all cells."""
    every = np.ones(len(logs.is_adequate), dtype=bool)
    rows = []
    for rule in (BEFORE, COLUMNS, LABELS):
        meant = logs.leaves_trace if rule == LABELS else every
        kind = ", hidden causes leave a trace" if not meant.all() else ""
        scopes = [
            _Scope("all but those reported apart" if kind else "all", meant),
            _Scope("adequate", meant & logs.is_adequate),
            _Scope(f"not adequate{kind}", meant & ~logs.is_adequate),
        ]
        if kind:
            scopes.append(_Scope("reported apart: hidden causes leave no trace", ~meant))
        rows += [_rate(logs, rule, scope) for scope in scopes if scope.states.any()]
    head = ["rule", "states", "logs", "Deploy", "wrong Deploy", "of the logs (95 % interval)",
            "of the Deploy verdicts (95 % interval)", "true gain below 0"]  # fmt: skip
    return markdown_table(head, rows)


def _rate(logs: _Logs, rule: str, scope: _Scope) -> list[str]:
    deploys = logs.deploys[rule][:, scope.states]
    n_wrong = int(logs.wrong(rule)[:, scope.states].sum())
    n_negative = int((deploys & (logs.columns["gain"][:, scope.states] < 0.0)).sum())
    n_deploys = int(deploys.sum())
    return [
        RULES[rule], scope.name, f"{deploys.size:,}", f"{n_deploys:,}", f"{n_wrong:,}",
        _share(n_wrong, deploys.size), _share(n_wrong, n_deploys), f"{n_negative:,}",
    ]  # fmt: skip


def _share(k: int, n: int) -> str:
    """Return a proportion with its exact interval."""
    if n == 0:
        return "-"
    low, high = clopper_pearson(k, n)
    return f"{_percent(k / n)} ({_percent(low)} to {_percent(high)})"


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g} %" if share < 0.0995 else f"{100.0 * share:.0f} %"


def _tests(logs: _Logs) -> str:
    """Test each cell against the largest share of wrong Deploy verdicts."""
    return "\n\n".join(_tests_of_rule(logs, rule) for rule in (COLUMNS, LABELS, BEFORE))


def _tests_of_rule(logs: _Logs, rule: str) -> str:
    wrong, found = logs.wrong(rule), []
    for k, name in enumerate(logs.plan.states):
        if rule == LABELS and not logs.leaves_trace[k]:
            continue
        for j, size in enumerate(logs.plan.size):
            found.append((name, size, int(wrong[:, k, j].sum())))
    adjusted = holm([excess_p(n_wrong, len(wrong), MOST_WRONG) for _, _, n_wrong in found])
    rejected = [
        [name, size, f"{n_wrong} of {len(wrong)}", _p_value(p)]
        for (name, size, n_wrong), p in zip(found, adjusted, strict=True)
        if p <= _LEVEL
    ]
    told = f"**Rule: {RULES[rule]}.** {len(rejected)} of {len(found)} cells reject the hypothesis "
    told += f"that at most {_percent(MOST_WRONG)} of the logs have a wrong Deploy."
    if not rejected:
        return told
    head = ["states", "size", "wrong Deploy", "p-value after Holm"]
    return f"{told}\n\n{markdown_table(head, rejected)}"


def _p_value(p: float) -> str:
    return "below 0.0001" if p < 1e-4 else f"{p:.2g}"


def _power(logs: _Logs) -> str:
    """Say how many of the right Deploy verdicts on adequate states remain."""
    rows = [_kept(logs, SIMULATORS[name].title, logs.simulator == name) for name in logs.simulators]
    rows.append(_kept(logs, "all", np.ones(len(logs.simulator), dtype=bool)))
    head = ["simulator", "right Deploy before", *(f"remain, {RULES[x]}" for x in (LABELS, COLUMNS))]
    return markdown_table(head, rows)


def _kept(logs: _Logs, title: str, where: Flags) -> list[str]:
    states = where & logs.is_adequate
    right = (logs.deploys[BEFORE] & (logs.columns["gain"] > 0.0))[:, states]
    n = int(right.sum())
    left = [int((right & logs.deploys[rule][:, states]).sum()) for rule in (LABELS, COLUMNS)]
    return [title, f"{n:,}", *(f"{k:,}: {_share(k, n)}" for k in left)]


def _seconds(logs: _Logs) -> str:
    """Say how long a log takes."""
    rows = []
    for name in logs.simulators:
        seconds = logs.columns["seconds"][:, logs.simulator == name].ravel()
        told = (seconds.mean(), *np.quantile(seconds, [0.5, 0.95, 1.0]))
        rows.append([SIMULATORS[name].title, f"{seconds.size:,}", *(f"{x:.2f}" for x in told)])
    head = ["simulator", "logs", "mean", "median", "95 % quantile", "longest"]
    return markdown_table(head, rows)


_CAPTION = (
    f"*Each point is a log of the first {_DRAWN_RUNS} runs whose verdict is Deploy without a check "
    "of the states. Points beyond the axes are drawn at their ends. The check with raw columns "
    "asks for points to the right of the dashed line, by one standard error. Points below 0 are "
    "policies that are worse than the behaviour.*"
)


def _title(results: RepresentationsResults) -> str:
    half = results.plan.name.rpartition("-")[2]
    return f"Claims left in finer states, and true gains ({half})"


def draw_representations(results: RepresentationsResults) -> list[Drawing]:
    """Draw the true gain against what is left of the claim, one panel for each simulator."""
    from matplotlib.figure import Figure

    logs = _Logs(results)
    n_rows = math.ceil(len(logs.simulators) / _N_PANEL_COLUMNS)
    figure = Figure(figsize=(10, 1.0 + 3.6 * n_rows), layout="constrained")
    panels = figure.subplots(n_rows, _N_PANEL_COLUMNS, squeeze=False).ravel()
    claim = logs.columns["claim"]
    with np.errstate(invalid="ignore", divide="ignore"):
        x, y = logs.columns["share"], logs.columns["gain"] / claim
    shown = logs.deploys[BEFORE] & (claim > 0.0) & np.isfinite(x)
    shown &= (np.arange(len(results.runs)) < _DRAWN_RUNS)[:, None, None]
    for axes, name in zip(panels, logs.simulators, strict=False):
        for is_adequate in (True, False):
            colour, marker = _ADEQUATE if is_adequate else _INADEQUATE
            here = (logs.simulator == name) & (logs.is_adequate == is_adequate)
            points = shown & here[:, None]
            axes.plot(
                np.clip(x[points], *_X_LIMITS), np.clip(y[points], *_Y_LIMITS), marker, ms=3.5,
                color=colour, alpha=0.6, label=f"{'' if is_adequate else 'not '}adequate states",
            )  # fmt: skip
        axes.axhline(0.0, color=GREY, linewidth=0.8)
        axes.axvline(SURVIVING_SHARE, color=GREY, linewidth=1.0, linestyle="--",
                     label="half of the claim: the rule")  # fmt: skip
        axes.set(
            title=SIMULATORS[name].title, xlim=(_X_LIMITS[0] - 0.1, _X_LIMITS[1] + 0.1),
            ylim=(_Y_LIMITS[0] - 0.2, _Y_LIMITS[1] + 0.2),
            xlabel="smallest share of the claim left in finer states",
            ylabel="true gain as a share of the claim",
        )  # fmt: skip
    for axes in panels[len(logs.simulators) :]:
        axes.set_visible(False)
    title = _title(results)
    add_head(figure, title, 3)
    return [Drawing(results.plan.name, title, _CAPTION.strip("*"), figure)]
