"""What a log says of its behaviour policy: its name, and how likely the logged action was.

``propensity`` is the probability of the logged action under the policy that acted, and
``target_probability`` that under a policy to be evaluated, which then needs no table: networks and
black boxes write a column. ``policy`` names the behaviour policy.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.errors import DataError
from spibb.mdp.policy import TabularPolicy

Array = NDArray[np.float64]

# Two probabilities are the same if they differ by no more than this share, as rounded ones do.
SAME = 0.01
# What rows of probabilities may be off one, for each action.
_OFF_ONE = 1e-6
# How the columns are called among those of a log: they are sorted with the others.
_PLAIN = ("propensity", "target_probability", "policy", "row")
_EVERY = "propensity of "


@dataclass(frozen=True, eq=False)
class BehaviourProbabilities:
    """The behaviour policy in the rows of a log.

    Attributes:
        propensity: Probability of the logged action under the policy that acted, shape (n,).
        propensities: Those of every action, shape (n, A).
        target_probability: Probability of the logged action under the policy to be evaluated.
        policy: The behaviour policy of each row, places in ``names``.
        names: Names of the policies.
        row: Where each row stood before rows were sorted, from 0.
    """

    propensity: Array | None = None
    propensities: Array | None = None
    target_probability: Array | None = None
    policy: NDArray[np.int64] | None = None
    names: tuple[str, ...] = ()
    row: NDArray[np.int64] | None = None

    def take(self, rows: NDArray[np.bool_]) -> BehaviourProbabilities:
        """Return the rows that are marked, with the names of their behaviour policies."""
        columns = {one.name: getattr(self, one.name) for one in fields(self)}
        kept: dict[str, Any] = {
            name: values[rows] if isinstance(values, np.ndarray) else values
            for name, values in columns.items()
        }
        if self.policy is not None:
            present, kept["policy"] = np.unique(kept["policy"], return_inverse=True)
            kept["names"] = tuple(self.names[place] for place in present)
        return BehaviourProbabilities(**kept)

    def with_actions(self, places: NDArray[np.int64], n_actions: int) -> BehaviourProbabilities:
        """Return the same among other actions, in which the old ones have these places."""
        if self.propensities is None:
            return self
        wider = np.zeros((len(self.propensities), n_actions))
        wider[:, places] = self.propensities
        return replace(self, propensities=wider)

    def where(self, place: int) -> str:
        """Return a row as messages name it."""
        return f"row {place + 1 if self.row is None else int(self.row[place]) + 1}"


def acted_columns(
    action: NDArray[np.int64],
    *,
    propensity: ArrayLike | None = None,
    propensities: ArrayLike | None = None,
    target_probability: ArrayLike | None = None,
    policy: ArrayLike | None = None,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Check what is said of the behaviour policy, row by row.

    Args:
        action: The logged actions.
        propensity: As in :class:`BehaviourProbabilities`, and so are the others.
        propensities: Shape (n, A).
        target_probability: Numbers in [0, 1].
        policy: Names, one for each row.

    Returns:
        Columns that can be sorted with those of the log, for :func:`acted_of`, and the names.
    """
    n, columns, names = len(action), dict[str, Any](), tuple[str, ...]()
    if propensities is not None:
        every = _checked_every(propensities, action)
        columns |= {f"{_EVERY}{place}": column for place, column in enumerate(every.T)}
        taken = every[np.arange(n), action]
        propensity = taken if propensity is None else propensity
    if propensity is not None:
        logged = _checked(propensity, "propensity", n, may_be_0=False)
        if propensities is not None:
            _check_same(logged, taken)
        columns["propensity"] = logged
    if target_probability is not None:
        columns["target_probability"] = _checked(
            target_probability, "target_probability", n, may_be_0=True
        )
    if policy is not None:
        names, columns["policy"] = _named(policy, n)
    if columns:
        columns["row"] = np.arange(n)
    return columns, names


def acted_of(columns: dict[str, Any], names: tuple[str, ...]) -> BehaviourProbabilities | None:
    """Take the behaviour policy out of the columns of a log; None where nothing is said of it."""
    plain = {name: columns.pop(name) for name in _PLAIN if name in columns}
    every = [columns.pop(name) for name in list(columns) if name.startswith(_EVERY)]
    if not plain:
        return None
    return BehaviourProbabilities(
        **plain, propensities=np.column_stack(every) if every else None, names=names
    )


def recorded_policy(
    acted: BehaviourProbabilities, state: NDArray[np.int64], log: Any
) -> TabularPolicy:
    """Return the policy that the propensities of every action describe, in the states acted in.

    Args:
        acted: With propensities of every action.
        state: The states of the rows.
        log: What knows the names of states and actions.
    """
    every = acted.propensities
    assert every is not None, "asked for where they are recorded"
    n = np.bincount(state, minlength=log.n_states)
    sums = [np.bincount(state, column, log.n_states) for column in every.T]
    mean = np.column_stack(sums) / np.maximum(n, 1)[:, None]
    off = np.abs(every - mean[state]) > SAME * mean[state] + _OFF_ONE
    if off.any():
        place, action = (int(part) for part in np.argwhere(off)[0])
        raise DataError(
            f"the propensities of state {log.states[int(state[place])]!r} vary: action "
            f"{log.actions[action]!r} has {every[place, action]:.4g} there, and "
            f"{mean[state[place], action]:.4g} on average",
            where=acted.where(place),
            expected="the same in every row of a state: else the policy used more than the state",
            hint="record in the state what the policy looked at, or evaluate only (spibb evaluate "
            "takes propensities row by row)",
        )
    met, first = np.unique(state, return_index=True)
    labels = [log.states[int(x)] for x in met]
    # Rows that are all the same are taken as they are, not as their rounded mean.
    among = np.searchsorted(met, state)
    is_other = (every != every[first[among]]).any(axis=1)
    varied = np.bincount(among, is_other, len(met)) > 0
    table = np.where(varied[:, None], mean[met], every[first])
    return TabularPolicy(table, labels, tuple(log.actions))


