"""Make the data of ``spibb demo``: a simulated infection ward in a fictitious clinic.

The story. Patients with an infection stay on the ward until they are discharged or have to be
moved to intensive care. Every morning the ward knows how ill they are (mild to critical), whether
their kidneys work well, and whether the germ is untreated, treated, or resistant to drug A. It then
chooses one of four treatments:

* ``watch``: no drug. Right for mild cases, a lost day or worse for the others.
* ``drug-a``: the standard. Safe, but it may make the germ resistant, and then hardly works.
* ``drug-b``: works on resistant germs too. It wears the kidneys; weak ones may not bear it.
* ``both``: works fastest, but now and then ends in a bad reaction, more often with weak kidneys.

A day costs a little: more when the patient is very ill, more with dearer drugs. Discharge pays, a
transfer to intensive care costs much.

The ward's rule, the baseline, goes by severity alone. With mild cases there is little to gain. But
it waits too often with the very ill, stays with drug A when the germ is resistant, and gives drug B
to weak kidneys. It varies enough to leave data on every treatment, though little on the rare ones.
``both`` is given on one day in thirty: most of the few who had it were better the next morning, and
in many conditions no bad reaction is on record. Whoever believes such a log word for word gives
``both``.

All of it is simulated; no number comes from patients. Run this file to write ``log.csv``,
``baseline.csv`` and ``truth.json`` again; every run writes the same bytes.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy

FOLDER = Path(__file__).resolve().parents[1] / "src" / "spibb" / "cli" / "demo"
SEED = 11  # a typical log: what is learnt from it is worth about what logs of this size give
N_PATIENTS = 430
MAX_DAYS = 25
GAMMA = 0.95

SEVERITIES = ("mild", "moderate", "serious", "severe", "critical")
KIDNEYS = ("kidneys-ok", "kidneys-weak")
GERMS = ("untreated", "treated", "resistant")
ACTIONS = ("watch", "drug-a", "drug-b", "both")
CONDITIONS = tuple(product(range(len(SEVERITIES)), KIDNEYS, GERMS))
STATES = (
    *(f"{SEVERITIES[severity]}/{kidneys}/{germ}" for severity, kidneys, germ in CONDITIONS),
    "discharged",
    "intensive-care",
)
DISCHARGED, INTENSIVE_CARE = len(CONDITIONS), len(CONDITIONS) + 1

REWARD_RANGE = (-10.0, 10.0)
# A day costs 0.8 at most, which for ever is worth 16; a stay ends once, for better or worse by 9.
RETURN_RANGE = (-16.0, 10.0)
OUTCOME = {DISCHARGED: 9.0, INTENSIVE_CARE: -9.0}
DAY_COST = (0.10, 0.15, 0.20, 0.30, 0.40)  # by severity
DRUG_COST = (0.00, 0.05, 0.15, 0.20)  # by action
COST_NOISE = 0.20  # uniform, either side

# The ward's rule: watch, drug-a, drug-b, both, by severity and by nothing else.
RULE = (
    (0.70, 0.22, 0.05, 0.03),
    (0.25, 0.60, 0.12, 0.03),
    (0.25, 0.55, 0.17, 0.03),
    (0.30, 0.45, 0.22, 0.03),
    (0.30, 0.40, 0.27, 0.03),
)


def first_days() -> NDArray[np.float64]:
    """Return in which condition patients arrive."""
    by_severity = (0.15, 0.30, 0.30, 0.15, 0.10)
    by_kidneys = {"kidneys-ok": 0.7, "kidneys-weak": 0.3}
    by_germ = {"untreated": 0.8, "treated": 0.0, "resistant": 0.2}
    shares = [
        by_severity[s] * by_kidneys[kidneys] * by_germ[germ] for s, kidneys, germ in CONDITIONS
    ]
    return np.array([*shares, 0.0, 0.0]).round(6)


def chances(severity: int, kidneys: str, germ: str, action: str) -> tuple[float, float, float]:
    """Return the chances that a patient gets better, gets worse, or has a bad reaction."""
    weak = kidneys == "kidneys-weak"
    better, worse = {
        "watch": (0.40, 0.10) if severity == 0 else (0.15, 0.25),
        "drug-a": (0.18, 0.24) if germ == "resistant" else (0.40, 0.15),
        "drug-b": (0.40, 0.16) if weak else (0.45, 0.12),
        "both": (0.65, 0.06),
    }[action]
    if action != "watch" and germ == "treated":
        better += 0.05
    reaction = {"watch": 0.0, "drug-a": 0.0, "drug-b": 0.01, "both": 0.08}[action]
    if weak:
        reaction = {"watch": 0.0, "drug-a": 0.0, "drug-b": 0.06, "both": 0.20}[action]
    return better, worse, reaction


def next_kidneys(kidneys: str, action: str) -> dict[str, float]:
    """Return how the kidneys do the next day: drug B wears them, without it they may heal."""
    worn = {"watch": 0.0, "drug-a": 0.0, "drug-b": 0.08, "both": 0.15}[action]
    if kidneys == "kidneys-ok":
        return {"kidneys-ok": 1 - worn, "kidneys-weak": worn}
    healed = 0.0 if worn else 0.10
    return {"kidneys-ok": healed, "kidneys-weak": 1 - healed}


def next_germ(germ: str, action: str) -> dict[str, float]:
    """Return how the germ does the next day: drug A, given alone, may make it resistant."""
    if germ == "resistant" or action == "watch":
        return {germ: 1.0}
    resistant = 0.06 if action == "drug-a" else 0.0
    return {"treated": 1 - resistant, "resistant": resistant}


def next_state(severity: int, kidneys: str, germ: str) -> int:
    """Return the number of a state; better than mild and worse than critical leave the ward."""
    if severity < 0:
        return DISCHARGED
    if severity == len(SEVERITIES):
        return INTENSIVE_CARE
    return CONDITIONS.index((severity, kidneys, germ))


def build_ward() -> TabularMDP:
    """Return the true process."""
    transition = np.zeros((len(STATES), len(ACTIONS), len(STATES)))
    reward = np.zeros((len(STATES), len(ACTIONS)))
    for x, (severity, kidneys, germ) in enumerate(CONDITIONS):
        for a, action in enumerate(ACTIONS):
            better, worse, reaction = chances(severity, kidneys, germ, action)
            moves = {-1: better, 0: 1 - better - worse - reaction, 1: worse}
            kidneys_after, germ_after = next_kidneys(kidneys, action), next_germ(germ, action)
            for move, k, g in product(moves, kidneys_after, germ_after):
                probability = moves[move] * kidneys_after[k] * germ_after[g]
                transition[x, a, next_state(severity + move, k, g)] += probability
            transition[x, a, INTENSIVE_CARE] += reaction
            reward[x, a] = -DAY_COST[severity] - DRUG_COST[a]
    # Nothing above has more than six decimals: what truth.json holds is the model to the last bit.
    transition = transition.round(6)
    for outcome, value in OUTCOME.items():
        reward += value * transition[:, :, outcome]
    terminal = np.isin(np.arange(len(STATES)), list(OUTCOME))
    return TabularMDP(transition, reward.round(6), GAMMA, first_days(), terminal)


def ward_rule() -> TabularPolicy:
    """Return the baseline; it is uniform in the two outcomes, where nothing is decided."""
    rows = [RULE[severity] for severity, _, _ in CONDITIONS]
    undecided = [1 / len(ACTIONS)] * len(ACTIONS)
    return TabularPolicy([*rows, *[undecided] * len(OUTCOME)], STATES, ACTIONS)


def sample_log(
    ward: TabularMDP, rule: TabularPolicy, rng: np.random.Generator
) -> dict[str, NDArray[Any]]:
    """Return the columns of a log; a reward is what the day cost and, at the end, the outcome."""
    log = stays(ward, rule, rng)
    severity = np.array([severity for severity, _, _ in CONDITIONS])[log["state"]]
    cost = np.array(DAY_COST)[severity] + np.array(DRUG_COST)[log["action"]]
    cost += rng.uniform(-COST_NOISE, COST_NOISE, len(cost))
    outcome = np.array([OUTCOME.get(x, 0.0) for x in range(len(STATES))])[log["next_state"]]
    return {**log, "reward": (outcome - cost).round(2) + 0.0}  # + 0.0: no -0.0


def stays(
    ward: TabularMDP, rule: TabularPolicy, rng: np.random.Generator
) -> dict[str, NDArray[Any]]:
    """Let patients come, one after another; two numbers a day decide treatment and next morning."""
    rows: list[tuple[int, ...]] = []
    arrivals = rng.choice(ward.n_states, size=N_PATIENTS, p=ward.initial)
    for patient, state in enumerate(arrivals.tolist()):
        for day in range(MAX_DAYS):
            action = pick(rule.probabilities[state], rng)
            morning = pick(ward.dense[state, action], rng)
            is_over = bool(ward.terminal[morning])
            rows.append((patient, day, state, action, morning, is_over, day + 1 == MAX_DAYS))
            if is_over:
                break
            state = morning
    names = ("episode", "step", "state", "action", "next_state", "terminated", "truncated")
    log = dict(zip(names, np.array(rows).T, strict=True))
    terminated = log["terminated"] == 1
    truncated = (log["truncated"] == 1) & ~terminated
    columns = {name: log[name] for name in ("episode", "step", "state", "action")}
    return {
        **columns,
        "reward": np.zeros(len(rows)),
        "next_state": log["next_state"],
        "terminated": terminated,
        "truncated": truncated,
    }


def pick(probabilities: NDArray[np.float64], rng: np.random.Generator) -> int:
    """Return the entry that a uniform number falls on."""
    fallen = int(np.searchsorted(np.cumsum(probabilities), rng.random(), side="right"))
    return min(fallen, int(np.flatnonzero(probabilities)[-1]))


def write_log(log: dict[str, NDArray[Any]], path: Path) -> None:
    """Write the log with labels."""
    readable = {
        **log,
        "state": np.array(STATES)[log["state"]],
        "next_state": np.array(STATES)[log["next_state"]],
        "action": np.array(ACTIONS)[log["action"]],
        "reward": [f"{reward:.2f}" for reward in log["reward"]],
        "terminated": np.where(log["terminated"], "true", "false"),
        "truncated": np.where(log["truncated"], "true", "false"),
    }
    write_csv(path, tuple(readable), zip(*readable.values(), strict=True))


def write_baseline(path: Path) -> None:
    """Write the rule for every state in which there is something to decide."""
    rows = [
        (STATES[x], action, f"{probability:.2f}")
        for x, (severity, _, _) in enumerate(CONDITIONS)
        for action, probability in zip(ACTIONS, RULE[severity], strict=True)
    ]
    write_csv(path, ("state", "action", "probability"), rows)


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def write_truth(ward: TabularMDP, path: Path) -> None:
    """Write the true process: one line for each field, states and actions by number."""
    found = np.argwhere(ward.dense)
    truth = {
        "note": "Simulated data of a fictitious ward; see examples/make_demo_data.py. The true "
        "process is known here only because it is simulated.",
        "gamma": ward.gamma,
        "reward_range": REWARD_RANGE,
        "return_range": RETURN_RANGE,
        "max_steps": MAX_DAYS,
        "states": STATES,
        "actions": ACTIONS,
        "terminal": [STATES[x] for x in np.flatnonzero(ward.terminal)],
        "initial": ward.initial.tolist(),
        "reward": ward.reward.tolist(),
        "transition_columns": ["state", "action", "next_state", "probability"],
        "transitions": [[*row.tolist(), float(ward.dense[tuple(row)])] for row in found],
    }
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in truth.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8", newline="\n")


def main() -> None:
    """Write the three files."""
    ward = build_ward()
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_log(sample_log(ward, ward_rule(), np.random.default_rng(SEED)), FOLDER / "log.csv")
    write_baseline(FOLDER / "baseline.csv")
    write_truth(ward, FOLDER / "truth.json")


if __name__ == "__main__":
    main()
