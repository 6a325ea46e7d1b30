"""--compare, --guarantee, --set and the list of algorithms."""

import csv
import io
import json

import numpy as np
import pytest

from spibb.algorithms.registry import ALGORITHMS

DEMO = ["--gamma", "0.95", "--reward-range", "-10", "10"]


@pytest.fixture
def demo():
    from importlib import resources

    folder = resources.files("spibb.cli") / "demo"
    return [str(folder / "log.csv"), "--baseline", str(folder / "baseline.csv"), *DEMO]


def test_compare_writes_a_table_and_every_result(spibb, demo, tmp_path):
    done = spibb("improve", *demo, "--compare", "approx-soft-spibb,pi-b-spibb,basic-rl",
                 "--epsilon", "0.25", "--out", tmp_path / "out")  # fmt: skip
    assert done.code == 0
    found = json.loads((tmp_path / "out" / "comparison.json").read_text())["results"]
    names = ["approx-soft-spibb", "pi-b-spibb", "basic-rl"]
    assert [row["algorithm"] for row in found] == ["baseline", *names]
    for name in names:
        assert (tmp_path / "out" / name / "report.html").exists()
    gains = {row["algorithm"]: row["estimated_gain"] for row in found}
    assert gains["basic-rl"] > gains["approx-soft-spibb"] > 0
    # Judged by rows that did not train it, the greedy policy no longer looks its promise.
    by_name = {row["algorithm"]: row for row in found}
    promised = gains["basic-rl"] + by_name["baseline"]["off_policy"]
    assert by_name["basic-rl"]["off_policy_high"] < promised
    assert "guaranteed" in done.out
    settings = json.loads((tmp_path / "out" / "comparison.json").read_text())["settings"]
    assert settings[0]["algorithm"]["epsilon"] == 0.25


