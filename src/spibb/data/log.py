"""A log of decisions: one row for each step that the running policy took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.data.behaviour_policy import BehaviourProbabilities, acted_columns, acted_of
from spibb.data.content_hash import hash_log
from spibb.data.direction import TURNED, turned
from spibb.data.episodes import (
    NOT_GIVEN,
    complete_episodes,
    count_late_starts,
    find_gaps,
    numbered,
)
from spibb.data.features import Features
from spibb.data.streaming_counts import RowChunk, row_chunks
from spibb.display import Card, Display, listed
from spibb.errors import DataError
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
from spibb.mdp.sampling import Sampler
from spibb.names import Named, Names
from spibb.tables.data_frames import FRAME, arrow_table

UNKNOWN = -1
# Beyond it, sums and squares of rewards are no longer numbers.
_LARGEST_REWARD = 1e100
_COLUMNS = ("state", "action", "reward", "next_state", "terminated", "truncated")
_ACTED = ("propensity", "target_probability", "policy")


@dataclass(frozen=True, eq=False, repr=False)
class Log(Named, Display):
    """Transitions (x, a, r, x') with the episode they belong to.

    Build one with :meth:`from_arrays`, :meth:`from_dataframe`, :meth:`from_episodes`,
    :meth:`from_minari`, :meth:`sample` or :func:`spibb.read_log`.

    Attributes:
        state: State before the step, an integer from 0.
        action: Action taken.
        reward: Reward received.
        next_state: State after the step; -1 where it is not known.
        terminated: The process ended with this step: nothing is earned afterwards.
        truncated: The record stops here, but the process went on.
        episode: Which episode the step belongs to, or None for independent transitions.
        step: Place within the episode, or None.
        n_states: Number of states, visited or not.
        n_actions: Number of actions, taken or not.
        state_labels: Names of the states, or None where states are plain integers.
        action_labels: Names of the actions.
        group: Which group the row belongs to, where groups were asked for; reports tell them apart.
        group_labels: Names of the groups.
        cost: What each row cost, beside its reward, where costs were asked for, shape (rows, K).
        cost_names: What they are called.
        is_one_step: Whether no column said what follows a row, so that each was taken for a
            decision of its own: an episode that ends with it.
        are_ends_assumed: Whether no column said how episodes end, so that the last row of each was
            taken for its end.
        reward_column: What the column of rewards was called where the log comes from.
        acted: The behaviour policy and how likely actions were; None where nothing is said of it.
        feature_names: Names of raw columns beside the state, where any were asked for.
        feature_values: Their values, shape (rows, K); see :class:`spibb.data.features.Features`.
        feature_categories: The categories of each.
        minimize: Whether the column of rewards held costs: each reward is a cost with its sign
            turned.

    Example:
        >>> log = Log.from_arrays(state=[0, 1], action=[1, 0], reward=[0.0, 2.0],
        ...                       next_state=[1, 2], terminated=[False, True])
        >>> len(log), log.n_states, log.n_actions
        (2, 3, 2)
    """

    state: NDArray[np.int64]
    action: NDArray[np.int64]
    reward: NDArray[np.float64]
    next_state: NDArray[np.int64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    episode: NDArray[np.int64] | None
    step: NDArray[np.int64] | None
    n_states: int
    n_actions: int
    state_labels: tuple[str, ...] | None = None
    action_labels: tuple[str, ...] | None = None
    group: NDArray[np.int64] | None = None
    group_labels: tuple[str, ...] = ()
    cost: NDArray[np.float64] | None = None
    cost_names: tuple[str, ...] = ()
    is_one_step: bool = False
    are_ends_assumed: bool = False
    reward_column: str = "reward"
    acted: BehaviourProbabilities | None = None
    feature_names: tuple[str, ...] = ()
    feature_values: NDArray[np.float64] | None = None
    feature_categories: tuple[tuple[str, ...] | None, ...] = ()
    minimize: bool = False

    def __len__(self) -> int:
        return len(self.state)

    def _card(self) -> Card:
        low, high = float(self.reward.min()), float(self.reward.max())
        facts = {
            "states": listed(self.states, self.n_states),
            "actions": listed(self.actions, self.n_actions),
            "rewards": f"from {low:g} to {high:g}, {float(self.reward.mean()):.4g} on average",
        }
        if self.minimize:
            facts["costs"] = TURNED
        if self.n_gaps:
            facts["missing"] = f"steps in {self.n_gaps:,} places"
        return Card(
            f"Log: {len(self):,} rows, {self.n_episodes:,} episodes, {self.n_states:,} states, "
            f"{self.n_actions:,} actions",
            facts,
        )

    @classmethod
    def from_arrays(
        cls,
        *,
        state: ArrayLike,
        action: ArrayLike,
        reward: ArrayLike,
        next_state: ArrayLike | None = None,
        terminated: ArrayLike | None = None,
        truncated: ArrayLike | None = None,
        episode: ArrayLike | None = None,
        step: ArrayLike | None = None,
        n_states: int | None = None,
        n_actions: int | None = None,
        state_labels: Sequence[str] | None = None,
        action_labels: Sequence[str] | None = None,
        group: ArrayLike | None = None,
        group_labels: Sequence[str] = (),
        propensity: ArrayLike | None = None,
        propensities: ArrayLike | None = None,
        target_probability: ArrayLike | None = None,
        policy: ArrayLike | None = None,
        cost: Mapping[str, ArrayLike] | None = None,
        features: Mapping[str, Any] | Features | None = None,
        reward_column: str = "reward",
        minimize: bool = False,
    ) -> Log:
        """Build a log from columns of equal length.

        Args:
            state: Integers from 0.
            action: Integers from 0.
            reward: Finite numbers.
            next_state: Integers from 0, -1 where unknown; None: the following row of the episode.
            terminated: Booleans; None: the last row of each episode that is not truncated ends it.
            truncated: Booleans; None: no row.
            episode: Any integer for each row; None: independent transitions in any order, or,
                without any of the three above and without steps, decisions that lead nowhere.
            step: Place within the episode: rows are sorted by it, and a jump is a missing step.
                None: the order of the rows.
            n_states: Number of states; None: the largest one met plus one.
            n_actions: Number of actions; None: the largest one met plus one.
            state_labels: Names of the states.
            action_labels: Names of the actions.
            group: Places in ``group_labels``; None: there are no groups.
            group_labels: Names of groups that reports tell apart.
            propensity: Probability of the logged action under the policy that acted.
            propensities: Those of every action, shape (rows, actions).
            target_probability: Probability of the logged action under a policy to be evaluated.
            policy: Names of the policies that acted.
            cost: Costs of each row by their names, which limits may speak of.
            features: Raw columns beside the state by their names, numbers or texts, with None or
                NaN where a value is missing: policies are judged in finer states made of them.
            reward_column: What rewards are called where they come from: "cost" is questioned.
            minimize: Whether ``reward`` holds costs, of which less is better. The log then has
                rewards that are these costs with their sign turned.
        """
        columns = _checked_columns(state, action, reward, next_state, terminated, truncated)
        if episode is not None:
            columns["episode"] = _integers(episode, "episode", lowest=None)
        if step is not None and (episode is not None or next_state is None):
            columns["step"] = _integers(step, "step", lowest=None)
        if group is not None:
            columns["group"] = _integers(group, "group", lowest=0)
            _checked_size(len(group_labels), "group", columns["group"])
        _check_lengths(columns)
        more, names = acted_columns(
            columns["action"],
            propensity=propensity,
            propensities=propensities,
            target_probability=target_probability,
            policy=policy,
        )
        if propensities is not None and n_actions is None:
            n_actions = np.shape(propensities)[1]
        if cost:
            columns["cost"] = _checked_costs(cost, len(columns["state"]))
        raw = None
        if features:
            raw = features if isinstance(features, Features) else Features.of(features)
            columns["feature_values"] = raw.checked(len(columns["state"])).values
        return cls.of_columns(
            columns | more,
            n_states=n_states,
            n_actions=n_actions,
            state_labels=state_labels,
            action_labels=action_labels,
            group_labels=group_labels,
            policy_names=names,
            cost_names=tuple(cost or ()),
            features=raw,
            reward_column=reward_column,
            minimize=minimize,
        )

    @classmethod
    def of_columns(
        cls,
        columns: dict[str, Any],
        *,
        n_states: int | None,
        n_actions: int | None,
        state_labels: Sequence[str] | None,
        action_labels: Sequence[str] | None,
        group_labels: Sequence[str] = (),
        policy_names: tuple[str, ...] = (),
        cost_names: Sequence[str] = (),
        features: Features | None = None,
        reward_column: str = "reward",
        minimize: bool = False,
    ) -> Log:
        """Build a log from columns of the right types, which it keeps; see :meth:`from_arrays`."""
        columns = complete_episodes(columns)
        if minimize:
            columns["reward"] = turned(columns["reward"])
        acted = acted_of(columns, policy_names)
        given_step = columns.pop("step", None)
        n_states = _checked_size(n_states, "state", columns["state"], columns["next_state"])
        n_actions = _checked_size(n_actions, "action", columns["action"])
        log = cls(
            **columns,
            step=given_step,
            n_states=_at_least(n_states, state_labels),
            n_actions=_at_least(n_actions, action_labels),
            state_labels=_checked_labels(state_labels, "state_labels"),
            action_labels=_checked_labels(action_labels, "action_labels"),
            group_labels=tuple(group_labels),
            acted=acted,
            cost_names=tuple(cost_names),
            feature_names=() if features is None else features.names,
            feature_categories=() if features is None else features.categories,
            reward_column=reward_column,
            minimize=minimize,
        )
        if given_step is None and log.episode is not None:
            del log.__dict__["step"]  # numbered where it is looked at, which is hardly ever
        return log

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name != "step" or "episode" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return self._numbered

    @cached_property
    def _numbered(self) -> NDArray[np.int64]:
        return np.asarray(numbered(self.episode))

    @property
    def given_step(self) -> NDArray[np.int64] | None:
        """Steps as they were given; None where they are places within episodes."""
        return self.__dict__.get("step")

    @classmethod
    def from_dataframe(
        cls,
        frame: Any,
        columns: Mapping[str, str] | None = None,
        by: str | None = None,
        *,
        n_states: int | None = None,
        n_actions: int | None = None,
        costs: Sequence[str] = (),
        features: Sequence[str] = (),
        minimize: bool = False,
    ) -> Log:
        """Build a log from a pandas, polars or Arrow table with the columns of a log file.

        Args:
            frame: Anything pyarrow can read as a table.
            columns: Where to find a column that is called differently: ``{"state": "ward"}``.
            by: A column of groups that reports tell apart.
            n_states: Number of states, where they are the integers from 0, whichever occur.
            n_actions: Number of actions, likewise.
            costs: Columns of costs, which limits may speak of.
            features: Raw columns beside the state, by which policies are judged.
            minimize: Whether the column of rewards holds costs, of which less is better.
        """
        from spibb.data.readers import log_from_table

        sizes = {"n_states": n_states, "n_actions": n_actions}
        table = arrow_table(frame)
        return log_from_table(table, columns, FRAME, by, costs, features, minimize, **sizes)

    @classmethod
    def from_minari(cls, dataset: Any, *, minimize: bool = False) -> Log:
        """Build a log from a data set of Minari with discrete observations and actions.

        Args:
            dataset: The data set, or the name of one that is on this machine.
            minimize: Whether its rewards are costs, of which less is better.
        """
        from spibb.data.minari_sets import minari_columns

        columns, sizes = minari_columns(dataset)
        return cls.from_arrays(**columns, **sizes, minimize=minimize)

    @classmethod
    def from_episodes(cls, episodes: Iterable[Mapping[str, ArrayLike]], **sizes: Any) -> Log:
        """Build a log from one mapping of columns for each episode.

        Args:
            episodes: Mappings with ``state, action, reward`` and, if known, ``next_state``,
                ``terminated``, ``truncated``, ``propensity``, ``target_probability``, ``policy``;
                every episode has the same columns.
            **sizes: ``n_states``, ``n_actions`` and ``minimize``.
        """
        # An episode without steps says nothing, and its empty columns have no type to join.
        listed: list[dict[str, Any]] = [
            {name: np.asarray(part[name]) for name in part}
            for part in episodes
            if any(np.size(column) for column in part.values())
        ]
        if not listed:
            raise DataError("no episodes", expected="at least one with a step")
        _check_episode_columns(listed)
        joined: dict[str, Any] = {
            name: np.concatenate([part[name] for part in listed]) for name in listed[0]
        }
        lengths = [len(part["state"]) for part in listed]
        return cls.from_arrays(
            episode=np.repeat(np.arange(len(listed)), lengths), **joined, **sizes
        )

    @classmethod
    def sample(
        cls,
        mdp: TabularMDP,
        policy: TabularPolicy | ArrayLike,
        *,
        n_episodes: int,
        max_steps: int = 1_000,
        rng: np.random.Generator,
    ) -> Log:
        """Let ``policy`` act in ``mdp`` and log what it does; see :mod:`spibb.mdp.sampling`."""
        sampler = Sampler(mdp, policy)
        columns = sampler.sample(n_episodes=n_episodes, max_steps=max_steps, rng=rng)
        if len(columns["state"]) == 0:
            raise DataError("every sampled episode began in a terminal state")
        return cls.from_arrays(**columns, n_states=mdp.n_states, n_actions=mdp.n_actions)

    @property
    def n_episodes(self) -> int:
        """Number of episodes; 0 for independent transitions."""
        return 0 if self.is_first is None else int(np.count_nonzero(self.is_first))

    @cached_property
    def is_first(self) -> NDArray[np.bool_] | None:
        """Which rows begin an episode, or None for independent transitions."""
        if self.episode is None:
            return None
        return np.append(True, self.episode[1:] != self.episode[:-1])

    @property
    def is_in_first_half(self) -> NDArray[np.bool_]:
        """Mark the rows of every second episode, the first among them."""
        if self.is_first is None:
            raise DataError("the log has no episodes", expected="an episode for each row")
        return np.logical_xor.accumulate(self.is_first)

    @cached_property
    def is_gap(self) -> NDArray[np.bool_]:
        """Which rows are followed by missing steps of their episode."""
        return find_gaps(
            self.episode,
            self.__dict__.get("step", NOT_GIVEN),
            self.state,
            self.next_state,
            self.terminated,
            self.truncated,
        )

    @cached_property
    def n_gaps(self) -> int:
        """How many times steps of an episode are missing, in it or before its first row."""
        n = int(np.count_nonzero(self.is_gap))
        if self.given_step is None or self.is_first is None:
            return n
        return n + count_late_starts(self.is_first, self.given_step)

    @property
    def content_hash(self) -> str:
        """What the log holds as 32 hexadecimal digits: see :mod:`spibb.data.content_hash`."""
        return self.hashes[0]

    @cached_property
    def hashes(self) -> tuple[str, NDArray[np.uint64]]:
        """The hash of the log, and those of its episodes (rows, where it has none)."""
        return hash_log(self)

    def reward_extremes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the least and the largest reward of every pair (S, A); inf, -inf where unseen."""
        shape = (self.n_states, self.n_actions)
        least, most = np.full(shape, np.inf), np.full(shape, -np.inf)
        np.minimum.at(least, (self.state, self.action), self.reward)
        np.maximum.at(most, (self.state, self.action), self.reward)
        return least, most

    @property
    def first_states(self) -> NDArray[np.int64]:
        """The states in which episodes begin; none for independent transitions."""
        return self.state[:0] if self.is_first is None else self.state[self.is_first]

    def chunks(self, names: Sequence[str]) -> Iterator[RowChunk]:
        """Return some columns, some rows at a time."""
        return row_chunks({name: getattr(self, name) for name in names})

    def take(self, rows: NDArray[np.bool_]) -> Log:
        """Return the rows that are marked; states and actions stay as they are."""
        from spibb.data.log_part import LogPart, holds_whole_episodes

        if not rows.any():
            raise DataError("no row is left", expected="at least one")
        if holds_whole_episodes(self, rows):
            return LogPart.of(self, rows)
        return replace(
            self,
            state=self.state[rows],
            action=self.action[rows],
            reward=self.reward[rows],
            next_state=self.next_state[rows],
            terminated=self.terminated[rows],
            truncated=self.truncated[rows],
            episode=None if self.episode is None else self.episode[rows],
            step=None if self.step is None else self.step[rows],
            group=None if self.group is None else self.group[rows],
            acted=None if self.acted is None else self.acted.take(rows),
            cost=None if self.cost is None else self.cost[rows],
            feature_values=None if self.feature_values is None else self.feature_values[rows],
        )

    @property
    def features(self) -> Features | None:
        """Raw columns beside the state; None where none were asked for."""
        if self.feature_values is None:
            return None
        return Features(self.feature_names, self.feature_values, self.feature_categories)

    def with_features(self, features: Mapping[str, Any] | Features | None) -> Log:
        """Return the log with other raw columns beside its states, or without any.

        Args:
            features: As :meth:`from_arrays` takes them, in the order of the rows of this log.
        """
        raw = None
        if features:
            raw = features if isinstance(features, Features) else Features.of(features)
        return replace(
            self,
            feature_names=raw.names if raw else (),
            feature_values=raw.checked(len(self)).values if raw else None,
            feature_categories=raw.categories if raw else (),
        )

    def paying(self, name: str) -> Log:
        """Return the log with a cost of each row in the place of its reward."""
        if self.cost is None or name not in self.cost_names:
            raise DataError(
                f"the log has no cost {name!r}",
                expected=f"one of {', '.join(self.cost_names)}" if self.cost_names else "costs",
                hint=f"read it by read_log(..., costs=[{name!r}]), or give from_arrays(cost=...)",
            )
        return replace(self, reward=self.cost[:, self.cost_names.index(name)], minimize=False)

    def renamed(self, states: Names, actions: Names) -> Log:
        """Return the same log under larger or reordered lists of names."""
        if (states, actions) == (self.states, self.actions):
            return self
        to_state, to_action = moved(self.states, states), moved(self.actions, actions)
        known = self.next_state >= 0
        return replace(
            self,
            state=to_state[self.state],
            action=to_action[self.action],
            next_state=np.where(known, to_state[np.where(known, self.next_state, 0)], UNKNOWN),
            n_states=states.size,
            n_actions=actions.size,
            state_labels=states.labels,
            action_labels=actions.labels,
            acted=None if self.acted is None else self.acted.with_actions(to_action, actions.size),
        )


def moved(old: Names, new: Names) -> NDArray[np.int64]:
    """Return where each old name stands among new ones, which must hold all of them."""
    places = old.within(new)
    if (places < 0).any():
        raise DataError(
            f"the new names lack {old[int(np.argmax(places < 0))]!r}", expected="all of the old"
        )
    return places


def _check_episode_columns(episodes: list[dict[str, Any]]) -> None:
    names = episodes[0].keys()
    if any(part.keys() != names for part in episodes):
        raise DataError("episodes with different columns", expected="the same columns in each")
    odd = [name for name in names if name not in (*_COLUMNS, *_ACTED)]
    lacking = [name for name in ("state", "action", "reward") if name not in names]
    if odd or lacking:
        raise DataError(
            f"episodes with columns {', '.join(map(str, names))}",
            expected=f"state, action, reward and, if known, {', '.join((*_COLUMNS[3:], *_ACTED))}",
        )


def _checked_columns(
    state: ArrayLike,
    action: ArrayLike,
    reward: ArrayLike,
    next_state: ArrayLike | None,
    terminated: ArrayLike | None,
    truncated: ArrayLike | None,
) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "state": _integers(state, "state", lowest=0),
        "action": _integers(action, "action", lowest=0),
        "reward": _numbers(reward, "reward"),
    }
    if next_state is not None:
        columns["next_state"] = _integers(next_state, "next_state", lowest=UNKNOWN)
    for name, flags in (("terminated", terminated), ("truncated", truncated)):
        if flags is not None:
            columns[name] = _booleans(flags, name)
    if len(columns["state"]) == 0:
        raise DataError("the log has no rows", expected="at least one row")
    _check_lengths(columns)
    bad = ~(np.abs(columns["reward"]) <= _LARGEST_REWARD)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"reward {columns['reward'][row]} in {int(bad.sum())} rows",
            where=f"row {row + 1}",
            expected=f"finite numbers, of size {_LARGEST_REWARD:g} at most",
            hint="correct those rows or leave them out",
        )
    return columns


