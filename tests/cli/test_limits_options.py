"""Limits on the command line: kept, told, audited; and twenty that cannot be."""

import csv
import json
import sqlite3
from contextlib import closing

import pandas as pd
import pytest

from spibb import read_allowed


def table(path):
    with path.open(encoding="utf-8") as file:
        return {(row["state"], row["action"]): float(row["probability"])
                for row in csv.DictReader(file)}  # fmt: skip


@pytest.fixture
def policy(ward, spibb):
    """Improve under limits, and return the policy with the summary."""

    def run(*more, log=None):
        done = spibb(*ward.improve("--epsilon", "4", "--overwrite", *more, log=log))
        assert done.code == 0, done.err
        summary = json.loads((ward.folder / "out/summary.json").read_text("utf-8"))
        return table(ward.folder / "out/policy.csv"), summary, done.out

    return run


BEFORE = 0.4  # what the baseline gives the drug, in both states


def test_each_option_is_kept_and_priced(ward, policy):
    free, summary, _ = policy()
    assert summary["limits"] is None
    assert free["fever", "drug"] > 0.6
    assert policy("--forbid", "drug")[0]["fever", "drug"] == 0.0
    assert policy("--no-increase", "drug")[0]["fever", "drug"] <= BEFORE
    assert policy("--cap", "drug=0.5")[0]["fever", "drug"] <= 0.5
    capped = policy("--cap-increase", "drug=0.05", "--cap-increase", "rest=0.1")
    assert capped[0]["fever", "drug"] == pytest.approx(BEFORE + 0.05)
    assert set(capped[1]["limits"]) == {"cap_increase"}
    assert capped[1]["limits"]["cap_increase"]["cost"] > 0.0
    assert "drug at most 0.05 above the baseline" in " ".join(capped[2].split())
    lock = ward.write("lock.csv", "state\nfever\n")
    assert policy("--lock", lock)[0]["fever", "drug"] == BEFORE
    pairs = ward.write("pairs.csv", "state,action\nfever,rest\ncalm,rest\ncalm,drug\n")
    masked = policy("--allowed", pairs)[0]
    assert masked["fever", "drug"] <= BEFORE
    assert masked["calm", "drug"] > BEFORE
    flags = ward.write("flags.csv", "state,action,allowed\nfever,drug,0\n")
    assert policy("--allowed", flags)[0] == masked
    head, *rows = ward.text.splitlines()
    state = head.split(",").index("state")
    may = {"fever": "rest", "calm": " rest| drug"}
    log = ward.write("may.csv", "\n".join(
        [f"{head},may", *(f"{row},{may[row.split(',')[state]]}" for row in rows)]
    ) + "\n")  # fmt: skip
    assert policy("--allowed-column", "may", log=log)[0] == masked
    assert policy("--min-gain", "1000")[0]["fever", "drug"] == BEFORE
    one = policy("--max-states", "1")[0]
    assert sum(one[state, "drug"] != BEFORE for state in ("fever", "calm")) == 1
    page = (ward.folder / "out/report.html").read_text("utf-8")
    assert "What it may do" in page
    assert "chosen by a heuristic" in page


def test_an_audit_holds_a_policy_to_limits(ward, spibb, policy):
    policy("--cap-increase", "drug=0.05")
    made = ward.folder / "out/policy.csv"
    kept = spibb(*ward.audit(made, "--cap-increase", "drug=0.05"))
    assert kept.code == 0
    assert "keeps to its limits" in kept.out
    for broken in (("--no-increase", "drug"), ("--max-states", "1"), ("--min-gain", "9")):
        assert spibb(*ward.audit(made, *broken)).code == 1


def test_limits_go_with_a_comparison(ward, spibb):
    asked = ("--compare", "exact-soft-spibb,basic-rl", "--forbid", "drug")
    assert spibb(*ward.improve(*asked)).code == 0
    for name in ("exact-soft-spibb", "basic-rl"):
        assert table(ward.folder / "out" / name / "policy.csv")["fever", "drug"] == 0.0