def check_propensities(log: Any, baseline: TabularPolicy) -> None:
    """Refuse a baseline that gives logged actions other probabilities than the log does."""
    acted: BehaviourProbabilities | None = log.acted
    if acted is None or acted.propensity is None:
        return
    given = baseline.probabilities[log.state, log.action]
    off = np.abs(acted.propensity - given) > SAME * given
    if off.any():
        place = _first(off, acted)
        pair = f"{log.actions[int(log.action[place])]!r} in {log.states[int(log.state[place])]!r}"
        raise DataError(
            f"the log says that {pair} had probability {acted.propensity[place]:.6g}, and the "
            f"baseline says {given[place]:.6g} ({int(off.sum())} rows disagree)",
            where=acted.where(place),
            expected=f"the same, up to {100 * SAME:g} % for rounding",
            hint="check that the baseline belongs to this log; to evaluate by the column alone, "
            "leave the baseline out",
        )


def varies(log: Any) -> str | None:
    """Say where one policy's propensities of a pair differ; None where none do, or none are there.

    Then what it looked at is more than the state.
    """
    acted: BehaviourProbabilities | None = log.acted
    if acted is None or acted.propensity is None:
        return None
    p, pair = acted.propensity, log.state * log.n_actions + log.action
    size = log.n_states * log.n_actions
    if acted.policy is not None:
        pair, size = pair + size * acted.policy, size * len(acted.names)
    mean = np.bincount(pair, p, size) / np.maximum(np.bincount(pair, minlength=size), 1)
    off = np.abs(p - mean[pair]) > SAME * mean[pair]
    if not off.any():
        return None
    place = _first(off, acted)
    return str(log.place(int(log.state[place]), int(log.action[place])))


def _first(marked: NDArray[np.bool_], acted: BehaviourProbabilities) -> int:
    """Return the marked row that stood first before rows were sorted."""
    places = np.flatnonzero(marked)
    return int(places[0] if acted.row is None else places[np.argmin(acted.row[places])])


def _checked(values: ArrayLike, name: str, n: int, *, may_be_0: bool) -> Array:
    try:
        found = np.atleast_1d(np.array(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} does not hold numbers: {error}", expected="numbers") from None
    if found.shape != (n,):
        raise DataError(f"{name} has shape {found.shape}", expected=f"({n},), as many as states")
    missing = np.isnan(found)
    bad = missing | ~((found >= 0.0 if may_be_0 else found > 0.0) & (found <= 1.0))
    if bad.any():
        row = int(np.argmax(bad))
        zero = " (0: an action that was taken has a probability above it)"
        raise DataError(
            f"{name} is {'missing' if missing[row] else format(found[row], 'g')} in "
            f"{int((missing if missing[row] else bad & ~missing).sum())} rows"
            + (zero if found[row] == 0.0 else ""),
            where=f"row {row + 1}",
            expected=f"a probability in {'[' if may_be_0 else '('}0, 1] in every row",
            hint="correct those rows, leave their episodes out, or drop the column",
        )
    return found


def _checked_every(propensities: ArrayLike, action: NDArray[np.int64]) -> Array:
    try:
        every = np.array(propensities, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"propensities hold no numbers: {error}", expected="numbers") from None
    if every.ndim != 2 or every.shape[0] != len(action) or every.shape[1] <= action.max():
        raise DataError(
            f"propensities have shape {every.shape}",
            expected=f"({len(action)}, actions), a probability of every action in each row",
        )
    bad = ~((every >= 0.0) & (every <= 1.0)).all(axis=1)
    bad |= ~(np.abs(every.sum(axis=1) - 1.0) <= _OFF_ONE * every.shape[1])
    if bad.any():
        row = int(np.argmax(bad))
        told = ", ".join(f"{p:.6g}" for p in every[row, :6]) + (", ..." * (every.shape[1] > 6))
        raise DataError(
            f"the propensities of every action are {told} in {int(bad.sum())} rows",
            where=f"row {row + 1}",
            expected="probabilities in [0, 1] that sum to 1 in each row",
            hint="correct those rows, or drop the columns",
        )
    return every


def _check_same(logged: Array, taken: Array) -> None:
    off = np.abs(logged - taken) > SAME * taken
    if off.any():
        row = int(np.argmax(off))
        raise DataError(
            f"propensity is {logged[row]:.6g}, and the column of the logged action says "
            f"{taken[row]:.6g}",
            where=f"row {row + 1}",
            expected="the same in both",
        )


def _named(policy: ArrayLike, n: int) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    given = np.atleast_1d(np.asarray(policy))
    if given.shape != (n,):
        raise DataError(f"policy has shape {given.shape}", expected=f"({n},), a name for each row")
    texts = given.astype(str)
    if given.dtype == object:
        texts[[name is None or name != name for name in given.tolist()]] = ""
    names, places = np.unique(texts, return_inverse=True)
    empty = np.array([not name.strip() for name in names.tolist()])[places]
    if empty.any():
        raise DataError(
            f"policy is missing in {int(empty.sum())} rows",
            where=f"row {int(np.argmax(empty)) + 1}",
            expected="the name of the policy that acted, in every row",
        )
    return tuple(names.tolist()), places.astype(np.int64)
