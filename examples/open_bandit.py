"""Evaluate the policy of a shop from the log of random choices: Open Bandit, real clicks.

Six logs of 10,000 rows are inside the wheel of ``obp`` 0.4.1 (data: ZOZO, Inc., CC BY 4.0). It is
read as the archive it is, and neither installed nor imported:

    pip download obp==0.4.1 --no-deps
    python examples/open_bandit.py obp-0.4.1-py3-none-any.whl

The shop shows items in three positions. One log chose them at random; another by Thompson sampling
(BTS), whose item frequencies in each position are taken for its policy, and whose own click rate is
what the random log should foretell. ``--table FILE`` writes how often each item was shown and
clicked, which is all that is used, and what the tests keep.
"""

import argparse
import io
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

from spibb import Log, TabularPolicy, evaluate_policy

CAMPAIGNS = ("men", "women", "all")


def read_table(wheel):
    """Return rows and clicks of each item in each position, of all six logs, from the wheel."""
    tables = []
    with zipfile.ZipFile(wheel) as archive:
        for campaign in CAMPAIGNS:
            for policy in ("random", "bts"):
                name = f"obp/dataset/obd/{policy}/{campaign}/{campaign}.csv"
                log = pd.read_csv(io.BytesIO(archive.read(name)))
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
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--table", type=Path, help="where to write the counts")
    asked = parser.parse_args()
    table = read_table(asked.wheel)
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