def _checked_costs(cost: Mapping[str, ArrayLike], n_rows: int) -> NDArray[np.float64]:
    """Return costs as columns of one table, or refuse what are no numbers for all rows."""
    parts = [_numbers(values, str(name)) for name, values in cost.items()]
    for name, values in zip(cost, parts, strict=True):
        if values.shape != (n_rows,):
            raise DataError(f"{name} has shape {values.shape}", expected=f"({n_rows},)")
        bad = ~(np.abs(values) <= _LARGEST_REWARD)
        if bad.any():
            row = int(np.argmax(bad))
            raise DataError(
                f"{name} {values[row]} in {int(bad.sum())} rows", where=f"row {row + 1}",
                expected=f"finite numbers, of size {_LARGEST_REWARD:g} at most",
            )  # fmt: skip
    return np.column_stack(parts)


def _checked_labels(labels: Sequence[str] | None, name: str) -> tuple[str, ...] | None:
    """Refuse a label that stands for two states or actions: they would be merged by name."""
    if labels is None:
        return None
    seen: set[str] = set()
    for label in labels:
        if not isinstance(label, str):
            raise DataError(f"{name} holds {label!r}", expected="texts")
        if label in seen:
            raise DataError(f"{name} holds {label!r} twice", expected="each label once")
        seen.add(label)
    return tuple(labels)


