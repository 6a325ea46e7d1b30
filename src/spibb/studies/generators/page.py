"""What the study on generators shows: gain, harm, calibration, coverage and time, as tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spibb.studies.claims import markdown_table
from spibb.studies.generators.figure import TITLE
from spibb.studies.generators.halves import draw_lot
from spibb.studies.generators.plan import GeneratorsPlan
from spibb.studies.generators.registry import GENERATORS
from spibb.studies.generators.statistics import LEAST_LOGS, Bin, Cell, Flags, Logs, rejected
from spibb.studies.proportions import clopper_pearson, lower_limit
from spibb.studies.results.logs import LogResults
from spibb.words import several

PAGE = "risk-study.md"
_MOST_POOLED, _LEAST_TAIL = 0.01, -0.05
_LEAST_COVERED = 0.9
_HALVES = tuple(f"generators-{half}" for half in draw_lot()._fields)


def generators_pages(
    given: Sequence[LogResults[GeneratorsPlan]],
) -> dict[str, dict[str, str]]:
    """Return what the studies say in their page."""
    parts = (_cells, _lines, _settings, _calibration, _predictions, _seconds)
    blocks = {}
    for results in given:
        if (name := results.plan.name) in _HALVES:
            logs = Logs(results)
            said = [_facts(logs), *(told(logs) for told in parts)]
            said.append(f"![{TITLE}](results/{name}/figures/{name}.svg)")
            blocks[name] = "\n\n".join(said)
    return {PAGE: blocks} if blocks else {}


def _facts(logs: Logs) -> str:
    plan, n = logs.plan, logs.n_runs
    label = plan.labels[logs.default]
    return (
        f"Plan {plan.in_words}: {several(n, 'log')} of each generator and size. "
        f"Run with `spibb study run {plan.name} --runs {n} --out DIR`.\n"
        f"Gains are shares of the largest possible gain. Where no gain is possible, they are in "
        f"standard deviations of the baseline's returns.\nTables are of {label}, unless they name "
        f"another setting. *Worse* is the share of the logs in which the true gain of the policy "
        f"is below 0."
    )


def _cells(logs: Logs) -> str:
    """Say what each generator and size gains, and how often the policy is worse."""
    worse, rows = logs.worse[..., logs.default], []
    means, rates = logs.means[..., logs.default], logs.rates[..., logs.default]
    for g, name in enumerate(logs.plan.generator):
        told = [
            f"{_number(mean)} / {_percent(rate)}"
            for mean, rate in zip(means[g], rates[g], strict=True)
        ]
        shown = logs.is_visible[:, g]
        rows.append([
            GENERATORS[name].title, *told, _share(int(worse[:, g].sum()), worse[:, g].size),
            _share(int(worse[:, g][shown].sum()), int(shown.sum())), _count(worse[:, g], ~shown),
            _number(logs.tails[g, :, logs.default].min()),
        ])  # fmt: skip
    shown = logs.is_visible
    every = [
        f"{mean:.3f} / {_percent(rate)}"
        for mean, rate in zip(means.mean(axis=0), rates.mean(axis=0), strict=True)
    ]
    rows.append([
        "**all**", *every, _share(int(worse.sum()), worse.size),
        _share(int(worse[shown].sum()), int(shown.sum())), _count(worse, ~shown),
        _number(logs.tails[..., logs.default].min()),
    ])  # fmt: skip
    sizes = [f"{n:,} episodes" for n in logs.plan.episodes]
    head = ["generator (mean gain / worse)", *sizes, "worse, all logs (95 % interval)",
            "damage visible: worse", "damage not visible: worse",
            "lower-tail mean (5 %), worst size"]  # fmt: skip
    return markdown_table(head, rows)


def _count(worse: Flags, where: Flags) -> str:
    n = int(where.sum())
    return f"{int(worse[where].sum()):,} of {n:,}" if n else "-"


def _lines(logs: Logs) -> str:
    """Say where the aims for harm, tails and growth are missed."""
    return "\n".join(told(logs) for told in (_tests, _tails, _growth))


def _tests(logs: Logs) -> str:
    """Test each cell against the largest share that may be worse."""
    shown = logs.is_visible
    told = [
        _tested(logs.cells(shown), "where the damage is visible or the range is declared"),
        _tested(logs.cells(~shown), "where the damage is not visible, reported apart"),
    ]
    above = []
    for g, name in enumerate(logs.plan.generator):
        where = shown[:, g]
        rate = logs.worse[:, g, :, logs.default][where].mean() if where.any() else 0.0
        if rate > _MOST_POOLED:
            above.append(f"{GENERATORS[name].title} ({_percent(rate)})")
    told.append(
        f"Generators with more than {_percent(_MOST_POOLED)} of their logs worse, where the damage "
        f"is visible: {_listed(above)}"
    )
    return "\n".join(f"* {line}" for line in told)


def _tested(cells: list[Cell], where: str) -> str:
    found = [
        f"{_cell(one.generator, one.episodes)}: {one.n_worse} of {one.n} (p {_p_value(p)})"
        for one, p in rejected(cells)
    ]
    return (
        f"Cells {where}: in {len(found)} of {len(cells)} an exact one-sided test at 5 % (Holm) "
        f"rejects that at most 2 % of the logs are worse. {_listed(found)}"
    )


def _cell(generator: str, episodes: int) -> str:
    return f"{GENERATORS[generator].title}, {episodes:,}"


def _listed(found: Sequence[str]) -> str:
    return f"{'; '.join(found)}." if found else "None."


def _tails(logs: Logs) -> str:
    """Say in which cells the worst logs lose."""
    tails = logs.tails[..., logs.default]
    places = sorted(np.argwhere(tails < _LEAST_TAIL).tolist(), key=lambda x: tails[tuple(x)])
    found = [
        f"{_cell(logs.plan.generator[g], logs.plan.episodes[e])}: {tails[g, e]:.2f}"
        for g, e in places
    ]
    return (
        f"* Cells with a lower-tail mean (5 %) below {_LEAST_TAIL:g}: {len(found)} of {tails.size}."
        f" {_listed(found)}"
    )


def _growth(logs: Logs) -> str:
    """Say where larger logs gain less."""
    falls = [
        f"{_cell(one.generator, one.fewer)} to {one.more:,}: less by {one.fall:.3f} "
        f"(p {_p_value(one.p)})"
        for one in logs.falls()
    ]
    n = len(logs.plan.generator) * (len(logs.plan.episodes) - 1)
    return (
        f"* Steps to a larger log in which the mean gain falls, by one-sided paired t-tests at 5 % "
        f"(Holm): {len(falls)} of {n}. {_listed(falls)}"
    )


def _settings(logs: Logs) -> str:
    """Compare the default algorithm with fixed settings."""
    gain, share = logs.means.mean(axis=(0, 1)), logs.worse.mean(axis=(0, 1, 2))
    rows = [
        [label, f"{gain[k]:.3f}", _percent(share[k]), _percent(logs.rates[..., k].max()),
         _number(logs.tails[..., k].min())]
        for k, label in enumerate(logs.plan.labels)
    ]  # fmt: skip
    head = ["setting", "mean gain over all cells", "worse, all logs", "worse, worst cell",
            "lower-tail mean (5 %), worst cell"]  # fmt: skip
    return f"{markdown_table(head, rows)}\n\n{_hindsight(logs)}"


def _hindsight(logs: Logs) -> str:
    """Say how much of the best fixed setting under the same harm is reached."""
    own = float(logs.means[..., logs.default].mean())
    best = float(logs.best_of_cells().mean())
    single = logs.best_setting()
    if single is None:
        one = "No fixed setting is worse in as few logs as the default algorithm."
    else:
        gain = float(logs.means[..., single].mean())
        one = (
            f"The best single fixed setting that is worse in no more of all logs is "
            f"{logs.plan.labels[single]}: mean gain {gain:.3f}, of which the default algorithm "
            f"reaches {_ratio(own, gain)}."
        )
    return (
        f"{one}\nThe best fixed setting of each cell, chosen in hindsight among those that are "
        f"worse in no more of the cell's logs, gains {best:.3f} on average; the default algorithm "
        f"reaches {_ratio(own, best)} of that."
    )


def _ratio(own: float, best: float) -> str:
    return f"{100.0 * own / best:.0f} %" if best > 0.0 else "-"


def _calibration(logs: Logs) -> str:
    """Compare predicted with observed harm."""
    bins = logs.bins()
    rows = [_bin_row(f"{_percent(one.least)} to {_percent(one.most)}", one) for one in bins]
    head = ["predicted probability of harm", "logs", "mean predicted", "observed (95 % interval)",
            "lower 95 % limit"]  # fmt: skip
    if not bins:
        return "No policy was chosen."
    exceeded, n_tested = [], 0
    for g, name in enumerate(logs.plan.generator):
        for one in logs.bins(g):
            if one.n < LEAST_LOGS:
                continue
            n_tested += 1
            if one.is_exceeded:
                exceeded.append([GENERATORS[name].title, *_bin_row("", one)[1:]])
    told = (
        f"Bins of at least {LEAST_LOGS} logs of one generator: in {len(exceeded)} of {n_tested} "
        "the exact lower 95 % limit of the observed harm exceeds twice the predicted harm."
    )
    if exceeded:
        told += f"\n\n{markdown_table(['generator', *head[1:]], exceeded)}"
    n, n_worse = sum(one.n for one in bins), sum(one.n_worse for one in bins)
    predicted = sum(one.predicted * one.n for one in bins) / n
    whole = Bin(bins[0].least, bins[-1].most, predicted, n_worse, n)
    return f"{markdown_table(head, [*rows, _bin_row('**all chosen policies**', whole)])}\n\n{told}"


def _bin_row(title: str, one: Bin) -> list[str]:
    return [title, f"{one.n:,}", _percent(one.predicted), _share(one.n_worse, one.n),
            _percent(lower_limit(one.n_worse, one.n))]  # fmt: skip


def _predictions(logs: Logs) -> str:
    """Say how often the 95 % intervals hold the true gain, by generator."""
    worse, rows, missed = logs.worse[..., logs.default], [], []
    for g, name in [*enumerate(logs.plan.generator), (None, "")]:
        n_held, n = logs.covered(g)
        where = logs.chosen if g is None else logs.chosen[:, g]
        harm = logs.of_default("harm") if g is None else logs.of_default("harm")[:, g]
        n_worse = int((worse if g is None else worse[:, g])[where].sum())
        title = "**all**" if g is None else GENERATORS[name].title
        predicted = _percent(float(harm[where].mean())) if n else "-"
        rows.append([title, f"{n:,}", predicted, _share(n_worse, n), _share(n_held, n)])
        if g is not None and n and n_held < _LEAST_COVERED * n:
            missed.append(f"{title} ({_percent(n_held / n)})")
    head = ["generator", "logs with a chosen policy", "mean predicted harm",
            "observed harm (95 % interval)", "gains within their 95 % intervals"]  # fmt: skip
    told = f"Generators with less than {_percent(_LEAST_COVERED)} of the gains within: "
    return f"{markdown_table(head, rows)}\n\n{told}{_listed(missed)}"


def _seconds(logs: Logs) -> str:
    """Say how long a log takes, of each size."""
    seconds, rows = logs.of_default("seconds"), []
    for e, episodes in enumerate(logs.plan.episodes):
        found = 1000.0 * seconds[..., e].ravel()
        times = (found.mean(), *np.quantile(found, [0.5, 0.95, 1.0]))
        rows.append([f"{episodes:,}", *(f"{x:.0f}" for x in times)])
    head = ["episodes", "milliseconds a log, mean", "median", "95 % quantile", "longest"]
    told = "Processor time to draw a log, make all policies, judge and evaluate them"
    return f"{told}:\n\n{markdown_table(head, rows)}"


def _share(k: int, n: int) -> str:
    """Return a proportion with its exact interval."""
    if n == 0:
        return "-"
    low, high = clopper_pearson(k, n)
    return f"{_percent(k / n)} ({_percent(low)} to {_percent(high)})"


def _percent(share: float) -> str:
    value = 100.0 * share
    if 0.0 < value < 0.001:
        return "<0.001 %"
    return f"{value:.2g} %" if value < 9.95 else f"{value:.0f} %"


def _number(gain: float) -> str:
    """Return a gain with two digits; what rounds to 0 has no sign.

    Example:
        >>> _number(-0.001)
        '0.00'
    """
    return f"{gain:.2f}".replace("-0.00", "0.00")


def _p_value(p: float) -> str:
    return "below 0.0001" if p < 1e-4 else f"{p:.2g}"
