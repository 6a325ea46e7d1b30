"""Evaluate the policy of a shop from the log of random choices: Open Bandit, real clicks.

Six logs of 10,000 rows are inside the package ``obp`` 0.4.1 (data: ZOZO, Inc., CC BY 4.0). They
are read where they lie; the package is not imported, and what it asks for need not be there:

    pip install --no-deps obp==0.4.1
    python examples/open_bandit.py

The shop shows items in three positions. One log chose them at random; another by Thompson sampling
(BTS), whose item frequencies in each position are taken for its policy, and whose own click rate is
what the random log should foretell. ``--table FILE`` writes how often each item was shown and
clicked, which is all that is used, and what the tests keep.
"""

import argparse
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from spibb import Log, TabularPolicy, evaluate_policy

CAMPAIGNS = ("men", "women", "all")


def read_table():
    """Return rows and clicks of each item in each position, of all six logs of the package."""
    package = find_spec("obp")
    if package is None or package.origin is None:
        raise SystemExit("Open Bandit needs the package obp: pip install --no-deps obp==0.4.1")
    folder, tables = Path(package.origin).parent / "dataset" / "obd", []
    for campaign in CAMPAIGNS:
        for policy in ("random", "bts"):
            log = pd.read_csv(folder / policy / campaign / f"{campaign}.csv")
            counted = log.groupby(["position", "item_id"])["click"].agg(["size", "sum"])
            tables.append(counted.reset_index().assign(campaign=campaign, policy=policy))
    table = pd.concat(tables).rename(columns={"item_id": "item", "size": "rows", "sum": "clicks"})
    return table[["campaign", "policy", "position", "item", "rows", "clicks"]]


def open_bandit(table, campaign):
    """Return the random log, its policy, the policy of BTS, and the click rate that BTS had."""
    part = table[table.campaign == campaign]
    random, bts = (part[part.policy == name] for name in ("random", "bts"))
    shape = (3, int(part["item"].max()) + 1)
    shown = np.zeros(shape)
    np.add.at(shown, (bts["position"] - 1, bts["item"]), bts["rows"])
    times = np.concatenate([random["clicks"], random["rows"] - random["clicks"]])
    log = Log.from_arrays(
        state=np.repeat(np.tile(random["position"] - 1, 2), times),
        action=np.repeat(np.tile(random["item"], 2), times),
        reward=np.repeat(np.repeat([1.0, 0.0], len(random)), times),
        n_states=shape[0],
        n_actions=shape[1],
    )
    policy = TabularPolicy(shown / shown.sum(axis=1, keepdims=True))
    return log, TabularPolicy.uniform(*shape), policy, bts["clicks"].sum() / bts["rows"].sum()


def main():
    """Print the intervals of each campaign."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", type=Path, help="where to write the counts")
    asked = parser.parse_args()
    table = read_table()
    if asked.table is not None:
        table.to_csv(asked.table, index=False)
    for campaign in CAMPAIGNS:
        log, random, policy, rate = open_bandit(table, campaign)
        print(f"{campaign}: BTS had {rate:.4f} clicks, random choice {log.reward.mean():.4f}")
        for bound in ("bca", "betting"):
            found = evaluate_policy(
                log, policy=policy, baseline=random, reward_range=(0, 1), bound=bound
            )
            for one in found.estimates:
                low, high = one.interval
                print(f"  {bound:8}{one.estimator:8}{one.estimate:.4f}  {low:.4f} to {high:.4f}")


if __name__ == "__main__":
    main()
