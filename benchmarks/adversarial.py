"""The long adversarial suite: every certificate and interval against the truth, cell by cell.

    python benchmarks/adversarial.py [--logs 2000] [--delta 0.05] [--page docs/adversarial.md]
                                     [--process NAME ...] [--no-resampling]

A cell is a process of spibb.testing.adversaries and a kind of claim. Of the exact ones none may
fail more often than delta allows, at a family-wise level of 1 %, and none may be vacuous in every
cell; else the exit code is 1. Approximate ones are printed with the cells in which they fail too
often. ``--page`` fills the table into a page.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from scipy.stats import binom

from spibb.studies.publishing import fill_page
from spibb.testing.adversaries import ADVERSARIES
from spibb.testing.claims import statements

FAMILY = 0.01
_PART = 25
_SHORT = {
    "Decision points": "decision points",
    "Held-out test (HCPI, is by betting)": "HCPI is betting",
    "Held-out test (HCPI, pdis by betting)": "HCPI pdis betting",
    "Held-out test (HCPI, is by concentration)": "HCPI is concentration",
    "Held-out test (HCPI, dr by student-t)": "HCPI dr t",
    "Held-out test (HCPI, is by bca)": "HCPI is bca",
    "Held-out test (HCPI, pdis by betting), several": "HCPI pdis betting, 3 tests",
    "Regret test": "regret test",
    "Regret test, estimated baseline": "regret test, baseline estimated",
    "Robust test": "robust test",
    "Robust test, rewards known": "robust test, rewards known",
    "SPIBB bound (Pi_b)": "SPIBB",
    "Theorem 1 (Soft-SPIBB)": "Theorem 1",
    "Theorem 1 (Soft-SPIBB), by returns": "Theorem 1, returns",
    "Theorem 2 (Soft-SPIBB)": "Theorem 2",
}


def tally(
    name: str, seed: int, first: int, last: int, delta: float, resamples: bool
) -> list[tuple]:
    """Return (claim, is exact, holds, distance, is vacuous) of some logs, a fourth resampled."""
    os.environ["SPIBB_THREADS"] = "1"
    adversary, found = ADVERSARIES[name], []
    for k in range(first, last):
        log = adversary.draw(np.random.default_rng([seed, k]))
        for part in statements(adversary, log, delta, resampled=resamples and k % 4 == 0):
            found.append((part.name, part.is_exact, part.holds, part.distance, part.is_vacuous))
    return found


class Cell:
    """What one kind of claim came to on one process."""

    def __init__(self, rows: list[tuple], n_logs: int) -> None:
        self.is_exact = all(row[1] for row in rows)
        self.n_claims, self.n_logs = len(rows), n_logs
        self.n_failed = sum(not row[2] for row in rows)
        self.distance = float(np.median([row[3] for row in rows]))
        self.is_vacuous = all(row[4] for row in rows)

    def text(self, delta: float, n_cells: int) -> str:
        """Return the share of logs on which it failed, in %, and its distance from the truth."""
        text = f"{100 * self.n_failed / self.n_logs:.1f} / {self.distance:.2f}"
        return f"**{text}**" if self.is_broken(delta, n_cells) else text

    def is_broken(self, delta: float, n_cells: int) -> bool:
        """Whether it failed more often than delta allows, at the family's level."""
        trials = max(self.n_logs, self.n_claims)
        return self.n_failed > binom.ppf(1 - FAMILY / n_cells, trials, delta)


def run(
    n_logs: int, delta: float, seed: int, names: Sequence[str], resamples: bool
) -> dict[tuple[str, str], Cell]:
    """Run processes, in parts over the cores."""
    jobs = [(name, k) for name in names for k in range(0, n_logs, _PART)]
    found: dict[tuple[str, str], list[tuple]] = defaultdict(list)
    with ProcessPoolExecutor() as pool:
        futures = [
            (name, pool.submit(tally, name, seed, k, min(k + _PART, n_logs), delta, resamples))
            for name, k in jobs
        ]
        for place, (name, future) in enumerate(futures):
            for row in future.result():
                # A refusal is said exactly; what an approximate test accepts is approximate.
                found[name, row[0]].append(row)
            print(f"\r{place + 1} of {len(jobs)} parts", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)

    def trials(claim: str) -> int:
        return -(-n_logs // 4) if claim.endswith("by bca") and "HCPI" not in claim else n_logs

    return {key: Cell(rows, trials(key[1])) for key, rows in found.items()}


def table(cells: dict[tuple[str, str], Cell], delta: float, *, exact: bool) -> list[str]:
    """Return one line for each process, with a column for each claim."""
    shown = {key: cell for key, cell in cells.items() if cell.is_exact is exact}
    names = [name for name in ADVERSARIES if any(key[0] == name for key in shown)]
    claims = sorted({claim for _, claim in shown})
    heads = [_SHORT.get(claim, claim) for claim in claims]
    lines = ["| process | " + " | ".join(heads) + " |", "|---" * (len(claims) + 1) + "|"]
    for name in names:
        found = [shown.get((name, claim)) for claim in claims]
        texts = ["" if cell is None else cell.text(delta, len(cells)) for cell in found]
        lines.append(f"| {name} | " + " | ".join(texts) + " |")
    return lines


def processes() -> str:
    """Return what each process is about."""
    lines = ["| process | what it is about |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {one.title} |" for name, one in ADVERSARIES.items())])


def main() -> int:
    """Run, print, and tell by the exit code whether every exact claim holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=2_000)
    parser.add_argument("--delta", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--process", nargs="+", choices=list(ADVERSARIES), default=None)
    parser.add_argument("--no-resampling", action="store_true", help="no bootstrap intervals")
    asked = parser.parse_args()
    if asked.page is not None and (asked.process is not None or asked.no_resampling):
        parser.error("--page needs all processes and intervals: leave the other options out")
    names = asked.process or list(ADVERSARIES)
    cells = run(asked.logs, asked.delta, asked.seed, names, not asked.no_resampling)
    parts = [f"{asked.logs:,} logs a process, delta = {asked.delta:g}, seed {asked.seed}.", ""]
    parts += ["Exact claims:", "", *table(cells, asked.delta, exact=True), ""]
    parts += ["Approximate ones, too frequent failures in bold:", ""]
    parts += [*table(cells, asked.delta, exact=False), ""]
    text = "\n".join(parts)
    print(text)
    if asked.page is not None:
        blocks = {"processes": processes(), "table": text}
        page = fill_page(asked.page.read_text(encoding="utf-8"), blocks)
        asked.page.write_text(page, encoding="utf-8")
    exact = {key: cell for key, cell in cells.items() if cell.is_exact}
    broken = [key for key, cell in exact.items() if cell.is_broken(asked.delta, len(cells))]
    empty = [
        claim
        for claim in sorted({claim for _, claim in exact})
        if all(cell.is_vacuous for (_, name), cell in exact.items() if name == claim)
    ]
    for name, claim in broken:
        print(f"BROKEN: {claim} on {name}")
    for claim in empty if asked.process is None else ():
        print(f"VACUOUS in every cell: {claim}")
    return 1 if broken or (empty and asked.process is None) else 0


if __name__ == "__main__":
    sys.exit(main())
