"""A log knows the policies that were made of it, and says so before it judges them."""

import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest

from spibb import HCPI, ApproxSoftSPIBB, Counts, Problem, TabularPolicy, audit, evaluate_policy
from spibb.problem.origin import TOLD, policy_origin
from spibb.testing.checks import random_problem

_, BASELINE, LOG = random_problem(3, n_episodes=60)
PROBLEM = Problem.of(LOG, baseline=BASELINE, gamma=0.9, reward_range=(-5.0, 5.0))
RESULT = ApproxSoftSPIBB(epsilon=1.0).improve(PROBLEM)


def test_results_know_their_log():
    assert RESULT.policy.log_hash == LOG.content_hash
    assert HCPI().improve(PROBLEM).policy.log_hash == LOG.content_hash
    counted = ApproxSoftSPIBB().improve(Counts.from_log(LOG), baseline=BASELINE, gamma=0.9)
    assert counted.policy.log_hash is None


def test_files_carry_it_and_others_say_nothing(tmp_path):
    RESULT.write(tmp_path / "out")
    read = TabularPolicy.read(tmp_path / "out/policy.parquet")
    assert read.log_hash == LOG.content_hash
    assert TabularPolicy.read(tmp_path / "out/policy.csv").log_hash is None
    table = pq.read_table(tmp_path / "out/policy.parquet")
    facts = json.loads(table.schema.metadata[b"spibb"])
    assert facts["log_hash"] == LOG.content_hash
    for damaged in (
        b"{", b"[]", b'"x"', b'{"log_hash": 3}', b'{"log_hash": "no"}', b"\xff\xfe",
        b'{"log_hash": ["a"]}',
    ):  # fmt: skip
        pq.write_table(table.replace_schema_metadata({b"spibb": damaged}), tmp_path / "p.parquet")
        assert TabularPolicy.read(tmp_path / "p.parquet").log_hash is None
    pq.write_table(table.replace_schema_metadata(None), tmp_path / "p.parquet")
    assert TabularPolicy.read(tmp_path / "p.parquet").log_hash is None


def test_it_survives_other_names():
    aligned = PROBLEM.align(
        TabularPolicy(RESULT.policy.probabilities[:, ::-1], action_labels=("2", "1", "0"),
                      log_hash=RESULT.policy.log_hash)
    )  # fmt: skip
    assert policy_origin(PROBLEM, aligned) == "same"
    np.testing.assert_allclose(aligned.probabilities, RESULT.policy.probabilities)


@pytest.mark.parametrize("bound", ["bca", "student-t", "betting", "concentration"])
def test_intervals_around_a_log_s_own_policy_are_withheld(bound):
    asked = {"policy": RESULT.policy, "bound": bound, "return_range": (-50.0, 50.0)}
    found = evaluate_policy(PROBLEM, **asked)
    assert found.origin == "same"
    assert not found.is_exact
    assert all(part.interval == (-math.inf, math.inf) for part in found.estimates)
    assert any("withheld" in text and "--same-log" in text for text in found.warnings)
    assert math.isfinite(found.baseline.interval[0])  # the log made the baseline's own return
    shown = evaluate_policy(PROBLEM, **asked, same_log=True)
    assert any(math.isfinite(part.interval[0]) for part in shown.estimates)
    assert not shown.is_exact
    assert any(TOLD["same"] in text for text in shown.warnings)
    assert not any("was not learnt" in text for text in shown.assumptions)


def test_another_log_and_an_unknown_one():
    policy = RESULT.policy
    half = Problem.of(
        LOG.take(LOG.episode < 30), baseline=BASELINE, gamma=0.9, reward_range=(-5.0, 5.0)
    )
    found = evaluate_policy(half, policy=policy, bound="betting")
    assert found.origin == "other"
    assert any(TOLD["other"] in text for text in found.assumptions)
    unknown = TabularPolicy(policy.probabilities)
    found = evaluate_policy(PROBLEM, policy=unknown)
    assert found.origin == "unknown"
    assert any("Cannot tell" in text for text in found.assumptions)
    assert any(math.isfinite(part.interval[0]) for part in found.estimates)
    assert found.to_dict()["origin"] == "unknown"


def test_audits_say_it_and_the_regret_test_stays():
    plain = TabularPolicy(RESULT.policy.probabilities)
    same, unknown = audit(PROBLEM, policy=RESULT.policy), audit(PROBLEM, policy=plain)
    assert same.origin.startswith(TOLD["same"])
    assert "holds for every policy at once" in same.origin
    assert "Cannot tell" in unknown.origin
    assert same.guarantee == unknown.guarantee
    assert same.guarantee.theorem == "Regret test"
    assert same.to_dict()["origin"] == same.origin
    assert "origin" not in RESULT.certificate.to_dict()
