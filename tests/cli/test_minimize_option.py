"""``--minimize`` on the command line, and the first lines of every result."""

import csv
import io
import json

import pytest

FIRST = "Higher rewards are better."
COSTS = "Lower costs are better (minimize)."
TURNED = "a cost with its sign turned"


@pytest.fixture
def charged(ward):
    """The ward's log with costs in the place of rewards; the rewards' own log is rewards.csv."""
    head, *rows = ward.text.splitlines()
    parts = [row.split(",") for row in rows]
    turned = [",".join([*row[:4], str(-float(row[4])), *row[5:]]) for row in parts]
    ward.write("rewards.csv", ward.text)
    ward.write("log.csv", "\n".join([head, *turned]) + "\n")
    return ward


def lines(ran):
    return " ".join(ran.out.split())


def without(facts, *names):
    """Return nested facts without some keys, wherever they stand."""
    if isinstance(facts, dict):
        return {k: without(v, *names) for k, v in facts.items() if k not in names}
    return [without(v, *names) for v in facts] if isinstance(facts, list) else facts


def test_every_result_begins_with_what_is_better(charged, spibb):
    folder = charged.folder
    made = spibb(*charged.improve("--minimize"))
    commands = {
        "improve": charged.improve("--minimize", out="again"),
        "compare": charged.improve("--minimize", "--compare", "basic-rl,pi-b-spibb", out="table"),
        "audit": charged.audit(folder / "out/policy.parquet", "--minimize"),
        "evaluate": ["evaluate", charged.log, "--policy", charged.baseline, "--gamma", 0.9,
                     "--baseline", charged.baseline, "--minimize", "--out", folder / "judged"],
        "inspect": ["inspect", charged.log, "--minimize"],
    }  # fmt: skip
    for name, command in commands.items():
        ran = spibb(*command)
        assert ran.code == 0, ran
        assert lines(ran).startswith(f"{COSTS} What is called reward, return, "), name
        assert f"{TURNED}: -3 is a cost of 3. A gain is cost saved." in lines(ran), name
        assert "A good episode (90 % quantile): " in ran.out, name
        assert "A bad episode (10 % quantile): " in ran.out, name
        assert max(map(len, ran.out.splitlines()[:8])) <= 80
        writes = () if name in ("audit", "inspect") else ("--overwrite",)
        facts = json.loads(spibb(*command, *writes, "--format", "json").out)["objective"]
        assert facts["direction"] == "minimize", name
        assert facts["good_episode"]["total"] > facts["bad_episode"]["total"]
    for page in ("out", "table", "table/basic-rl", "judged"):
        text = (folder / page / "report.html").read_text("utf-8")
        begun = text[text.index('<main id="main">') :]
        assert COSTS in begun[:200], page
        assert "A good episode" in begun[:600], page
    for name in ("out/summary.json", "out/certificate.json", "judged/evaluation.json",
                 "table/comparison.json"):  # fmt: skip
        facts = json.loads((folder / name).read_text("utf-8"))
        assert facts["objective"]["direction"] == "minimize", name
    assert "(a cost of " in lines(made)
    assert "costs turned" in (folder / "out/report.html").read_text("utf-8")
    said = lines(spibb(*commands["evaluate"], "--overwrite"))
    assert "does not decide whether the cost is lower than the" in said


def test_rewards_begin_with_it_too(ward, spibb):
    ran = spibb("inspect", ward.log)
    assert ran.out.startswith(FIRST)
    assert "then the process ends." in lines(ran)
    assert json.loads(spibb("inspect", ward.log, "--format", "json").out)["objective"][
        "direction"
    ] == "maximize"  # fmt: skip
    assert spibb(*ward.improve()).out.startswith(FIRST)
    assert FIRST in (ward.folder / "out/report.html").read_text("utf-8")
    assert TURNED not in (ward.folder / "out/report.html").read_text("utf-8")


