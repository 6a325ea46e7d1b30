"""A new estimator is one file and one line of the registry, and then works everywhere."""

import importlib.util
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from spibb import Log, Status, TabularPolicy
from spibb.algorithms.hcpi import HCPI
from spibb.cli.app import app
from spibb.errors import SettingsError
from spibb.ope import ESTIMATORS, evaluate_policy

FILE = '''
"""Importance sampling with weights of at most 2: a lower end stays valid."""

import numpy as np

from spibb.ope.estimators.importance import ImportanceSampling


class ClippedSampling(ImportanceSampling):
    """The mean of returns of clipped weights."""

    id = "clipped-is"
    title = "clipped importance sampling"

    def about(self, walk, end=0.0):
        """Return min(w_T, 2) (G - end)."""
        return np.minimum(walk.weight, 2.0) * (walk.gain - end)[:, None]
'''
POLICY, BASELINE = TabularPolicy([[0.1, 0.9]]), TabularPolicy([[0.7, 0.3]])


@pytest.fixture
def clipped(tmp_path, monkeypatch):
    """The id of an estimator that is registered for one test."""
    (tmp_path / "clipped.py").write_text(FILE, "utf-8")
    spec = importlib.util.spec_from_file_location("clipped", tmp_path / "clipped.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(ESTIMATORS, "clipped-is", module.ClippedSampling())
    return "clipped-is"


@pytest.fixture
def log():
    """One state, one step: the second action pays 1, the first nothing, but for noise."""
    rng = np.random.default_rng(0)
    action = rng.choice(2, 400, p=BASELINE.probabilities[0])
    return Log.from_arrays(
        state=np.zeros(400, int), action=action, episode=np.arange(400),
        reward=action + 0.1 * rng.random(400),
    )  # fmt: skip


@pytest.mark.parametrize("bound", ["bca", "student-t", "betting", "concentration"])
def test_it_is_found_by_evaluate_policy(clipped, log, bound):
    asked = {"policy": POLICY, "baseline": BASELINE, "gamma": 0.9, "bound": bound}
    everything = evaluate_policy(log, **asked, reward_range=(0.0, 1.1))
    found = everything[clipped]
    weight = np.where(log.action == 1, 2.0, 0.1 / 0.7)
    assert found.estimate == pytest.approx(float((weight * log.reward).mean()))
    assert found.estimate < everything["is"].estimate
    assert found.interval[0] < everything["is"].estimate
    alone = evaluate_policy(log, **asked, reward_range=(0.0, 1.1), estimators=[clipped])
    assert [part.estimator for part in alone.estimates] == [clipped]
    assert alone[clipped].estimate == found.estimate


def test_it_is_found_by_the_command_line(clipped, log, tmp_path):
    rows = zip(log.episode, log.state, log.action, log.reward, strict=True)
    lines = ["episode,state,action,reward", *(",".join(map(str, row)) for row in rows)]
    (tmp_path / "log.csv").write_text("\n".join(lines), "utf-8")
    POLICY.write(tmp_path / "policy.csv")
    BASELINE.write(tmp_path / "baseline.csv")
    asked = [
        "evaluate", str(tmp_path / "log.csv"), "--baseline", str(tmp_path / "baseline.csv"),
        "--policy", str(tmp_path / "policy.csv"), "--gamma", "0.9", "--estimator", "is,clipped-is",
    ]  # fmt: skip
    told = CliRunner().invoke(app, [*asked, "--format", "json"])
    assert told.exit_code == 0, told.output
    names = [part["estimator"] for part in json.loads(told.output)["estimates"]]
    assert names == ["is", "clipped-is"]
    shown = CliRunner().invoke(app, asked).output
    assert "clipped-is (clipped importance sampling)" in re.sub(r"\s+", " ", shown)


@pytest.mark.parametrize("bound", ["bca", "student-t", "betting", "concentration"])
def test_it_is_found_inside_hcpi_which_says_that_it_was_not_measured(clipped, log, bound):
    algorithm = HCPI(estimator=clipped, bound=bound, delta=0.3)
    result = algorithm.improve(log, baseline=BASELINE, gamma=0.0, reward_range=(0.0, 1.1))
    assert result.status is Status.CONVERGED
    claims = (result.certificate.guarantee, *result.certificate.others)
    (test,) = [claim for claim in claims if claim.theorem.startswith("Held-out test")]
    assert test.theorem == f"Held-out test (HCPI, clipped-is by {bound})"
    assert test.applies
    unmeasured = any("how often it passes was not measured" in text for text in test.assumptions)
    assert unmeasured is (bound in ("bca", "student-t"))
    assert HCPI.from_config(algorithm.to_config()) == algorithm


def test_it_is_gone_again(log):
    with pytest.raises(SettingsError, match="no estimator is called 'clipped-is'"):
        evaluate_policy(log, policy=POLICY, baseline=BASELINE, gamma=0.9, estimators=["clipped-is"])
    with pytest.raises(SettingsError, match="no estimator of HCPI is called 'clipped-is'"):
        HCPI(estimator="clipped-is")
