"""Let a whole population act: networks of many rules on one data set, thousands of states at once.

On NumPy arrays networks are evaluated by the compiled products of the training, pseudo-counts and
improvement steps row by row: what a member does in a state depends on nothing else, bit for bit.
On a GPU the same runs on tensors, where batched products round as the batch suggests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.arrays import is_tensor, namespace, on_device
from spibb.deep.baseline import SoftmaxNetwork
from spibb.deep.forward import q_values
from spibb.deep.network import layer_places
from spibb.deep.pseudo_counts import FittedCounts
from spibb.deep.rules import Rule
from spibb.deep.targets import checked_step, improved_rows
from spibb.envs.helicopter import Helicopter
from spibb.operators.rows import Operator

Floats = NDArray[np.float32]
# Stands for members that are the baseline itself.
_BASELINE = -1


@dataclass(frozen=True, eq=False)
class Networks:
    """A population of dense ReLU networks, ready to be asked.

    Args:
        params: Flat parameters, shape (R, P), float32.
        sizes: Units of each layer.
        device: None for NumPy arrays, else where the tensors live.
    """

    params: Floats
    sizes: tuple[int, ...]
    device: str | None = None

    def __post_init__(self) -> None:
        layers = None if self.device is None else self._on_device()
        object.__setattr__(self, "_layers", layers)

    def _on_device(self) -> list[tuple[Any, Any]]:
        flat = on_device(self.params, self.device)
        return [
            (flat[:, a:b].reshape(-1, i, o), flat[:, None, b:c])
            for a, b, c, i, o in layer_places(self.sizes)
        ]

    def q(self, states: Any) -> Any:
        """Return the values of states (R, E, d), member r's in row r: shape (R, E, A)."""
        if is_tensor(states):
            return self._q_of_tensors(states)
        return q_values(self.params, self.sizes, states)

    def _q_of_tensors(self, states: Any) -> Any:
        layers: Any = self._layers  # type: ignore[attr-defined]
        values = states
        for k, (weight, bias) in enumerate(layers):
            values = namespace(states).matmul(values, weight) + bias
            values = values.relu() if k + 1 < len(layers) else values
        return values


@dataclass(frozen=True, eq=False)
class _Group:
    """Members whose rules take the same step, None: the baseline's; numbers (members, 1)."""

    operator: Operator | None
    members: Any
    n_wedge: Any
    epsilon: Any


class ActingPopulation:
    """The policies of members trained on one data set, as ``Helicopter.run_episodes`` wants them.

    Args:
        networks: Their Q-networks, R of them.
        rules: Their rules; None is the baseline itself, whose network is not looked at.
        baseline: The baseline.
        counts: Pseudo-counts of the data set.
        helicopter: The domain, which says where an episode is over.
    """

    def __init__(
        self,
        networks: Networks,
        rules: Sequence[Rule | None],
        *,
        baseline: SoftmaxNetwork,
        counts: FittedCounts,
        helicopter: Helicopter,
    ) -> None:
        self._networks = networks
        self._baseline = baseline
        self._counts = counts
        self._helicopter = helicopter
        self._groups = list(_grouped(rules, networks.device))

    def __call__(self, states: Any) -> Any:
        """Return the probabilities of states (R, E, d), member r's in row r: shape (R, E, A)."""
        q = self._networks.q(states)
        baseline = self._baseline.action_probabilities(states)
        out = namespace(q).empty_like(q)
        for group in self._groups:
            values, given, counts = q[group.members], baseline[group.members], None
            if group.operator is None:
                out[group.members] = given
                continue
            if group.operator.needs.errors:
                counts = self._counts_in_flight(states[group.members], values)
            out[group.members] = improved_rows(
                group.operator, values, given, counts, group.n_wedge[..., None], group.epsilon
            )
        return out

    def _counts_in_flight(self, states: Any, q: Any) -> Any:
        """Count where somebody flies; elsewhere nothing is known and nobody asks.

        Counting is most of the work, and helicopters that have landed wait for the last one.
        """
        flies = ~is_over(self._helicopter, states)
        found = namespace(q).zeros_like(q)
        found[flies] = self._counts.counts(states[flies])
        return found


def is_over(helicopter: Helicopter, states: Any) -> Any:
    """Say in which states, shape (..., 4), an episode has ended: outside the box, or too fast."""
    position, velocity = states[..., :2], states[..., 2:]
    is_outside = ((position <= 0) | (position >= 1)).any(-1)
    return is_outside | (abs(velocity) >= helicopter.max_speed).any(-1)


def _grouped(rules: Sequence[Rule | None], device: str | None) -> Iterator[_Group]:
    """Yield the members of each kind of step."""
    steps = [None if rule is None else checked_step(rule) for rule in rules]
    kinds = np.array([_BASELINE if step is None else int(step.operator) for step in steps])
    for kind in np.unique(kinds):
        members = np.flatnonzero(kinds == kind)
        numbers = [
            np.array([[getattr(steps[k], name, 0.0)] for k in members], np.float64)
            for name in ("n_wedge", "epsilon")
        ]
        operator = None if kind == _BASELINE else Operator(int(kind))
        yield _Group(operator, *(on_device(part, device) for part in (members, *numbers)))