def test_costs_make_the_result_of_the_turned_rewards(charged, spibb):
    """All figures are those of rewards that are the costs with their sign turned."""
    options = ("--reward-range", -1.5, 5)
    assert spibb(*charged.improve("--minimize", *options)).code == 0
    assert spibb(*charged.improve(*options, log="rewards.csv", out="by-hand")).code == 0
    told = [
        json.loads((charged.folder / name / "summary.json").read_text("utf-8"))
        for name in ("out", "by-hand")
    ]
    own = "objective", "command", "hashes", "answers", "log_return"
    assert without(told[0], *own) == without(told[1], *own)
    assert told[0]["log_return"] == told[1]["log_return"]
    assert [one["figure"] for one in told[0]["answers"]] == [
        one["figure"] for one in told[1]["answers"]
    ]
    tables = [(charged.folder / name / "policy.csv").read_bytes() for name in ("out", "by-hand")]
    assert tables[0] == tables[1]
    rows = [
        list(csv.reader(io.StringIO(spibb(*charged.audit(*more, "--format", "csv")).out)))
        for more in (("out/policy.parquet", "--minimize"), ("out/policy.csv", "--minimize"))
    ]
    assert rows[0] == rows[1]


def test_the_wrong_direction_is_refused(charged, spibb, refused):
    spibb(*charged.improve("--minimize"))
    spibb(*charged.improve(log="rewards.csv", out="plain"))
    judged = ["--baseline", charged.baseline, "--gamma", 0.9]
    for command in ("audit", "evaluate"):
        told = refused(command, "rewards.csv", "--policy", "out/policy.parquet", *judged)
        assert "made with --minimize, and this log is read without it" in told
        assert "policy.csv" in told
        told = refused(
            command, "log.csv", "--policy", "plain/policy.parquet", *judged, "--minimize"
        )
        assert "made without --minimize, and this log is read with it" in told
        assert spibb(command, "rewards.csv", "--policy", "out/policy.csv", *judged).code == 0


@pytest.mark.parametrize(
    ("given", "fragments"),
    [
        (("--reward-range", -5, 1.5), ["rewards from -1.5 to 5, which are costs from -5 to 1.5",
                                       "(-1.5, 5.0)"]),
        (("--reward-range", -1, 1), ["widen reward_range"]),
        (("--reward-range", -5, 6), ["with either sign", "(-6.0, 6.0)"]),
    ],
)  # fmt: skip
def test_a_range_of_costs_is_refused(charged, refused, given, fragments):
    told = refused(*charged.improve("--minimize", *given))
    for fragment in fragments:
        assert fragment in told


def test_inspect_says_so_of_the_range(charged, spibb):
    ran = spibb("inspect", charged.log, "--minimize", "--reward-range", -5, 1.5)
    assert ran.code == 1
    assert "Turn the range, too" in lines(ran)
    without_it = spibb("inspect", charged.log, "--reward-range", -1.5, 5)
    assert without_it.code == 1
    assert "read the log with --minimize" in lines(without_it)
    either = spibb("inspect", charged.log, "--minimize", "--reward-range", -5, 6)
    assert either.code == 2
    assert "either sign" in either.err


def test_counts_of_costs(charged, spibb, refused):
    assert spibb("count", "log.csv", "--minimize", "--out", "costs.npz").code == 0
    assert spibb("count", "log.csv", "--out", "plain.npz").code == 0
    for more in ((), ("--minimize",)):  # they remember it
        ran = spibb(*charged.improve(*more, "--overwrite", log="costs.npz"))
        assert ran.out.startswith(COSTS[:20]), ran
        assert "counts keep no episodes" in lines(ran)
    told = refused(*charged.improve("--minimize", log="plain.npz", out="other"))
    assert "counts made without it" in told
    assert "spibb count --minimize" in told
    told = refused("count", "log.csv", "--add-to", "costs.npz", "--out", "sum.npz")
    assert "counts of costs and counts of rewards" in told
    told = refused("count", "plain.npz", "--minimize", "--out", "sum.npz")
    assert "counts made without it" in told
