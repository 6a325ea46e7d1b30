"""How often ``spibb inspect`` finds something in sound logs.

``python benchmarks/inspect_calibration.py``

Notes of its tests may appear on 1 % of them, refusals on none. ``--logs`` logs of many shapes
(spibb.testing.clean_logs) from ``--seed`` on; the exit code is 1 where they appear more often than
that rate explains (binomial, 99 %).
"""

import argparse
import sys
import time
from collections import Counter

from scipy.stats import binom

from spibb import inspect
from spibb.inspection.registry import family_level
from spibb.testing.clean_logs import clean_log


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    by_test: Counter[str] = Counter()
    low: Counter[str] = Counter()
    run: Counter[str] = Counter()
    by_kind: Counter[str] = Counter()
    n_noted = n_refused = n_rows = 0
    began = time.perf_counter()
    for seed in range(asked.seed, asked.seed + asked.logs):
        kind, log, baseline = clean_log(seed)
        n_rows += len(log)
        found = inspect(log, baseline=baseline)
        noted = [one for one in found.findings if one.p_value is not None]
        n_noted += bool(noted)
        n_refused += found.is_refused
        by_kind[kind] += bool(noted)
        for one in noted:
            by_test[one.check] += 1
            print(f"  seed {seed} ({kind}, {len(log)} rows): {one.check}, p = {one.p_value:.2g}")
        for one in found.tests:
            run[one.check] += one.p_value is not None
            low[one.check] += one.p_value is not None and one.p_value <= 0.05
    allowed = int(binom.ppf(0.99, asked.logs, family_level()))
    print(f"{asked.logs} logs, {n_rows:,} rows, {time.perf_counter() - began:.0f} s")
    print(f"notes on {n_noted} logs (allowed {allowed}), refusals on {n_refused}")
    for name in run:
        print(f"  {name}: run on {run[name]}, p <= .05 on {low[name]}, noted {by_test[name]}")
    return int(n_noted > allowed or n_refused > 0)


if __name__ == "__main__":
    sys.exit(main())
