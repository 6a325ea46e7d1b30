"""What may be done: limits on a new policy, whatever the log says for it.

Every limit on actions is, in a state x, an upper bound u(x, a) on the new probability. `forbid`
alone also changes where an improvement starts from: the baseline's mass on what is forbidden goes
to the other actions in proportion, as far as their own bounds let it. Limits on the number of
states, and on what a change must be worth, choose states in which the baseline is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.data.counts import Counts
from spibb.errors import SettingsError, checked_number, checked_whole
from spibb.mdp.policy import TabularPolicy
from spibb.names import Names, nearest

Array = NDArray[np.float64]
# Bounds may be missed by rounding.
ROUNDING = 1e-12
# Costs are sums of values that linear solves give: less than this share of their size is rounding.
COST_ROUNDING = 1e-9
# Limits that choose states, and bound no action.
_OF_STATES = ("max_states", "min_gain", "cost")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on a policy; all of them hold together.

    Args:
        forbid: Actions that get probability 0 in every state.
        no_increase: Actions that get at most the baseline's probability, in every state.
        allowed: Which actions are allowed where: booleans (S, A); pairs (state, action) that are;
            or (state, action, whether it is), others being allowed. What is not allowed gets at
            most the baseline's probability in that state.
        lock: States that keep the baseline.
        cap: Largest probability of an action, by action.
        cap_increase: Largest increase of an action's probability over the baseline's, by action.
        max_states: In so many states at most the policy differs from the baseline. Which ones is
            chosen one by one by what a change is worth: a heuristic.
        min_gain: What a change must be worth in its state, by the estimated Q of the new policy;
            where it is worth less, the baseline is kept.
        cost: Columns of costs of the log (``read_log(..., costs=...)``), of which none may rise: in
            every state sum_a pi(a) A_k(x, a) <= 0, A_k the baseline's advantage in cost k by the
            estimated model.

    Example:
        >>> Limits(forbid=["drug-b"], cap={"both": 0.1}).statements
        {'forbid': 'no drug-b', 'cap': 'both at most 0.1'}
    """

    forbid: Any = ()
    no_increase: Any = ()
    allowed: Any = None
    lock: Any = ()
    cap: Mapping[Any, float] = field(default_factory=dict)
    cap_increase: Mapping[Any, float] = field(default_factory=dict)
    max_states: int | None = None
    min_gain: float | None = None
    cost: Any = ()

    def __post_init__(self) -> None:
        for name in ("forbid", "no_increase", "lock", "cost"):
            given = getattr(self, name)
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise SettingsError(
                    f"{name} is {given!r}", expected=f"a list, as {name}=[{given!r}]"
                )
            object.__setattr__(self, name, tuple(map(str, given)))
        for name in ("cap", "cap_increase"):
            given = getattr(self, name)
            if not isinstance(given, Mapping):
                raise SettingsError(
                    f"{name} is {given!r}", expected="numbers by action, as {'a': 0.1}"
                )
            for action, number in given.items():
                expected = "a probability, between 0 and 1"
                checked_number(number, f"{name} of {action}", expected, least=0.0, most=1.0)
        if self.max_states is not None:
            checked_whole(self.max_states, "max_states", least=0)
        if self.min_gain is not None:
            checked_number(self.min_gain, "min_gain", "a number >= 0", least=0.0)

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the limits that are given."""
        return tuple(
            item.name for item in fields(self)
            if (value := getattr(self, item.name)) is not None
            and not (isinstance(value, tuple | Mapping) and not value)
        )  # fmt: skip

    def without(self, name: str) -> Limits | None:
        """Return the others, or None if there are none."""
        left = replace(self, **{name: getattr(Limits(), name)})
        return left if left.given else None

    @property
    def on_actions(self) -> str:
        """The limits on actions in words; empty if there are none."""
        texts = self.statements
        return "; ".join(text for name, text in texts.items() if name not in _OF_STATES)

    @property
    def statements(self) -> dict[str, str]:
        """The limits in words, by name."""
        texts = {
            "forbid": f"no {_listed(self.forbid)}",
            "no_increase": f"{_listed(self.no_increase)} no more often than the baseline",
            "allowed": "actions not allowed in a state no more often than the baseline",
            "lock": f"the baseline in {len(self.lock)} locked state{'s' * (len(self.lock) != 1)}",
            "cap": _listed(f"{name} at most {p:g}" for name, p in self.cap.items()),
            "cap_increase": _listed(
                f"{name} at most {p:g} above the baseline" for name, p in self.cap_increase.items()
            ),
            "max_states": f"changes in at most {self.max_states} states (chosen by a heuristic)",
            "min_gain": f"only changes worth {self.min_gain} or more in their state",
            "cost": f"no more {_listed(self.cost)} than the baseline, in every state by the model",
        }
        return {name: texts[name] for name in self.given}

    def bounds(self, counts: Counts, baseline: TabularPolicy) -> Bounds:
        """Return the limits as numbers, or name the state and the limit that cannot be kept."""
        return Bounds.of(self, counts, baseline)


@dataclass(frozen=True, eq=False)
class Bounds:
    """Limits in the states and actions of a problem.

    Attributes:
        start: The baseline without what is forbidden, shape (S, A).
        upper: Largest probabilities, at least those of ``start``, shape (S, A).
        acts: States in which something is done, whose changes count, shape (S,).
        max_states: As in `Limits`.
        min_gain: As in `Limits`.
        costs: A_k(x, a), the baseline's advantage in each cost, shape (K, S, A); None: no costs.
    """

    start: Array
    upper: Array
    acts: NDArray[np.bool_]
    max_states: int | None = None
    min_gain: float | None = None
    costs: Array | None = None

    @classmethod
    def of(cls, limits: Limits, counts: Counts, baseline: TabularPolicy) -> Bounds:
        """See `Limits.bounds`."""
        b = baseline.probabilities
        upper = np.ones(b.shape)
        locked = _places(limits.lock, counts.states, "state", "lock")
        upper[locked] = b[locked]
        kept = _places(limits.no_increase, counts.actions, "action", "no_increase")
        upper[:, kept] = np.minimum(upper[:, kept], b[:, kept])
        if limits.allowed is not None:
            mask = _mask(limits.allowed, counts)
            upper = np.where(mask, upper, np.minimum(upper, b))
        forbidden = _places(limits.forbid, counts.actions, "action", "forbid")
        for name, most in _numbers(limits.cap_increase, counts.actions, "cap_increase"):
            upper[:, name] = np.minimum(upper[:, name], b[:, name] + most)
        for name, most in _numbers(limits.cap, counts.actions, "cap"):
            if name not in forbidden:
                _check_cap(counts, b, name, most)
            # A row that nobody needs may be above the cap: the state was never met.
            upper[:, name] = np.minimum(upper[:, name], np.maximum(most, b[:, name]))
        start = b
        if forbidden:
            upper[:, forbidden] = 0.0
            start = _without_forbidden(limits, counts, b, upper)
        acts = ~counts.terminal
        n_forced = int(((start != b).any(axis=1) & acts).sum())
        if limits.max_states is not None and n_forced > limits.max_states:
            raise SettingsError(
                f"forbid changes {n_forced} states, and max_states is {limits.max_states}",
                expected="as many states as forbid changes, at least",
                hint="raise max_states, or use no_increase in the place of forbid",
            )
        gain = None if limits.min_gain is None else float(limits.min_gain)
        return cls(start, np.maximum(upper, start), acts, limits.max_states, gain)

    def with_costs(self, names: Iterable[str], costs: Array, counts: Counts) -> Bounds:
        """Return the bounds with costs, unless what is forbidden makes one of them rise."""
        found = replace(self, costs=costs)
        risen = found.risen(self.start)
        if risen.any():
            k, x = (int(place) for place in np.argwhere(risen)[0])
            raise SettingsError(
                f"to leave out what is forbidden raises the cost {tuple(names)[k]}",
                where=counts.place(x),
                expected="forbid that raises no cost",
                hint="use no_increase in the place of forbid, or leave that cost out",
            )
        return found

    def risen(self, policy: Array) -> NDArray[np.bool_]:
        """Return where a policy costs more than the baseline, shape (K, S)."""
        assert self.costs is not None, "costs are given"
        more = (self.costs * policy).sum(axis=2)
        scale = np.abs(self.costs).max(axis=(1, 2), initial=0.0)[:, None]
        return np.asarray((more > COST_ROUNDING * scale) & self.acts)

    def exceeded(self, policy: Array) -> NDArray[np.bool_]:
        """Return where a policy has more probability than it may, shape (S, A).

        Where everything is over nothing is done, whatever a row says.
        """
        return np.asarray((policy > self.upper + ROUNDING) & self.acts[:, None])


def _without_forbidden(limits: Limits, counts: Counts, b: Array, upper: Array) -> Array:
    """Move the baseline's mass on forbidden actions to the others in proportion, within bounds."""
    start = np.array(b)
    for x in np.flatnonzero((b > upper).any(axis=1)):
        row = fill_row(np.where(b[x] > upper[x], 0.0, b[x]), upper[x])
        if row.sum() < 1.0 - ROUNDING and not counts.is_met[x]:  # nobody acts there: any will do
            row = fill_row((upper[x] > 0.0).astype(float), upper[x])
        if row.sum() < 1.0 - ROUNDING:
            others = [name for name in limits.given if name not in ("forbid", *_OF_STATES)]
            alone = bool((b[x][upper[x] > 0.0] == 0.0).all())
            why = (
                "the baseline takes forbidden actions alone"
                if alone
                else f"the other actions may not rise that far ({', '.join(others)})"
            )
            lost = float(b[x][b[x] > upper[x]].sum())
            raise SettingsError(
                f"forbid takes {lost:.4g} of the probability away, and {why}",
                where=counts.place(int(x)),
                expected="actions that can take its place in every state",
                hint="use no_increase in the place of forbid, or leave the other limit out",
            )
        start[x] = row
    return start


