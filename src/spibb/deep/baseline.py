"""Baselines on continuous states: a softmax of a Q-network, or any callable.

A baseline is whatever maps states (..., d) to probabilities (..., A): an object with a method
``action_probabilities``, as :class:`SoftmaxNetwork`, or a plain function.
:func:`checked_probabilities` asks either, and checks the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spibb.compiled.arrays import check_rows, namespace
from spibb.deep.network import Network, checked_answers, read_arrays
from spibb.errors import LARGEST, PolicyError, checked_number

Probabilities = Callable[[Any], Any]
# Rows of float32 probabilities sum to one up to this.
_TOLERANCE = 1e-4
# Colder, and Q / temperature leaves float32.
_COLDEST = 1e-30


@dataclass(frozen=True, eq=False)
class SoftmaxNetwork:
    """The policy softmax(Q / temperature) of a dense ReLU network.

    Args:
        network: The Q-network.
        temperature: >= 1e-30; small is nearly greedy.
        metadata: What its file says about it.

    Example:
        >>> policy = SoftmaxNetwork(Network([[[1.0], [-1.0]]], [[0.0, 0.0]]), temperature=2.0)
        >>> policy.action_probabilities([[0.0], [1.0]]).round(3)
        array([[0.5  , 0.5  ],
               [0.731, 0.269]], dtype=float32)
    """

    network: Network
    temperature: float
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.network, Network):
            raise PolicyError(
                f"the network is {type(self.network).__name__}",
                expected="a spibb.deep.Network",
                hint="Network.from_file reads one, Network.from_flat makes one of parameters",
            )
        told = f"a number, at least {_COLDEST:g}, in the file or given as temperature=0.1"
        value = checked_number(self.temperature, "temperature", told, least=_COLDEST, most=LARGEST)
        object.__setattr__(self, "temperature", value)

    def action_probabilities(self, states: Any) -> Any:
        """Return the probabilities of the actions, shape (..., A), float32.

        NumPy arrays in, NumPy arrays out; torch tensors come back on their device.
        """
        scaled = self.network.q(states) / self.temperature
        xp = namespace(scaled)
        # The largest value is subtracted, so that nothing overflows.
        powers = xp.exp(scaled - xp.amax(scaled, -1)[..., None])
        return powers / powers.sum(-1)[..., None]

    @classmethod
    def read(cls, path: str | Path, temperature: float | None = None) -> SoftmaxNetwork:
        """Read a dense ReLU network, ``weight_0, bias_0, ...``, from a safetensors file.

        Args:
            path: The file.
            temperature: Temperature of the softmax; the one in the file's metadata where None.
        """
        arrays, metadata = read_arrays(path)
        network = Network.from_arrays(arrays, source=str(path))
        chosen: Any = metadata.get("temperature") if temperature is None else temperature
        return cls(network, chosen, metadata)


def as_function(policy: Any, name: str = "the policy") -> Probabilities:
    """Return a policy as a function of states.

    Args:
        policy: An object with a method ``action_probabilities``, or a callable.
        name: What it is, for the message.
    """
    ask = getattr(policy, "action_probabilities", policy)
    if not callable(ask):
        raise PolicyError(
            f"{name} is {type(policy).__name__}",
            expected="a callable, or an object with a method action_probabilities",
            hint="wrap a network as SoftmaxNetwork(network, temperature=0.1)",
        )
    return ask  # type: ignore[no-any-return]


def checked_probabilities(baseline: Any, states: Any, n_actions: int) -> Any:
    """Ask a baseline about states (..., d), and return its probabilities (..., A), float32."""
    found = as_function(baseline, "the baseline")(states)
    rows = checked_answers(found, states, n_actions, "the baseline's probabilities", PolicyError)
    check_distributions(rows)
    return rows


def check_distributions(rows: Any) -> None:
    """Raise unless rows, an array or a tensor, are distributions up to the rounding of float32."""
    check_rows(
        (rows >= 0).all(-1) & (abs(rows.sum(-1) - 1) <= _TOLERANCE),  # false for NaN
        lambda place: f"the baseline's probabilities are {rows[place].tolist()}",
        expected="numbers >= 0 that sum to one",
        hint="divide each row by its sum, and check the baseline for NaN",
        error=PolicyError,
    )
