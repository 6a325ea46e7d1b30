"""The study on representations: how often is a policy deployed that is worse than the behaviour?

A unit of work is one log of one simulator, in one representation. All representations of a
simulator see the same raw log in the same run and size. The policy is made and assessed once; each
rule then reads its own verdict of the assessment.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spibb.assessment.assessment import Assessment
from spibb.assessment.verdict import decide, decide_in_states
from spibb.problem import Problem
from spibb.studies.representations.page import draw_representations, representations_pages
from spibb.studies.representations.plan import (
    BEFORE,
    COLUMNS,
    LABELS,
    PLANS,
    RULES,
    RepresentationsPlan,
    check_plan,
    find_states,
)
from spibb.studies.representations.results import (
    KEPT,
    RepresentationsResults,
    code_of,
    score_of,
)
from spibb.studies.representations.simulator import (
    Representation,
    Simulator,
    simulate_log,
    true_gain,
)
from spibb.studies.results.logs import FILE, write_logs
from spibb.studies.study import Columns, Study

# A gain of fewer standard errors is simulated again, with so many times the episodes.
_UNCLEAR, _MORE = 3.0, 4
_N_EPISODES, _N_EPISODES_OF_ONE_STEP = 4_000, 100_000
# Sets the randomness of true gains apart from that of logs.
_LOG, _GAIN = 0, 1
_DTYPES: dict[str, Any] = {"score": np.float32, "verdict": np.int16}


@dataclass(frozen=True)
class Found:
    """What was found on one log.

    Attributes:
        verdicts: Code of the verdict under each rule.
        claim: Gain that is claimed in the states; NaN where nothing would be deployed.
        share: Smallest share of the claim that is left in a refinement.
        expected: Expected gain.
        gain: True gain of the policy.
        gain_error: Its standard error.
        seconds: Time that all of it took, on one core.
    """

    verdicts: dict[str, int]
    claim: float = np.nan
    share: float = np.nan
    expected: float = np.nan
    gain: float = 0.0
    gain_error: float = 0.0
    seconds: float = 0.0


def judge_log(plan: RepresentationsPlan, run: int, states: str, size: str) -> Found:
    """Make a log, improve the policy, judge it by every rule, and measure its true gain."""
    began = time.perf_counter()
    found = _judge(plan, run, *find_states(states), size)
    return Found(**{**vars(found), "seconds": time.perf_counter() - began})


def _judge(
    plan: RepresentationsPlan, run: int, simulator: Simulator, states: Representation, size: str
) -> Found:
    n_episodes = plan.n_episodes(simulator, size)
    rng = np.random.default_rng(_seed(simulator, _LOG, plan.seed, run, n_episodes))
    log, columns = simulate_log(simulator, states, n_episodes, rng)
    log = log.with_features({name: columns[name] for name in simulator.columns})
    problem = Problem.of(log, baseline="estimate", gamma=simulator.gamma)
    result = plan.settings[0].build().improve(problem)
    if result.choice is not None and result.choice.chosen is None:
        return Found(dict.fromkeys(RULES, KEPT))
    assessment = Assessment.of(result)
    verdicts = {
        BEFORE: decide_in_states(assessment),
        LABELS: decide(assessment, with_columns=False),
        COLUMNS: decide(assessment),
    }
    agreement, risk = assessment.representation, assessment.risk
    shares = [] if agreement is None else [one.share for one in agreement.refinements]
    gain, error = _true_gain(plan, run, simulator, states, result.policy.probabilities)
    return Found(
        verdicts={rule: code_of(verdict.decision) for rule, verdict in verdicts.items()},
        claim=np.nan if agreement is None else agreement.claim,
        share=min(shares, default=np.nan),
        expected=np.nan if risk is None else risk.mean,
        gain=gain,
        gain_error=error,
    )


def _true_gain(
    plan: RepresentationsPlan, run: int, simulator: Simulator, states: Representation, table: Any
) -> tuple[float, float]:
    """Return the true gain and its standard error, from more episodes where it is unclear."""
    seed = int(_seed(simulator, _GAIN, plan.seed, run).generate_state(1)[0])
    n = _N_EPISODES_OF_ONE_STEP if simulator.n_steps == 1 else _N_EPISODES
    gain, error = true_gain(simulator, states, table, n, seed)
    if abs(gain) < _UNCLEAR * error:
        return true_gain(simulator, states, table, _MORE * n, seed)
    return gain, error


def _seed(simulator: Simulator, use: int, *numbers: int) -> np.random.SeedSequence:
    """Return a seed; the representation has no part in it."""
    key = (zlib.crc32(simulator.name.encode()),) + ((use,) if use else ())
    return np.random.SeedSequence(numbers, spawn_key=key)


def run(plan: RepresentationsPlan, runs: Sequence[int]) -> Columns:
    """Judge the logs of some runs.

    The score is what a rule gains in truth: the true gain where its verdict begins with Deploy,
    and 0 elsewhere.
    """
    shape, rules = (len(runs), *plan.shape), [setting.rule for setting in plan.settings]
    names = ("score", *plan.columns)
    found = {name: np.empty(shape, _DTYPES.get(name, np.float64)) for name in names}
    for place in np.ndindex(*shape[:-1]):
        states, size = plan.states[place[1]], plan.size[place[2]]
        one = judge_log(plan, runs[place[0]], states, size)
        found["verdict"][place] = [one.verdicts[rule] for rule in rules]
        for name in set(plan.columns) - {"verdict"}:
            found[name][place] = getattr(one, name)
        found["score"][place] = score_of(found["verdict"][place], one.gain)
    return found


REPRESENTATIONS = Study(
    RepresentationsPlan, run, PLANS, draw_representations, representations_pages, keeps=(FILE,),
    check=check_plan, finish=write_logs, read=RepresentationsResults.of_folder,
)  # fmt: skip
