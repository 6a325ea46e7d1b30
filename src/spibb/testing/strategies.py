"""Hypothesis strategies for rows, policies and small problems, corner cases included.

Rows come with exact zeros and ties, errors with zeros and infinities, budgets from nothing to
unlimited: where implementations of the (Soft-)SPIBB steps go wrong. Letters: q action values.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.errors import MissingDependencyError
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise MissingDependencyError(
        "spibb.testing.strategies needs the package hypothesis",
        hint='pip install "spibb[testing]"',
    ) from error

Array = NDArray[np.float64]
SoftRow = tuple[Array, Array, Array, float]
BootstrapRow = tuple[Array, Array, NDArray[np.bool_]]

# Small integers, and errors to match, make ties of values and of prices. Anything finer than 1e-3
# is noise next to a solver's tolerance.
_values = st.integers(-3, 3).map(float) | st.floats(-100.0, 100.0).map(lambda q: round(q, 3))
_errors = st.sampled_from((0.0, 0.5, 1.0, 2.0, math.inf)) | st.floats(1e-3, 10.0)
_budgets = st.sampled_from((0.0, 1.0, math.inf)) | st.floats(-12.0, 2.0).map(lambda p: 10.0**p)
_discounts = st.sampled_from((0.0, 0.5, 0.9, 0.99))


def distributions(n: int) -> st.SearchStrategy[Array]:
    """Return rows of ``n`` probabilities that sum to 1, some of them exactly zero."""
    weights = st.lists(st.integers(0, 9), min_size=n, max_size=n)
    return weights.filter(any).map(_normalised)


def policies(n_states: int, n_actions: int) -> st.SearchStrategy[TabularPolicy]:
    """Return policies, stochastic and deterministic."""
    return st.lists(distributions(n_actions), min_size=n_states, max_size=n_states).map(
        TabularPolicy
    )


@st.composite
def mdps(
    draw: st.DrawFn,
    max_states: int = 6,
    max_actions: int = 4,
    gammas: st.SearchStrategy[float] = _discounts,
) -> TabularMDP:
    """Return problems with few successors a pair, rewards of both signs, now and then an end.

    Args:
        draw: Given by Hypothesis.
        max_states: Most states of a problem.
        max_actions: Most actions of a problem.
        gammas: Discounts. With 1, not every policy need have values: few of the problems end.
    """
    n_states = draw(st.integers(1, max_states))
    n_actions = draw(st.integers(1, max_actions))
    n_pairs = n_states * n_actions
    rows = draw(st.lists(_successors(n_states), min_size=n_pairs, max_size=n_pairs))
    reward = draw(st.lists(_values, min_size=n_pairs, max_size=n_pairs))
    flags = st.lists(st.booleans(), min_size=n_states, max_size=n_states)
    return TabularMDP(
        transition=np.reshape(rows, (n_states, n_actions, n_states)),
        reward=np.reshape(reward, (n_states, n_actions)),
        gamma=draw(gammas),
        initial=draw(st.none() | distributions(n_states)),
        terminal=draw(st.none() | flags),
    )


@st.composite
def soft_rows(draw: st.DrawFn, max_actions: int = 25) -> SoftRow:
    """Return ``(q, baseline, errors, epsilon)`` for the Soft-SPIBB steps."""
    n = draw(st.integers(2, max_actions))
    q, errors = (draw(st.lists(kind, min_size=n, max_size=n)) for kind in (_values, _errors))
    return np.array(q), draw(distributions(n)), np.array(errors), draw(_budgets)


@st.composite
def bootstrap_rows(draw: st.DrawFn, max_actions: int = 25) -> BootstrapRow:
    """Return ``(q, baseline, trusted)`` for the SPIBB steps."""
    n = draw(st.integers(1, max_actions))
    q = draw(st.lists(_values, min_size=n, max_size=n))
    trusted = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return np.array(q), draw(distributions(n)), np.array(trusted)


def _successors(n_states: int) -> st.SearchStrategy[Array]:
    """Return distributions over the states that reach three of them at most."""
    states = st.integers(0, n_states - 1)
    chosen = st.dictionaries(states, st.integers(1, 9), min_size=1, max_size=3)
    return chosen.map(lambda weights: _normalised([weights.get(x, 0) for x in range(n_states)]))


def _normalised(weights: list[int]) -> Array:
    row: NDArray[Any] = np.array(weights) / sum(weights)
    return row