def fill_row(weights: Array, upper: Array) -> Array:
    """Return a row proportional to weights, cut at the bounds; less than 1 where these are full.

    Example:
        >>> fill_row(np.array([0.5, 0.25, 0.0]), np.array([0.6, 1.0, 1.0]))
        array([0.6, 0.4, 0. ])
    """
    full = np.zeros(len(weights), dtype=np.bool_)
    while True:
        left, weight = 1.0 - upper[full].sum(), weights[~full].sum()
        scale = left / weight if weight > 0.0 else 0.0
        row = np.where(full, upper, weights * scale)
        over = ~full & (row > upper)
        if not over.any():
            return np.asarray(row)
        full |= over


def _check_cap(counts: Counts, b: Array, action: int, most: float) -> None:
    above = np.flatnonzero(counts.is_met & (b[:, action] > most + ROUNDING))
    if len(above):
        x, name = int(above[0]), counts.actions[action]
        raise SettingsError(
            f"cap of {name} is {most:g}, less than the baseline's {b[x, action]:.4g}, in "
            f"{len(above)} state{'s' * (len(above) > 1)}",
            where=counts.place(x),
            expected="at least what the baseline does",
            hint=f"raise the cap to {b[above, action].max():.4g}, or forbid {name}, or leave it at "
            "the baseline's by no_increase",
        )


