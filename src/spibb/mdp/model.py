"""A finite Markov decision process: dense or sparse, with episodes that may end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from spibb.errors import ModelError, checked_number
from spibb.mdp.batch import ModelArrays
from spibb.memory import check_fits

_SUM_TOLERANCE = 1e-8


class _OwnRows(sp.csr_array):
    """Rows that were made for a model and nobody else holds: there is no need to copy them."""


@dataclass(frozen=True, eq=False)
class TabularMDP:
    """A Markov decision process with finitely many states and actions.

    Args:
        transition: P(x' | x, a), shape (S, A, S), or sparse of shape (S * A, S).
        reward: Expected reward R(x, a), shape (S, A).
        gamma: Discount in [0, 1]; 1 is for processes that end under every policy in play.
        initial: Distribution of the first state; None is uniform over non-terminal states.
        terminal: Which states end the episode; nothing is earned there or after.
        ending: Probability that the episode ends with this step, shape (S, A); transitions and
            ending sum to one. None: rows of `transition` sum to one, or are all zero and end.
        entry_reward: What entering each state pays, shape (S,), where rewards depend on nothing
            else; then `reward` is None and follows from it. Sampled rewards are those of the states
            that are entered; without it they are the expected ones.

    Example:
        One state that pays 1 and continues: worth 1 / (1 - gamma).

        >>> mdp = TabularMDP(transition=[[[1.0]]], reward=[[1.0]], gamma=0.5)
        >>> from spibb.mdp.evaluation import evaluate
        >>> evaluate(mdp, [[1.0]]).v
        array([2.])
    """

    transition: Any
    reward: NDArray[np.float64]
    gamma: float
    initial: NDArray[np.float64]
    terminal: NDArray[np.bool_]
    ending: NDArray[np.float64]
    entry_reward: NDArray[np.float64] | None

    def __init__(
        self,
        transition: Any,
        reward: ArrayLike | None,
        gamma: float,
        initial: ArrayLike | None = None,
        terminal: ArrayLike | None = None,
        ending: ArrayLike | None = None,
        entry_reward: ArrayLike | None = None,
    ) -> None:
        entry, rewards = _checked_rewards(transition, reward, entry_reward)
        if rewards.ndim != 2 or 0 in rewards.shape:
            raise ModelError(
                f"a reward table of shape {rewards.shape}", expected="(states, actions)"
            )
        n_states, n_actions = rewards.shape
        is_terminal = _checked_terminal(terminal, n_states)
        rows, kept = _checked_transition(transition, n_states, n_actions, is_terminal)
        if not np.isfinite(rewards).all():
            state, action = np.argwhere(~np.isfinite(rewards))[0]
            raise ModelError(
                f"reward {rewards[state, action]}",
                where=f"state {state}, action {action}",
                expected="finite numbers",
            )
        rewards[is_terminal] = 0.0
        fields = {
            "transition": kept,
            "reward": _frozen(rewards),
            "gamma": checked_gamma(gamma),
            "terminal": _frozen(is_terminal),
            "initial": _frozen(_checked_initial(initial, is_terminal)),
            "ending": _frozen(_checked_ending(ending, rows, n_states, n_actions)),
            "entry_reward": None if entry is None else _frozen(entry),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_rows", rows)

    @classmethod
    def of_arrays(cls, arrays: ModelArrays, terminal: ArrayLike) -> TabularMDP:
        """Build, and check, the model of arrays, whose rows become its own."""
        indptr, indices, data = arrays.rows
        shape = (arrays.reward.size, len(arrays.reward))
        rows = _OwnRows((data, indices, indptr), shape=shape)
        return cls(rows, arrays.reward, arrays.gamma, arrays.initial, terminal, arrays.ending)

    def __repr__(self) -> str:
        return (
            f"<TabularMDP: {self.n_states:,} states, {self.n_actions:,} actions, "
            f"gamma {self.gamma:g}, {int(self.terminal.sum()):,} terminal states>"
        )

    @property
    def n_states(self) -> int:
        """Number of states."""
        return int(self.reward.shape[0])

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.reward.shape[1])

    @property
    def rows(self) -> sp.csr_array:
        """P as a sparse matrix of shape (S * A, S); row x * A + a is P(. | x, a)."""
        rows: sp.csr_array = self._rows  # type: ignore[attr-defined]
        return rows

    @cached_property
    def dense(self) -> NDArray[np.float64]:
        """P as an array of shape (S, A, S)."""
        shape = (self.n_states, self.n_actions, self.n_states)
        size = f"{self.n_states:,} x {self.n_actions:,} x {self.n_states:,}"
        check_fits(8 * self.rows.shape[0] * self.n_states, f"{size} probabilities", "use rows")
        return np.asarray(self.rows.toarray()).reshape(shape)

    def with_reward(self, reward: ArrayLike) -> TabularMDP:
        """Return the same process with other rewards."""
        return TabularMDP(
            self.transition, reward, self.gamma, self.initial, self.terminal, self.ending
        )


def checked_gamma(gamma: float) -> float:
    """Return the discount as a float, or refuse it."""
    return checked_number(gamma, "gamma", "a discount in [0, 1]", least=0.0, most=1.0)


def _as_array(values: Any, name: str) -> NDArray[np.float64]:
    try:
        return np.array(values, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise ModelError(f"{name} is not an array of numbers ({error})") from None


def _checked_rewards(
    transition: Any, reward: ArrayLike | None, entry_reward: ArrayLike | None
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64]]:
    """Return what entering states pays, if that is how rewards are given, and R(x, a)."""
    if (reward is None) == (entry_reward is None):
        raise ModelError("both or neither of reward and entry_reward", expected="one of them")
    if entry_reward is None:
        return None, _as_array(reward, "reward")
    entry = _as_array(entry_reward, "entry_reward")
    if not sp.issparse(transition):
        transition = _as_array(transition, "transition")
    if entry.ndim != 1 or transition.shape[-1] != len(entry) or transition.shape[0] % len(entry):
        raise ModelError(
            f"entry_reward of shape {entry.shape}", expected="one number for each state"
        )
    return entry, np.asarray(transition @ entry).reshape(len(entry), -1)


def _frozen(array: Any) -> Any:
    array.setflags(write=False)
    return array


def _checked_terminal(terminal: ArrayLike | None, n_states: int) -> NDArray[np.bool_]:
    if terminal is None:
        return np.zeros(n_states, dtype=np.bool_)
    flags = np.asarray(terminal)
    if flags.dtype != np.bool_ or flags.shape != (n_states,):
        raise ModelError(
            f"terminal has shape {flags.shape} and type {flags.dtype}",
            expected=f"one boolean for each of the {n_states} states",
        )
    return flags.copy()


def _checked_transition(
    transition: Any, n_states: int, n_actions: int, terminal: NDArray[np.bool_]
) -> tuple[sp.csr_array, Any]:
    """Return P as canonical sparse rows, and P as the user gave it, terminal rows emptied."""
    sparse = sp.issparse(transition)
    if not sparse:
        transition = _as_array(transition, "transition")
    shape = tuple(transition.shape)
    wanted = (n_states * n_actions, n_states) if sparse else (n_states, n_actions, n_states)
    if shape != wanted:
        raise ModelError(f"transition has shape {shape}", expected=f"{wanted} to match the rewards")
    if sparse:
        is_own = isinstance(transition, _OwnRows)
        rows = sp.csr_array(transition, dtype=np.float64, copy=not is_own)
        rows.sum_duplicates()
    else:
        dense = _as_array(transition, "transition")
        dense[terminal] = 0.0
        rows = sp.csr_array(dense.reshape(n_states * n_actions, n_states))
    bad = ~np.isfinite(rows.data) | (rows.data < 0)
    if bad.any():
        row = int(np.searchsorted(rows.indptr, int(np.argmax(bad)), side="right")) - 1
        raise ModelError(
            f"transition probability {rows.data[np.argmax(bad)]}",
            where=f"state {row // n_actions}, action {row % n_actions}",
            expected="numbers between 0 and 1",
        )
    if sparse and terminal.any():
        keep = np.repeat(~terminal, n_actions).astype(np.float64)
        rows = sp.csr_array(sp.diags_array(keep) @ rows)
        rows.sort_indices()  # the product does not; the dense form does
    rows.eliminate_zeros()
    return rows, rows if sparse else _frozen(dense)


def _checked_initial(initial: ArrayLike | None, terminal: NDArray[np.bool_]) -> NDArray[np.float64]:
    if initial is None:
        live = ~terminal if not terminal.all() else np.ones_like(terminal)
        return np.asarray(live / live.sum(), dtype=np.float64)
    start = np.array(initial, dtype=np.float64)
    if start.shape != terminal.shape:
        raise ModelError(
            f"initial has shape {start.shape}",
            expected=f"a distribution over the {len(terminal)} states",
        )
    bad = ~(start >= 0)
    if bad.any():
        state = int(np.argmax(bad))
        raise ModelError(
            f"initial holds {start[state]}",
            where=f"state {state}",
            expected=f"a distribution over the {len(terminal)} states",
        )
    if abs(start.sum() - 1.0) > _SUM_TOLERANCE:
        raise ModelError(f"initial sums to {start.sum():.9g}", expected="a distribution")
    return start


def _checked_ending(
    ending: ArrayLike | None, rows: sp.csr_array, n_states: int, n_actions: int
) -> NDArray[np.float64]:
    totals = np.asarray(rows.sum(axis=1)).reshape(n_states, n_actions)
    empty = totals == 0.0
    if ending is None:
        end = empty.astype(np.float64)
    else:
        given = np.array(ending, dtype=np.float64)
        if given.shape != empty.shape or not ((given >= 0) & (given <= 1)).all():
            raise ModelError(
                f"ending of shape {given.shape}",
                expected=f"probabilities of shape {empty.shape}",
            )
        end = np.where(empty, 1.0, given)
    off = np.abs(totals + end - 1.0) > _SUM_TOLERANCE
    if off.any():
        state, action = np.argwhere(off)[0]
        raise ModelError(
            f"transition probabilities sum to {totals[state, action] + end[state, action]:.9g}",
            where=f"state {state}, action {action}",
            expected="1",
            hint="normalise the row, or give the missing mass as `ending`",
        )
    return np.asarray(end)