FILES = {
    "none.csv": "state,action,allowed\nfever,drug,0\nfever,rest,0\n",
    "some.csv": "state,action\ncalm,rest\n",
    "twice.csv": "state,action\ncalm,rest\ncalm,rest\n",
    "maybe.csv": "state,action,allowed\ncalm,rest,0.5\n",
    "unknown.csv": "state,action\nfever,surgery\n",
    "lock-twice.csv": "state\nfever\nfever\n",
    "lock-unknown.csv": "state\nlost\n",
    "no-state.csv": "ward\nfever\n",
}


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (["--forbid", "surgery"], ["forbid names the action 'surgery'"]),
        (["--forbid", "drug", "--forbid", "drug"], ["--forbid drug is given twice"]),
        (["--forbid", "drug", "--forbid", "rest"], ["forbidden actions alone", "state "]),
        (["--forbid", "drug", "--no-increase", "rest"], ["may not rise that far (no_increase)"]),
        (["--forbid", "drug", "--lock", "lock.csv"], ["may not rise that far (lock)", "fever"]),
        (["--forbid", "drug", "--max-states", "1"], ["forbid changes 2 states"]),
        (["--no-increase", "drgu"], ["no_increase names the action 'drgu'", "'drug'"]),
        (["--allowed", "none.csv"], ["no action in 1 state", "state fever", "lock"]),
        (["--allowed", "some.csv"], ["no action in 1 state", "state fever"]),
        (["--allowed", "twice.csv"], ["has calm, rest twice"]),
        (["--allowed", "maybe.csv"], ["allowed is 0.5", "row 1", "0 or 1"]),
        (["--allowed", "unknown.csv"], ["allowed names the action 'surgery'"]),
        (["--allowed", "absent.csv"], ["absent.csv"]),
        (["--allowed-column", "may"], ["there is no column 'may'", "of what is allowed"]),
        (["--allowed-column", "episode"], ["allows", "and", "in one state", "state "]),
        (["--allowed-column", "a", "--allowed", "some.csv"], ["--allowed and --allowed-column"]),
        (["--lock", "lock-twice.csv"], ["has the state 'fever' twice"]),
        (["--lock", "lock-unknown.csv"], ["lock names the state 'lost'"]),
        (["--lock", "no-state.csv"], ["state"]),
        (["--cap", "drug=0.3"], ["cap of drug is 0.3", "the baseline's 0.4", "state "]),
        (["--cap", "drug"], ["--cap holds 'drug'", "as drug-b=0.1"]),
        (["--cap", "drug=much"], ["--cap holds 'drug=much'"]),
        (["--cap", "drug=1.5"], ["cap of drug is 1.5"]),
        (["--cap", "drug=0.5", "--cap", "drug=0.6"], ["'drug=0.6'", "each action once"]),
        (["--cap-increase", "drug=-1"], ["cap_increase of drug is -1"]),
        (["--max-states", "-1"], ["max_states is -1"]),
        (["--max-states", "1", "--max-states", "2"], ["--max-states is given twice"]),
        (["--gamma", "0.5", "--gamma", "0.6"], ["--gamma is given twice"]),
        (["--min-gain", "-1"], ["min_gain is -1"]),
        (["--min-gain", "nan"], ["min_gain is nan"]),
        (["--algorithm", "hcpi", "--forbid", "drug"], ["hcpi does not keep the limit forbid"]),
        (["--algorithm", "ramdp", "--min-gain", "1"], ["ramdp does not keep the limit min_gain"]),
        (["--guarantee", "1", "--forbid", "drug"], ["without limits"]),
    ],
    ids=" ".join,
)  # fmt: skip
def test_limits_that_cannot_be_kept(ward, spibb, options, fragments):
    for name, text in {**FILES, "lock.csv": "state\nfever\n"}.items():
        ward.write(name, text)
    done = spibb(*ward.improve(*options))
    assert done.code == 2
    for fragment in fragments:
        assert fragment in done.err
    assert "Traceback" not in done.err
    assert not (ward.folder / "out").exists()


def test_a_mask_in_a_table_or_a_database(tmp_path):
    may = {"fever": "rest", "calm": "drug|rest", "lost": None}
    frame = pd.DataFrame({"ward": list(may) * 2, "may": list(may.values()) * 2})
    rows = [("calm", "drug"), ("calm", "rest"), ("fever", "rest")]
    renamed = {"state": "ward"}
    assert sorted(read_allowed(frame, "may", renamed)) == rows
    with closing(sqlite3.connect(tmp_path / "shop.db")) as base:
        frame.to_sql("log", base)
    query = "SELECT ward, may FROM log"
    assert sorted(read_allowed(tmp_path / "shop.db", "may", renamed, query=query)) == rows