def test_compare_takes_settings_of_each(spibb, demo, tmp_path):
    asked = "approx-soft-spibb(epsilon=0.25,delta=0.1),approx-soft-spibb, pi-b-spibb(n_wedge=7)"
    done = spibb("improve", *demo, "--compare", asked, "--epsilon", "2", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    facts = json.loads((tmp_path / "out" / "comparison.json").read_text())
    made = [result["algorithm"] for result in facts["settings"]]
    assert [one.get("epsilon") or one.get("n_wedge") for one in made] == [0.25, 2.0, 7]
    names = [row["algorithm"] for row in facts["results"]]
    assert names == ["baseline", "approx-soft-spibb", "approx-soft-spibb-2", "pi-b-spibb"]
    again = spibb("improve", *demo, "--compare", asked, "--out", tmp_path / "out", "--overwrite")
    assert again.code == 0, again.err


def test_compare_warns_as_evaluate_does(spibb, tmp_path):
    """Thirty episodes of a baseline that hardly tries the other action, one of them truncated."""
    rng = np.random.default_rng(0)
    rows = []
    for episode in range(30):
        for step in range(4):
            action = int(rng.random() < 0.02)
            ends = step == 3 and episode > 0
            rows.append(f"{episode},{step},0,{action},{action},{ends}")
    (tmp_path / "log.csv").write_text(
        "\n".join(["episode,step,state,action,reward,terminated", *rows])
    )
    (tmp_path / "rule.csv").write_text("state,action,probability\n0,0,0.98\n0,1,0.02\n")
    known = [tmp_path / "log.csv", "--baseline", tmp_path / "rule.csv", "--gamma", "0.9"]
    done = spibb("improve", *known, "--compare", "basic-rl", "--out", tmp_path / "out")
    assert done.code == 0
    written = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert written["version"] == 3
    greedy = next(row for row in written["results"] if row["algorithm"] == "basic-rl")
    policy = tmp_path / "out/basic-rl/policy.csv"
    asked = ("--policy", policy, "--format", "json")
    evaluated = json.loads(spibb("evaluate", *known, *asked).out)
    doubly = next(one for one in evaluated["estimates"] if one["estimator"] == "dr")
    for part in ("rests on few episodes", "nearly deterministic"):
        told = [*evaluated["warnings"], *doubly["warnings"]]
        assert any(part in text for text in told), (part, told)
        assert any(part in text for text in greedy["warnings"]), part
    assert greedy["ess"] < 30
    for text in greedy["warnings"]:
        assert text[:40] in " ".join(done.out.split())


@pytest.mark.parametrize("printed", ["json", "csv"])
def test_compare_prints_for_programs(spibb, demo, tmp_path, printed):
    done = spibb("improve", *demo, "--compare", "basic-rl,pi-b-spibb", "--format", printed,
                 "--out", tmp_path / "out")  # fmt: skip
    assert done.code == 0
    if printed == "json":
        assert len(json.loads(done.out)["results"]) == 3
    else:
        assert len(done.out.splitlines()) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--compare", "basic-rl,basic-rl"], "different algorithms"),
        (["--compare", ""], "expected algorithms, as approx-soft-spibb(epsilon=0.1)"),
        (["--compare", "pi-b-spibb(n_wedge=5"], "expected algorithms, as approx-soft-spibb"),
        (["--compare", "pi-b-spibb(kappa=5)"], "no setting --set kappa=... in pi-b-spibb"),
        (["--compare", "basic-rl", "--epsilon", "1"], "no setting --epsilon in basic-rl"),
        (["--compare", "basic-rl,pi-b-spib"], "pi-b-spibb"),
        (["--compare", "basic-rl", "--algorithm", "ramdp"], "--compare goes without"),
        (["--guarantee", "1", "--n-wedge", "3"], "--guarantee chooses n_wedge"),
        (["--guarantee", "1", "--algorithm", "ramdp"], "--guarantee chooses n_wedge"),
        (["--guarantee", "-1"], "zeta is -1"),
        (["--guarantee", "1", "--certificate-delta", "0"], "delta is 0.0; expected a probability"),
        (["--set", "kappa"], "NAME=VALUE"),
        (
            ["--set", "epsilon=1", "--epsilon", "2"],
            "--set holds 'epsilon=1'",
        ),
        (["--compare", "basic-rl,ramdp", "--set", "xi=1"], "--set xi=... in basic-rl, ramdp"),
        (["--algorithm", "ramdp", "--set", "kapa=1"], "--set kappa="),
        (["--algorithm", "ramdp", "--set", "kappa=-1"], "kappa is -1"),
        (["--algorithm", "ramdp", "--set", "kappa=much"], "kappa"),
        (["--algorithm", "ramdp", "--set", "kappa=1,2"], "kappa is (1, 2)"),
        (["--set", "delta=much"], "delta is 'much'"),
        (["--set", "error=1"], "no error function is called '1'"),
        (["--algorithm", "hcpi", "--set", "mixtures=0.5,2"], "mixtures is (0.5, 2)"),
    ],
)
def test_bad_options_are_refused(spibb, demo, tmp_path, options, message):
    done = spibb("improve", *demo, *options, "--out", tmp_path / "out")
    assert done.code == 2
    assert message in " ".join(done.err.split())
    assert not (tmp_path / "out").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_guarantee_that_this_log_cannot_give(spibb, demo, tmp_path):
    done = spibb("improve", *demo, "--guarantee", "5", "--out", tmp_path / "out")
    assert done.code == 0
    said = " ".join(done.out.split())
    assert "No change of the baseline is certified to lose at most 5 on this log" in said
    assert "it would take about" in said
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["n_states_changed"] == 0
    assert summary["algorithm"]["n_wedge"] == "inf"
    assert summary["bound"] == 0.0


def test_a_guarantee_that_is_no_guarantee(spibb, demo, tmp_path):
    done = spibb("improve", *demo, "--guarantee", "1000", "--out", tmp_path / "out")
    assert done.code == 0
    assert "No policy can lose 1000 anyway: ask for less" in " ".join(done.out.split())


