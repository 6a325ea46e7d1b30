"""``spibb audit``: what it agrees with, what it refuses to pass."""

import csv
import io
import json

import pytest

from spibb.mdp.policy import TabularPolicy

ALWAYS_DRUG = "state,action,probability\nfever,drug,1\ncalm,drug,1\n"


def audited(ran):
    return json.loads(ran.out)


def check(certificate, name):
    return next(part for part in certificate["checks"] if part["name"] == name)


@pytest.mark.parametrize("name", ["policy.csv", "policy.parquet"])
def test_it_agrees_with_the_certificate_of_the_result(ward, spibb, name):
    settings = ("--epsilon", "0.3", "--reward-range", "-2", "6", "--delta", "0.1")
    spibb(*ward.improve(*settings, "--certificate-delta", "0.1"))
    out = ward.folder / "out"
    issued = json.loads((out / "certificate.json").read_text("utf-8"))
    ran = spibb(*ward.audit(out / name, *settings, "--format", "json"))
    assert (ran.code, ran.err) == (0, "")
    found = audited(ran)
    assert found["statement"] == issued["statement"]
    assert found["bound"] == pytest.approx(issued["bound"], rel=1e-9)
    for one, other in zip(found["checks"], issued["checks"], strict=True):
        assert one["name"] == other["name"]
        assert one["is_satisfied"] == other["is_satisfied"]
        assert one["value"] == pytest.approx(other["value"], abs=1e-9)
    assert 0 < check(found, "constraint")["value"] <= 0.3 * (1 + 1e-9)


def test_the_baseline_itself_spends_nothing(ward, spibb):
    ran = spibb(
        *ward.audit(ward.baseline, "--epsilon", "0", "--n-wedge", "inf", "--format", "json")
    )
    assert ran.code == 0
    assert check(audited(ran), "constraint")["value"] == 0
    assert check(audited(ran), "improvement")["value"] == 0


def test_a_budget_that_is_not_kept_is_exit_code_1(ward, spibb):
    policy = ward.write("policy.csv", ALWAYS_DRUG)
    ran = spibb(*ward.audit(policy, "--epsilon", "0.05"))
    assert ran.code == 1
    assert ran.err == ""
    assert "<= epsilon: fails, found " in " ".join(ran.out.split())
    ran = spibb(*ward.audit(policy, "--epsilon", "0.05", "--format", "json"))
    failed = check(audited(ran), "constraint")
    assert (ran.code, failed["is_satisfied"], failed["limit"]) == (1, False, 0.05)
    assert failed["n_violations"] == 2
    assert failed["where"] == "state calm"


def test_without_a_budget_it_only_measures(ward, spibb):
    policy = ward.write("policy.csv", ALWAYS_DRUG)
    assert spibb(*ward.audit(policy)).code == 0
    assert spibb(*ward.audit(policy, "--epsilon", "1000")).code == 0


def test_a_threshold_that_is_not_kept_is_exit_code_1(ward, spibb):
    policy = ward.write("policy.csv", ALWAYS_DRUG)
    assert spibb(*ward.audit(policy, "--n-wedge", "1")).code == 0
    assert spibb(*ward.audit(policy, "--n-wedge", "100000")).code == 1


def test_both_must_be_kept(ward, spibb):
    policy = ward.write("policy.csv", ALWAYS_DRUG)
    assert spibb(*ward.audit(policy, "--n-wedge", "1", "--epsilon", "0.05")).code == 1
    assert spibb(*ward.audit(policy, "--n-wedge", "1", "--epsilon", "1000")).code == 0


def test_the_table_names_the_first_state_and_fits_eighty_columns(ward, spibb, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    ran = spibb(*ward.audit(ward.write("policy.csv", ALWAYS_DRUG), "--epsilon", "0.05"))
    assert max(map(len, ran.out.splitlines())) <= 80
    assert "Where it differs: 2 states, most rows moved first\n" in ran.out
    assert "rest -60%" in ran.out
    assert "drug +60%" in ran.out
    assert "calm" in ran.out


def test_csv_lists_the_changes(ward, spibb):
    ran = spibb(*ward.audit(ward.write("policy.csv", ALWAYS_DRUG), "--format", "csv"))
    rows = {row["state"]: row for row in csv.DictReader(io.StringIO(ran.out))}
    assert set(rows) == {"fever", "calm"}
    assert float(rows["fever"]["moved"]) == pytest.approx(0.6)
    assert (rows["fever"]["less"], rows["fever"]["more"]) == ("rest", "drug")


def test_an_estimated_baseline_is_an_assumption(ward, spibb):
    arguments = ward.audit(ward.baseline, "--format", "json")
    arguments[arguments.index("--baseline") + 1] = "estimate"
    found = audited(spibb(*arguments))
    assert found["guarantee"]["theorem"] == "Regret test, estimated baseline"
    assumptions = found["others"][0]["assumptions"]
    assert any("estimated from the same log" in text for text in assumptions)


def test_it_writes_nothing(ward, spibb):
    before = sorted(ward.folder.iterdir())
    spibb(*ward.audit(ward.baseline))
    assert sorted(ward.folder.iterdir()) == before


def test_the_improved_policy_of_another_algorithm(ward, spibb):
    """Pi_b-SPIBB keeps to its threshold, and Basic RL does not."""
    for algorithm, code in (("pi-b-spibb", 0), ("basic-rl", 1)):
        more = ("--n-wedge", "100000") if algorithm == "pi-b-spibb" else ()
        assert spibb(*ward.improve("--algorithm", algorithm, *more, out=algorithm)).code == 0
        policy = ward.folder / algorithm / "policy.csv"
        assert TabularPolicy.read(policy).n_states == 2, "nothing is decided at home"
        assert spibb(*ward.audit(policy, "--n-wedge", "100000")).code == code
