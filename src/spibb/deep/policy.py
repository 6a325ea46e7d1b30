"""A fitted policy: a Q-network, the rule it was trained by, and what the rule needs to act.

    pi(. | x) = the rule's step at (Q(x), pi_b(. | x), N~(x, .)),

the same step as in the targets. Greedy rules (DQN, Double-DQN, RaMDP-DQN) need Q alone.

Files are safetensors with JSON in the header, never pickles: the network, the baseline's network,
and the points or cells of the pseudo-counts. A baseline that is any callable, and pseudo-counts of
your own, can act but cannot be stored.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.arrays import is_tensor, to_numpy
from spibb.compiled.random_numbers import check_rng
from spibb.deep.baseline import SoftmaxNetwork, as_probabilities
from spibb.deep.network import Network, checked_observations, read_arrays, write_arrays
from spibb.deep.pseudo_counts import (
    FittedCounts,
    FittedHashCounts,
    FittedKernelCounts,
    checked_counts,
)
from spibb.deep.rules import Rule
from spibb.deep.targets import checked_step, improved_policy
from spibb.errors import DataError, MissingDependencyError, OutputError, PolicyError
from spibb.whole_files import write_whole

_FORMAT = "spibb-policy-1"
_COUNTS: dict[str, type[Any]] = {"kernel": FittedKernelCounts, "hash": FittedHashCounts}


@dataclass(frozen=True, eq=False)
class NetworkPolicy:
    """A policy on observations.

    Args:
        network: Its Q-network.
        rule: The rule it was trained by.
        baseline: The baseline, an object with a method ``action_probabilities`` or a callable;
            greedy rules do without.
        pseudo_counts: Fitted pseudo-counts; greedy rules do without.

    Example:
        The second action is better, but nobody has tried it near 0: the baseline stays.

        >>> from spibb.deep.pseudo_counts import KernelCounts
        >>> from spibb.deep.rules import PiBSPIBBDQN
        >>> from spibb.deep.transitions import Transitions
        >>> data = Transitions.from_arrays([[0.0], [9.0]], [0, 1], [0, 0], [[0.0], [0.0]], [1, 1])
        >>> policy = NetworkPolicy(
        ...     Network([[[0.0], [0.0]]], [[1.0, 2.0]]), PiBSPIBBDQN(n_wedge=1),
        ...     lambda x: np.full((len(x), 2), 0.5), KernelCounts().fit(data))
        >>> policy.action_probabilities([0.0])
        array([0.5, 0.5], dtype=float32)
    """

    network: Network
    rule: Rule
    baseline: Any = None
    pseudo_counts: FittedCounts | None = None

    def __post_init__(self) -> None:
        for name, kind in (("network", Network), ("rule", Rule)):
            if not isinstance(getattr(self, name), kind):
                raise PolicyError(
                    f"the {name} is {getattr(self, name)!r}",
                    expected=f"a spibb.deep.{kind.__name__}",
                    hint="population.network(0), and the rule it was trained by",
                )
        if not checked_step(self.rule).operator.needs.errors:
            return
        if self.baseline is None or self.pseudo_counts is None:
            missing = "baseline" if self.baseline is None else "pseudo_counts"
            raise PolicyError(
                f"{self.rule.id} acts without {missing}",
                expected="the baseline and the fitted pseudo-counts that it was trained with",
            )
        if not callable(getattr(self.pseudo_counts, "counts", None)):
            raise PolicyError(
                f"the pseudo-counts are {self.pseudo_counts!r}",
                expected="fitted ones",
                hint="fit them first: KernelCounts(width).fit(transitions)",
            )
        counts, network = self.pseudo_counts, self.network
        n_features = getattr(counts, "n_features", network.n_features)
        for found, wanted, what, as_what in (
            (getattr(counts, "n_actions", None), network.n_actions, "actions", "outputs"),
            (n_features, network.n_features, "features", "inputs"),
        ):
            if found != wanted:
                raise PolicyError(
                    f"pseudo-counts of {found} {what}",
                    expected=f"{wanted}, as the network has {as_what}",
                )
        if isinstance(self.baseline, SoftmaxNetwork):
            self._check_baseline(self.baseline.network)

    def _check_baseline(self, baseline: Network) -> None:
        ours = self.network.n_features, self.network.n_actions
        if (baseline.n_features, baseline.n_actions) != ours:
            raise PolicyError(
                f"the baseline's network has {baseline.n_features} inputs and "
                f"{baseline.n_actions} outputs",
                expected=f"{ours[0]} and {ours[1]}, as the Q-network has",
            )

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.network.n_actions

    def action_probabilities(self, observations: Any) -> Any:
        """Return the probabilities of the actions, shape (..., A), for shape (..., d), float32.

        NumPy arrays in, NumPy arrays out; torch tensors come back on their device.
        """
        found = observations
        if not is_tensor(found):
            found = checked_observations(found, self.network.n_features)
        rows = found.reshape(-1, found.shape[-1]) if found.ndim > 1 else found[None]
        q = self.network.q(rows)
        baseline, counts = None, None
        if not self.rule.is_greedy:
            baseline = as_probabilities(self.baseline, self.n_actions)(rows)
            counts = checked_counts(self.pseudo_counts, rows, self.n_actions)
        policy = improved_policy(self.rule, q, baseline=baseline, counts=counts)
        return policy.reshape(*found.shape[:-1], self.n_actions)

    def act(self, observation: Any, rng: np.random.Generator | None = None) -> Any:
        """Draw an action for one observation (d,), or one for each of a batch (..., d).

        Args:
            observation: What is seen now.
            rng: Source of randomness; None: a fresh one.

        Returns:
            An int for one observation, an int64 array for a batch.
        """
        found = to_numpy(self.action_probabilities(observation))
        reached = found.astype(np.float64).cumsum(axis=-1)
        chosen = np.random.default_rng() if rng is None else rng
        check_rng(chosen)
        # The total is 1 up to rounding; drawing below it keeps the last action in range.
        draws = chosen.random(reached.shape[:-1]) * reached[..., -1]
        actions = (reached <= np.asarray(draws)[..., None]).sum(axis=-1)
        return int(actions) if actions.ndim == 0 else actions.astype(np.int64)

    def write(self, path: str | Path) -> None:
        """Write everything that acting needs into one safetensors file."""
        arrays: dict[str, NDArray[Any]] = dict(self.network.to_arrays())
        header: dict[str, Any] = {"format": _FORMAT, "rule": self.rule.to_config()}
        if not self.rule.is_greedy:
            header["baseline"] = _store_baseline(self.baseline, arrays)
            header["pseudo_counts"] = _store_counts(self.pseudo_counts, arrays)
        write_arrays(path, arrays, header)

    @classmethod
    def read(cls, path: str | Path) -> NetworkPolicy:
        """Read what :meth:`write` wrote."""
        arrays, header = read_arrays(path)
        if header.get("format") != _FORMAT:
            raise DataError(
                f"{path} holds no policy (format {header.get('format')!r})",
                expected=f"format {_FORMAT!r}",
                hint="a bare network is read by spibb.deep.network.Network.from_file",
            )
        network = Network.from_arrays(_part(arrays, ""), source=str(path))
        try:
            rule = Rule.from_config(header["rule"])
            if rule.is_greedy:
                return cls(network, rule)
            parts = _part(arrays, "baseline.")
            source = Network.from_arrays(parts, source=f"the baseline in {path}")
            baseline = SoftmaxNetwork(source, header["baseline"]["temperature"])
            about = dict(header["pseudo_counts"])
            kind = _COUNTS[about.pop("kind")]
            counts = kind(**_part(arrays, "counts."), **about)
            return cls(network, rule, baseline, counts)
        except (KeyError, TypeError, ValueError) as problem:  # SpibbError is a ValueError
            raise DataError(
                f"{path} lacks an entry of a policy or has a wrong one "
                f"({str(problem).rstrip('.')})",
                expected="what NetworkPolicy.write wrote",
            ) from None

    def to_onnx(self, path: str | Path) -> None:
        """Export the Q-network to ONNX: input ``observation`` (N, d), output ``q`` (N, A).

        The rule's step stays outside: it looks at the data set through the pseudo-counts.
        """
        try:
            import onnx
            from onnx import TensorProto, helper, numpy_helper
        except ImportError:
            raise MissingDependencyError(
                "the export needs onnx", hint='run: pip install "spibb[onnx]"'
            ) from None
        nodes, tensors, last = [], [], "observation"
        for k, (weight, bias) in enumerate(
            zip(self.network.weights, self.network.biases, strict=True)
        ):
            is_last = k + 1 == len(self.network.weights)
            tensors.append(numpy_helper.from_array(np.array(weight), f"weight_{k}"))
            tensors.append(numpy_helper.from_array(np.array(bias), f"bias_{k}"))
            out = "q" if is_last else f"sum_{k}"
            parts = [last, f"weight_{k}", f"bias_{k}"]
            nodes.append(helper.make_node("Gemm", parts, [out], transB=1))
            if not is_last:
                nodes.append(helper.make_node("Relu", [out], [f"units_{k}"]))
            last = f"units_{k}"
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])
            for name, size in (
                ("observation", self.network.n_features),
                ("q", self.network.n_actions),
            )
        ]
        graph = helper.make_graph(nodes, "q-network", ends[:1], ends[1:], tensors)
        # Old enough for every runtime in use.
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8, producer_name="spibb"
        )
        helper.set_model_props(model, {"rule": self.rule.id})
        onnx.checker.check_model(model)
        write_whole(path, model.SerializeToString())


def _store_baseline(baseline: Any, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    if not isinstance(baseline, SoftmaxNetwork):
        raise OutputError(
            f"a baseline that is a {type(baseline).__name__} cannot be stored",
            expected="spibb.deep.baseline.SoftmaxNetwork",
            hint="store the Q-network alone with policy.network.write(path)",
        )
    arrays |= {f"baseline.{name}": part for name, part in baseline.network.to_arrays().items()}
    return {"temperature": float(baseline.temperature)}


def _store_counts(counts: Any, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    for name, kind in _COUNTS.items():
        if type(counts) is kind:
            about: dict[str, Any] = {"kind": name}
            for item in fields(kind):
                value = getattr(counts, item.name)
                if isinstance(value, np.ndarray):
                    arrays[f"counts.{item.name}"] = value
                else:
                    about[item.name] = value
            return about
    raise OutputError(
        f"pseudo-counts that are a {type(counts).__name__} cannot be stored",
        expected="those of KernelCounts or HashCounts",
        hint="store the Q-network alone with policy.network.write(path)",
    )


def _part(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Return the arrays under a prefix; under none, those without one."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if (name.startswith(prefix) if prefix else "." not in name)
    }