def test_a_guarantee_that_is_kept(spibb, tmp_path):
    """Two arms, one clearly better: a thousand pulls are enough, and the bound says so."""
    rng = np.random.default_rng(0)
    rows = [f"{k},0,{a},{int(rng.random() < (0.2, 0.8)[a])}" for k, a in
            enumerate(rng.integers(0, 2, 1_000))]  # fmt: skip
    (tmp_path / "log.csv").write_text("\n".join(["episode,state,action,reward", *rows]))
    (tmp_path / "rule.csv").write_text("state,action,probability\n0,0,0.5\n0,1,0.5\n")
    done = spibb(
        "improve", tmp_path / "log.csv", "--baseline", tmp_path / "rule.csv", "--gamma", "0",
        "--guarantee", "0.01", "--reward-range", "0", "1", "--out", tmp_path / "out",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    assert "a loss of at most 0 is certified" in " ".join(done.out.split())
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["n_states_changed"] == 1
    assert 0.0 < summary["bound"] < 0.3


def test_a_promise_needs_a_log_on_which_one_can_be_made(spibb, demo, tmp_path):
    done = spibb("improve", *demo[:1], "--baseline", "estimate", "--gamma", "0.95", "--guarantee",
                 "1", "--out", tmp_path / "out")  # fmt: skip
    assert done.code == 2
    assert "nothing can be promised on this log: the baseline is estimated" in done.err
    assert not (tmp_path / "out").exists()


def test_other_settings(spibb, demo, tmp_path):
    done = spibb("improve", *demo, "--algorithm", "duipi", "--set", "xi=2", "--set", "prior=0.1",
                 "--out", tmp_path / "out")  # fmt: skip
    assert done.code == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["algorithm"] == {
        "algorithm": "duipi", "xi": 2, "prior": 0.1, "max_iterations": 300,
    }  # fmt: skip


def test_hcpi_takes_candidates(spibb, demo, tmp_path):
    done = spibb("improve", *demo, "--algorithm", "hcpi", "--out", tmp_path / "out", "--set",
                 "candidates=approx-soft-spibb(epsilon=0.1, delta=1), pi-b-spibb")  # fmt: skip
    assert done.code == 0
    config = json.loads((tmp_path / "out" / "summary.json").read_text())["algorithm"]
    first, second = config["candidates"]
    assert (first["epsilon"], first["delta"]) == (0.1, 1)
    assert second["algorithm"] == "pi-b-spibb"


@pytest.mark.parametrize(
    ("setting", "name", "value"),
    [
        ("mixtures=0,0.5", "mixtures", [0.0, 0.5]),
        ("mixtures= 0.25 , 1e-1", "mixtures", [0.25, 0.1]),
        ("mixtures=0.5", "mixtures", [0.5]),
        ("return_range=-20,20", "return_range", [-20.0, 20.0]),
    ],
)
def test_lists_of_numbers(spibb, demo, tmp_path, setting, name, value):
    done = spibb("improve", *demo, "--algorithm", "hcpi", "--set", setting,
                 "--out", tmp_path / "out")  # fmt: skip
    assert (done.code, done.err) == (0, "")
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["algorithm"][name] == value


def test_hcpi_says_what_it_refused_and_assumes_nothing_then(spibb, demo, tmp_path):
    done = spibb("improve", *demo, "--algorithm", "hcpi", "--out", tmp_path / "out",
                 "--set", "candidates=approx-soft-spibb(epsilon=0.1)")  # fmt: skip
    said = " ".join(done.out.split())
    assert (
        "approx-soft-spibb (epsilon 0.1, delta 0.05, error hoeffding-q) was chosen among 1 "
        "candidates and refused"
    ) in said
    assert "Assumed" not in said
    assert "Regret test" in said
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "candidates = approx-soft-spibb (epsilon 0.1, delta 0.05, error hoeffding-q)" in page
    assert "Assumed" not in page


@pytest.mark.parametrize("text", ["[]", "approx-soft-spibb(", "a b", ""])
def test_candidates_that_are_none(spibb, demo, tmp_path, text):
    done = spibb("improve", *demo, "--algorithm", "hcpi", "--out", tmp_path / "out", "--set",
                 f"candidates={text}")  # fmt: skip
    assert done.code == 2
    assert "candidates" in done.err


def test_algorithms_are_listed(spibb):
    listed = spibb("algorithms").out
    for name in ("hcpi", "approx-soft-spibb", "robust-baseline-regret"):
        assert name in listed
    assert "epsilon=0.5; delta=0.05; error=hoeffding-q; max_iterations\n" in listed
    # Other tests may have brought algorithms of their own.
    assert set(ALGORITHMS) <= set(json.loads(spibb("algorithms", "--format", "json").out))


def test_algorithms_are_listed_as_csv(spibb):
    rows = list(csv.DictReader(io.StringIO(spibb("algorithms", "--format", "csv").out)))
    by_id = {row["id"]: row for row in rows}
    assert list(ALGORITHMS) == list(by_id)[: len(ALGORITHMS)]
    assert by_id["pi-b-spibb"] == {
        "id": "pi-b-spibb",
        "description": "Copy the baseline on rare pairs, optimise on the others.",
        "settings": "n_wedge=10; delta=0.05",
    }
    assert by_id["basic-rl"]["settings"] == ""
