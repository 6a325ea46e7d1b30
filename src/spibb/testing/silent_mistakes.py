"""Mistakes that people make with logs, each on a sound log: tables to be read as logs.

A mistake takes the table of a sound log, with the columns episode, step, state, action, reward,
terminated and truncated, and returns what somebody would have given to the program. Labels are
texts. What the inspection should name it is told beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spibb.data.log import Log

Table = dict[str, NDArray[Any]]
# What is left where somebody exports no more than what was seen and done.
_BARE = ("episode", "state", "action", "reward")


@dataclass(frozen=True)
class Mistake:
    """A mistake.

    Attributes:
        title: What was done, in words.
        make: Makes it, of a table and a source of randomness.
        findings: The findings that name it; one is enough.
    """

    title: str
    make: Callable[[Table, np.random.Generator], Table]
    findings: tuple[str, ...]


def table_of(log: Log) -> Table:
    """Return a sound log as a table with labels."""
    assert log.episode is not None
    assert log.step is not None
    actions = np.array([f"Action-{chr(65 + k % 26)}{k // 26 or ''}" for k in range(log.n_actions)])
    return {
        "episode": log.episode.copy(),
        "step": log.step.copy(),
        "state": np.array([f"state {k}" for k in range(log.n_states)])[log.state],
        "action": actions[log.action],
        "reward": log.reward.copy(),
        "terminated": log.terminated.copy(),
        "truncated": log.truncated.copy(),
    }


def log_of(table: Table) -> Log:
    """Read a table as a log, as who made the mistake would."""
    columns = {"reward": "cost"} if "cost" in table else None
    return Log.from_dataframe(pa.table(table), columns)


def _rows(table: Table, rows: NDArray[Any], *names: str) -> Table:
    return {name: table[name][rows] for name in (names or table)}


def _firsts(table: Table) -> NDArray[np.bool_]:
    return np.append(True, np.diff(table["episode"]) != 0)


def _late_half(table: Table) -> NDArray[np.bool_]:
    return np.asarray(table["episode"] > np.median(np.unique(table["episode"])))


def _cost_column(table: Table, rng: np.random.Generator) -> Table:
    """Name a column of costs, none of which is negative, as the one of rewards."""
    others = {name: column for name, column in table.items() if name != "reward"}
    return {**others, "cost": table["reward"].max() - table["reward"]}


def _costs(table: Table, rng: np.random.Generator) -> Table:
    return {**table, "reward": -table["reward"]}


def _late_reward(table: Table, rng: np.random.Generator) -> Table:
    reward = np.roll(table["reward"], 1)
    reward[_firsts(table)] = 0.0
    return {**table, "reward": reward}


def _late_state(table: Table, rng: np.random.Generator) -> Table:
    rows = np.flatnonzero(~np.append(_firsts(table)[1:], True))
    return {**_rows(table, rows, *_BARE), "state": table["state"][rows + 1]}


def _twice(table: Table, rng: np.random.Generator) -> Table:
    n = int(table["episode"].max()) + 1
    twice = {name: np.concatenate([column, column]) for name, column in table.items()}
    return {**twice, "episode": np.concatenate([table["episode"], table["episode"] + n])}


def _spelling(table: Table, rng: np.random.Generator) -> Table:
    """Spell actions differently in a third of the episodes, as another site would."""
    other = np.char.lower(np.char.replace(table["action"], "-", "_"))
    is_other = table["episode"] % 3 == 0
    return {**table, "action": np.where(is_other, other, table["action"])}


def _other_meaning(table: Table, rng: np.random.Generator) -> Table:
    """Number the actions in another order in the second half of the episodes."""
    known, place = np.unique(table["action"], return_inverse=True)
    other = known[(place + 1) % len(known)]
    return {**table, "action": np.where(_late_half(table), other, table["action"])}


def _shuffled(table: Table, rng: np.random.Generator) -> Table:
    order = np.lexsort((rng.random(len(table["episode"])), table["episode"]))
    return _rows(table, order, *_BARE)


def _backwards(table: Table, rng: np.random.Generator) -> Table:
    return _rows(table, np.lexsort((-table["step"], table["episode"])), *_BARE)


def _interleaved(table: Table, rng: np.random.Generator) -> Table:
    """Give two episodes one number, their rows in the order of time."""
    number = np.cumsum(_firsts(table)) - 1
    order = np.lexsort((number, table["step"], number // 2))
    return {**_rows(table, order, *_BARE), "episode": (number // 2)[order]}


def _outcome(table: Table, rng: np.random.Generator) -> Table:
    """Join whether the episode went well, 1 or 0, to each of its rows."""
    number = np.cumsum(_firsts(table)) - 1
    total = np.bincount(number, table["reward"])
    went_well = total > np.median(total)
    if not went_well.any():
        went_well = total >= np.median(total)
    return {**table, "reward": went_well[number].astype(np.float64)}


def _cut(table: Table, rng: np.random.Generator) -> Table:
    """Cut three records of ten anywhere, and say nothing of ends."""
    number = np.cumsum(_firsts(table)) - 1
    length = np.bincount(number)
    kept = np.where(rng.random(len(length)) < 0.3, rng.integers(1, length + 1), length)
    start = np.flatnonzero(_firsts(table))
    rows = np.flatnonzero(np.arange(len(number)) - start[number] < kept[number])
    return _rows(table, rows, *_BARE)


def _pay_cut(table: Table, rng: np.random.Generator) -> Table:
    """Pay 30 % in the second half."""
    return {**table, "reward": np.where(_late_half(table), 0.3, 1.0) * table["reward"]}


# The twelve of the benchmark, and costs under the name of rewards, whose sign data may not tell.
MISTAKES: dict[str, Mistake] = {
    "cost-column": Mistake("a column of costs as rewards", _cost_column, ("cost-column",)),
    "costs": Mistake("costs under the name of rewards", _costs, ("costs", "reward-range")),
    "late-reward": Mistake("rewards one row late", _late_reward, ("late-reward",)),
    "late-state": Mistake(
        "the state after the action in place of the one before", _late_state,
        ("late-state", "reversed"),
    ),
    "twice": Mistake("a file read twice", _twice, ("duplicates",)),
    "spelling": Mistake("actions spelled in two ways", _spelling, ("action-spelling",)),
    "other-meaning": Mistake(
        "actions of another meaning in the second half", _other_meaning, ("drift", "process-drift")
    ),
    "shuffled": Mistake(
        "rows shuffled within episodes", _shuffled, ("row-order", "unrelated", "shuffled")
    ),
    "backwards": Mistake("rows from late to early", _backwards, ("reversed", "late-state")),
    "interleaved": Mistake("two episodes under one number", _interleaved, ("interleaved",)),
    "outcome": Mistake("the outcome on every row", _outcome, ("repeated-outcome",)),
    "cut": Mistake("truncated records without a flag", _cut, ("assumed-ends",)),
    "pay-cut": Mistake("pay cut to 30 % half-way", _pay_cut, ("process-drift",)),
}  # fmt: skip