def _mask(allowed: Any, counts: Counts) -> NDArray[np.bool_]:
    """Return which pairs are allowed, or refuse a state in which nothing is."""
    shape = counts.n_sa.shape
    if isinstance(allowed, np.ndarray) and allowed.ndim == 2 and allowed.dtype == np.bool_:
        if allowed.shape != shape:
            raise SettingsError(f"allowed has shape {allowed.shape}", expected=f"shape {shape}")
        mask = allowed
    else:
        rows = list(allowed)
        is_flagged = any(not isinstance(row, str) and len(row) == 3 for row in rows)
        mask = np.full(shape, is_flagged)
        for row in rows:
            if isinstance(row, str) or len(row) != (3 if is_flagged else 2):
                raise SettingsError(
                    f"allowed holds {row!r}",
                    expected="booleans (S, A), or pairs (state, action), or (state, action, "
                    "whether it is allowed)",
                )
            state = _place(str(row[0]), counts.states, "state", "allowed")
            action = _place(str(row[1]), counts.actions, "action", "allowed")
            mask[state, action] = bool(row[2]) if is_flagged else True
    empty = np.flatnonzero(~mask.any(axis=1) & counts.is_met)
    if len(empty):
        raise SettingsError(
            f"allowed leaves no action in {len(empty)} state{'s' * (len(empty) > 1)}",
            where=counts.place(int(empty[0])),
            expected="an action that is allowed in every state of the log",
            hint="name such a state in lock, if the baseline is to be kept there",
        )
    return np.asarray(mask)


def _numbers(given: Mapping[Any, float], names: Names, limit: str) -> Iterator[tuple[int, float]]:
    for name, number in given.items():
        yield _place(str(name), names, "action", limit), float(number)


def _places(given: Iterable[str], names: Names, what: str, limit: str) -> list[int]:
    return [_place(name, names, what, limit) for name in given]


def _place(name: str, known: Names, what: str, limit: str) -> int:
    if name not in known.places:
        near = nearest(name, known)
        raise SettingsError(
            f"{limit} names the {what} {name!r}",
            expected=f"one of the log or the baseline, such as {near or known[0]!r}",
            hint="check that names are spelt alike",
        )
    return known.places[name]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