def _check_lengths(columns: Mapping[str, Any]) -> None:
    n_rows = len(columns["state"])
    for name, values in columns.items():
        if values.ndim != 1 or len(values) != n_rows:
            raise DataError(
                f"{name} has shape {values.shape}", expected=f"({n_rows},), as many as states"
            )


def _numbers(values: ArrayLike, name: str) -> NDArray[np.float64]:
    try:
        return np.atleast_1d(np.array(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} does not hold numbers: {error}", expected="numbers") from None


def _integers(values: ArrayLike, name: str, *, lowest: int | None) -> NDArray[np.int64]:
    array = np.atleast_1d(np.asarray(values))
    if array.ndim > 1:
        raise DataError(f"{name} has shape {array.shape}", expected="one value for each row")
    if array.size and array.dtype.kind not in "iu":
        raise DataError(
            f"{name} has type {array.dtype}",
            expected="integers",
            hint="number the labels, or use Log.from_dataframe or read_log, which accept labels",
        )
    array = array.astype(np.int64)
    if lowest is not None and (array < lowest).any():
        row = int(np.argmax(array < lowest))
        raise DataError(
            f"{name} {array[row]} is out of range",
            where=f"row {row + 1}",
            expected=f"integers >= {lowest}",
        )
    return array


def _booleans(values: ArrayLike, name: str) -> NDArray[np.bool_]:
    array = np.atleast_1d(np.asarray(values))
    if array.dtype != np.bool_:
        if array.dtype.kind not in "iu" or not np.isin(array, (0, 1)).all():
            raise DataError(f"{name} has type {array.dtype}", expected="booleans, or 0 and 1")
        array = array.astype(np.bool_)
    return array.copy()


def _checked_size(given: int | None, name: str, *columns: NDArray[np.int64]) -> int:
    met = 1 + max(int(column.max()) for column in columns)
    if given is None:
        return met
    if given < met:
        column = next(column for column in columns if column.max() >= given)
        row = int(np.argmax(column >= given))
        raise DataError(
            f"{name} {column[row]} is out of range",
            where=f"row {row + 1}",
            expected=f"integers below n_{name}s = {given}",
        )
    return int(given)


def _at_least(size: int, labels: Sequence[str] | None) -> int:
    if labels is None:
        return size
    if len(labels) < size:
        raise DataError(f"{len(labels)} labels", expected=f"one for each of {size}")
    return len(labels)
