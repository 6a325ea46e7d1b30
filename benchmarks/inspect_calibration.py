"""How often ``spibb inspect`` finds something in sound logs, and what each check costs.

``python benchmarks/inspect_calibration.py`` (``--simulators`` for logs of processes)

Notes of its tests may appear on 1 % of them, refusals on none. ``--logs`` logs of many shapes
(spibb.testing.clean_logs) from ``--seed`` on; the exit code is 1 where they appear more often than
that rate explains (binomial, 99 %).

With ``--simulators`` the logs are those of processes with a sensible baseline, of 20 to 500
episodes, every third without steps and ends. The split, fixed before the rules were: checks of
mistakes were decided on maintenance, queue, gridworld and wet-chicken, seeds below 10. The
processes here are others, and seeds are from 1,000 on. Rules without a test are counted, too: each
of them may appear on 1 % of the logs. One is not held to that: ``assumed-ends`` is right to ask
where ends were left out.
"""

import argparse
import sys
import time
from collections import Counter

import numpy as np
from scipy.stats import binom

from spibb.data.log import Log
from spibb.inspection.check import run_check
from spibb.inspection.evidence import Evidence
from spibb.inspection.registry import family_level, ordered_checks
from spibb.mdp.policy import TabularPolicy
from spibb.studies.risk.problems import PROBLEMS
from spibb.testing.clean_logs import clean_log

PROCESSES = (
    "inventory", "cliff", "rare-best", "rare-ruinous", "corridors", "wards", "noisy-random-mdps",
    "random-mdps-0.2", "jackpots", "purchases", "frozen-lake", "maintenance-long",
)  # fmt: skip
# Rules without a test, which are to be silent on sound logs.
RULES = ("state-spelling", "action-spelling", "cost-column", "repeated-outcome", "row-order")
_BARE = ("state", "action", "reward", "episode")


def simulated_log(seed: int) -> tuple[str, Log, TabularPolicy]:
    """Return the name of a process, a log of it, and the baseline that made it."""
    rng = np.random.default_rng([77, seed])
    name = PROCESSES[seed % len(PROCESSES)]
    truth, baseline = made = PROBLEMS[name].make(rng)
    log = PROBLEMS[name].sample(made, int(rng.choice([20, 50, 100, 200, 500])), rng)
    if seed % 3:
        return name, log, baseline
    columns = {column: getattr(log, column) for column in _BARE}
    sizes = {"n_states": truth.n_states, "n_actions": truth.n_actions}
    return name, Log.from_arrays(**columns, **sizes), baseline


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--simulators", action="store_true")
    asked = parser.parse_args()
    by_finding: Counter[str] = Counter()
    low: Counter[str] = Counter()
    run: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    n_noted = n_refused = n_rows = 0
    first = asked.seed + 1_000 * asked.simulators
    for seed in range(first, first + asked.logs):
        kind, log, baseline = simulated_log(seed) if asked.simulators else clean_log(seed)
        n_rows += len(log)
        evidence, is_noted, is_refused = Evidence.of(log, baseline=baseline), False, False
        for check in ordered_checks():
            began = time.process_time()
            findings, tests = run_check(check, evidence)
            seconds[check.id] += time.process_time() - began
            for one in findings:
                by_finding[one.check] += 1
                is_noted |= one.p_value is not None
                is_refused |= one.severity == "refused"
                if one.p_value is not None or one.check in RULES:
                    told = "a rule" if one.p_value is None else f"p = {one.p_value:.2g}"
                    print(f"  seed {seed} ({kind}, {len(log)} rows): {one.check}, {told}")
            for test in tests:
                run[test.check] += test.p_value is not None
                low[test.check] += test.p_value is not None and test.p_value <= 0.05
        n_noted += is_noted
        n_refused += is_refused
    allowed = int(binom.ppf(0.99, asked.logs, family_level()))
    print(f"{asked.logs} logs, {n_rows:,} rows, {sum(seconds.values()):.0f} s")
    print(f"notes on {n_noted} logs (allowed {allowed}), refusals on {n_refused}")
    for name in run:
        print(f"  {name}: run on {run[name]}, p <= .05 on {low[name]}")
    print("findings: " + ", ".join(f"{name} {n}" for name, n in by_finding.most_common()))
    total = sum(seconds.values())
    print("time: " + ", ".join(f"{name} {s / total:.1%}" for name, s in seconds.most_common()))
    # Of all logs may one of a hundred be noted by a rule, and no more than chance makes of that.
    of_rules = max(by_finding[name] for name in RULES)
    return int(n_noted > allowed or n_refused > 0 or of_rules > allowed)


if __name__ == "__main__":
    sys.exit(main())
