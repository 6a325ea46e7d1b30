"""Rules: settings, configurations, and the scalars the engines see."""

import json
import math
from dataclasses import fields

import pytest
from small_problems import RULES as USED

from spibb.deep.rules import (
    DQN,
    RULES,
    ApproxSoftSPIBBDQN,
    DoubleDQN,
    ExactSoftSPIBBDQN,
    PiBSPIBBDQN,
    PiLeqBSPIBBDQN,
    RaMDPDQN,
    Rule,
    TargetStep,
)
from spibb.errors import SettingsError
from spibb.operators import Operator


def test_the_tests_use_every_rule():
    assert [rule.id for rule in USED] == list(RULES)


@pytest.mark.parametrize("rule", [*USED, PiBSPIBBDQN(n_wedge=math.inf)], ids=lambda rule: rule.id)
def test_configurations_round_trip_through_json(rule):
    text = json.dumps(rule.to_config(), allow_nan=False)
    assert Rule.from_config(json.loads(text)) == rule


def test_scalars():
    assert DQN().step() == TargetStep(Operator.GREEDY, is_double=False)
    assert DoubleDQN().step() == TargetStep(Operator.GREEDY)
    assert RaMDPDQN(kappa=2).step() == TargetStep(Operator.GREEDY, kappa=2.0)
    assert PiBSPIBBDQN(n_wedge=3).step() == TargetStep(Operator.PI_B, n_wedge=3.0)
    assert PiLeqBSPIBBDQN(n_wedge=3).step() == TargetStep(Operator.PI_LEQ_B, n_wedge=3.0)
    assert ApproxSoftSPIBBDQN(epsilon=1).step() == TargetStep(Operator.SOFT_APPROX, epsilon=1.0)
    assert ExactSoftSPIBBDQN(epsilon=1).step() == TargetStep(Operator.SOFT_EXACT, epsilon=1.0)


@pytest.mark.parametrize("kind", [PiBSPIBBDQN, PiLeqBSPIBBDQN, ApproxSoftSPIBBDQN, RaMDPDQN])
@pytest.mark.parametrize("value", [-1, math.nan, "much"])
def test_bad_settings(kind, value):
    name = fields(kind)[0].name
    with pytest.raises(SettingsError, match=name):
        kind(**{name: value})


def test_bad_configurations():
    with pytest.raises(SettingsError, match="use 'double-dqn'"):
        Rule.named("doubl-dqn")
    with pytest.raises(SettingsError, match="dqn has no setting 'epsilon'; expected no settings"):
        Rule.from_config({"rule": "dqn", "epsilon": 1})
    with pytest.raises(SettingsError, match="kappa is inf"):
        RaMDPDQN(kappa=math.inf)


def test_rules_are_immutable_and_keyword_only():
    with pytest.raises(AttributeError):
        DQN().kappa = 1
    with pytest.raises(TypeError):
        PiBSPIBBDQN(3)
