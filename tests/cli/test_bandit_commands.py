"""Every command takes a log whose rows lead nowhere, and says so."""

import json

import numpy as np
import pytest


@pytest.fixture
def shop(ward):
    rng = np.random.default_rng(7)
    rows = ["state,action,reward"]
    for _ in range(2_000):
        state = "phone" if rng.random() < 0.7 else "desktop"
        action = "sport" if rng.random() < 0.3 else "news"
        rate = 0.3 if (state, action) == ("phone", "sport") else 0.1
        rows.append(f"{state},{action},{int(rng.random() < rate)}")
    ward.write("clicks.csv", "\n".join(rows) + "\n")
    shares = {"sport": 0.3, "news": 0.7}
    rule = [f"{x},{a},{p}" for x in ("phone", "desktop") for a, p in shares.items()]
    ward.write("shop.csv", "\n".join(["state,action,probability", *rule]) + "\n")
    return ward


def test_commands_need_no_discount(shop, spibb):
    asked = ("--baseline", "shop.csv")
    ran = spibb("improve", "clicks.csv", *asked, "--out", "new")
    assert ran.code == 0, ran.err
    said = " ".join(ran.out.split())
    assert "A one-step log: each row is a decision of its own, as no column says" in said
    assert "(a one-step log)" in (shop.folder / "new" / "report.html").read_text("utf-8")
    policy = ("--policy", "new/policy.csv")
    audited = spibb("audit", "clicks.csv", *asked, *policy)
    assert audited.code == 0
    assert "Theorem 1 (Soft-SPIBB): with probability at least 0.95" in " ".join(audited.out.split())
    judged = spibb("evaluate", "clicks.csv", *asked, *policy, "--format", "json")
    assert json.loads(judged.out)["gamma"] == 0.0
    assert "each a decision of its own" in " ".join(
        spibb("inspect", "clicks.csv", *asked).out.split()
    )
    counted = spibb("count", "clicks.csv", "--out", "clicks.npz")
    assert "each row a decision of its own" in " ".join(counted.out.split())
    again = spibb("improve", "clicks.npz", *asked, "--out", "again")
    assert again.code == 0
    table = (shop.folder / "new" / "policy.csv").read_bytes()
    assert (shop.folder / "again" / "policy.csv").read_bytes() == table


@pytest.mark.parametrize("command", [("improve", "--out", "o"), ("audit", "--policy", "shop.csv")])
def test_what_is_not_clear_is_refused(shop, refused, command):
    name, *more = command
    asked = ["--baseline", "shop.csv", *more]
    told = refused(name, "clicks.csv", *asked, "--gamma", "0.9")
    assert "no column of the log says what follows a row" in told
    assert "--columns episode=COLUMN" in told
    shop.write("steps.csv", "state,action,reward,step\nphone,news,0,0\nphone,sport,1,1\n")
    told = refused(name, "steps.csv", *asked)
    assert "neither a column 'episode' nor 'next_state'" in told
    assert "leave out step" in told
    assert "gamma is not given" in refused(name, "log.csv", "--baseline", "baseline.csv", *more)
