"""``--cost`` on the command line: read, kept, priced, audited, refused."""

import json

import pytest


@pytest.fixture
def dosed(ward):
    """The ward's log with what each day costs: the drug is dear, more so on its first day."""
    head, *rows = ward.text.splitlines()
    lines = [head + ",dose,days"]
    for row in rows:
        parts = row.split(",")
        dose = (2.0 if parts[1] == "0" else 1.5) if parts[3] == "drug" else 0.25
        lines.append(f"{row},{dose},1")
    ward.write("log.csv", "\n".join(lines) + "\n")
    return ward


def test_a_cost_is_kept_and_priced_and_audited(dosed, spibb):
    free = spibb(*dosed.improve("--algorithm", "exact-soft-spibb", "--epsilon", 2, out="free"))
    asked = ("--cost", "dose", "--cost", "days")
    ran = spibb(*dosed.improve("--algorithm", "exact-soft-spibb", "--epsilon", 2, *asked))
    assert (free.code, ran.code) == (0, 0), ran.err
    said = " ".join(ran.out.split())
    assert "no more dose, days than the baseline, in every state by the model (costs" in said
    summary = json.loads((dosed.folder / "out" / "summary.json").read_text("utf-8"))
    assert "cost" in json.dumps(summary["limits"])
    kept = spibb(*dosed.audit("out/policy.csv", *asked))
    risen = spibb(*dosed.audit("free/policy.csv", *asked))
    assert (kept.code, risen.code) == (0, 1)
    both = spibb(*dosed.improve("--compare", "basic-rl,approx-soft-spibb", *asked, out="table"))
    assert both.code == 0, both.err


@pytest.mark.parametrize(
    ("more", "fragments"),
    [
        (["--cost", "doze"], ["no column 'doze'", "for a cost", "--cost dose"]),
        (["--cost", "state"], ["'state'", "not a number"]),
        (["--cost", "dose", "--cost", "dose"], ["--cost dose is given twice"]),
        (["--cost", "dose", "--algorithm", "hcpi"], ["hcpi does not keep the limit cost"]),
    ],
)
def test_what_is_refused(dosed, refused, more, fragments):
    told = refused(*dosed.improve(*more))
    for fragment in fragments:
        assert fragment in told


def test_counts_know_no_costs(dosed, spibb, refused):
    assert spibb("count", "log.csv", "--out", "log.npz").code == 0
    assert "--cost dose with counts" in refused(*dosed.improve("--cost", "dose", log="log.npz"))
