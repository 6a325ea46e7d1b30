"""Fitted policies: a Q-network, the rule it was trained by, and what the rule needs to act.

    pi(. | x) = the rule's step at (Q(x), pi_b(. | x), N~(x, .)),

the same step as in the targets. Greedy rules (DQN, Double-DQN, RaMDP-DQN) need Q alone. A whole
population acts at once as `PopulationPolicy`: what a member does in a state depends on nothing
else, bit for bit on NumPy arrays; on tensors batched products round as the batch suggests.

A policy is a folder of safetensors and JSON, never pickles: the network, the baseline's network,
and the points of the pseudo-counts. A baseline that is any callable, and pseudo-counts of
your own, can act but cannot be stored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from spibb.atomic_files import as_path, reason, write_whole
from spibb.atomic_folders import write_folder
from spibb.compiled.arrays import is_tensor, namespace, on_device, to_numpy
from spibb.compiled.random_numbers import check_rng
from spibb.deep.baseline import SoftmaxNetwork, as_function, checked_probabilities
from spibb.deep.forward import Networks
from spibb.deep.network import Network, checked_observations, read_arrays, write_arrays
from spibb.deep.pseudo_counts import FittedCounts, FittedKernelCounts, checked_counts
from spibb.deep.rules import Rule
from spibb.deep.targets import checked_step, improved_rows
from spibb.deep.transitions import Floats, checked_scale
from spibb.errors import DataError, OutputError, PolicyError

_FORMAT, _KERNEL = "spibb-policy-2", "kernel"
_FILES = ("policy.json", "network.safetensors", "baseline.safetensors", "counts.safetensors")
_ABOUT, _NETWORK, _BASELINE, _POINTS = _FILES


@dataclass(frozen=True, eq=False)
class NetworkPolicy:
    """A policy on observations.

    Args:
        network: Its Q-network.
        rule: The rule it was trained by.
        baseline: The baseline, an object with a method ``action_probabilities`` or a callable;
            greedy rules do without.
        pseudo_counts: Fitted pseudo-counts; greedy rules do without.
        scale: Units of the observation's coordinates: network and pseudo-counts see observations
            divided by them. None: as they are.

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
    scale: Floats | None = None

    def __post_init__(self) -> None:
        network, operator = self.network, checked_step(self.rule).operator
        if not isinstance(network, Network):
            expected, hint = "a spibb.deep.Network", "population.policy(0) puts it together"
            raise PolicyError(f"the network is {network!r}", expected=expected, hint=hint)
        if self.scale is not None:
            object.__setattr__(self, "scale", checked_scale(self.scale, network.n_features))
        if not operator.needs.errors:
            return
        if self.baseline is None or not callable(getattr(self.pseudo_counts, "counts", None)):
            missing = "baseline" if self.baseline is None else "fitted pseudo-counts"
            raise PolicyError(
                f"{self.rule.id} acts without {missing}",
                expected="the baseline and the fitted pseudo-counts that it was trained with",
                hint="TrainingData.from_transitions(transitions, baseline, counts) keeps them",
            )
        own = (network.n_features, network.n_actions)
        parts: dict[str, Any] = {"pseudo-counts": self.pseudo_counts}
        if isinstance(self.baseline, SoftmaxNetwork):
            parts["a baseline"] = self.baseline.network
        for name, part in parts.items():
            # Pseudo-counts of one's own need not tell their features.
            found = (getattr(part, "n_features", own[0]), getattr(part, "n_actions", None))
            if found != own:
                what = "{} of {} features and {} actions".format(name, *found)
                raise PolicyError(what, expected="{} and {}, as the Q-network has".format(*own))

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.network.n_actions

    def action_probabilities(self, observations: Any) -> Any:
        """Return the probabilities of the actions, shape (..., A), for shape (..., d), float32.

        NumPy arrays in, NumPy arrays out; torch tensors come back on their device.
        """
        found = checked_observations(observations, self.network.n_features)
        policy = self._alone.action_probabilities(found.reshape(1, -1, found.shape[-1]))
        return policy.reshape(*found.shape[:-1], self.n_actions)

    @cached_property
    def _alone(self) -> PopulationPolicy:
        return PopulationPolicy([self])

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

    def write(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write everything that acting needs into one folder, whole or not at all.

        Args:
            folder: Where it shall appear.
            overwrite: Replace an earlier policy that is there.
        """
        scale = None if self.scale is None else self.scale.tolist()
        about = {"format": _FORMAT, "rule": self.rule.to_config(), "scale": scale}
        baseline, counts = self.baseline, self.pseudo_counts
        if not self.rule.is_greedy:
            if not isinstance(baseline, SoftmaxNetwork):
                raise _cannot_store("a baseline", baseline, "spibb.deep.SoftmaxNetwork")
            if not isinstance(counts, FittedKernelCounts):
                raise _cannot_store("pseudo-counts", counts, "those of KernelCounts")
            about["pseudo_counts"] = {"kind": _KERNEL, "axis": counts.axis, "width": counts.width}

        def fill(part: Path) -> None:
            self.network.write(part / _NETWORK)
            if "pseudo_counts" in about:
                baseline.network.write(part / _BASELINE, {"temperature": baseline.temperature})
                arrays = {name: getattr(counts, name) for name in ("points", "bounds")}
                write_arrays(part / _POINTS, arrays, {"format": "spibb-counts-1"})
            write_whole(part / _ABOUT, json.dumps(about, indent=2).encode())

        write_folder(as_path(folder), fill, overwrite=overwrite, known=_FILES)

    @classmethod
    def read(cls, folder: str | Path) -> NetworkPolicy:
        """Read what :meth:`write` wrote."""
        part = as_path(folder, DataError)
        about = _read_about(part / _ABOUT)
        network = Network.from_file(part / _NETWORK)
        try:
            rule, scale = Rule.from_config(about["rule"]), about["scale"]
            if rule.is_greedy:
                return cls(network, rule, scale=scale)
            baseline = SoftmaxNetwork.read(part / _BASELINE)
            settings = dict(about["pseudo_counts"])
            if (kind := settings.pop("kind")) != _KERNEL:
                raise DataError(f"its pseudo-counts are {kind!r}", expected=repr(_KERNEL))
            settings |= read_arrays(part / _POINTS)[0]
            counts = FittedKernelCounts(**settings)
            return cls(network, rule, baseline, counts, scale)
        except (KeyError, TypeError, ValueError) as problem:  # SpibbError is a ValueError
            told = str(problem).rstrip(".")
            what = f"{folder} lacks an entry of a policy or has a wrong one ({told})"
            raise DataError(what, expected="what NetworkPolicy.write wrote") from None


class PopulationPolicy:
    """Policies of networks of one shape that act at once: thousands of states in a call.

    Args:
        policies: The policies; a `SoftmaxNetwork` among them is asked by itself, and so is whatever
            else has probabilities if there is a `NetworkPolicy`.
        is_over: Where nobody asks what is done, a function of states (N, d) to booleans (N,):
            counting is most of the work, and there nothing is counted. None: nowhere.

    Example:
        Each member sees states of its own.

        >>> from spibb.deep.rules import DQN
        >>> networks = [Network([[[sign], [0.0]]], [[0.0, 0.0]]) for sign in (1.0, -1.0)]
        >>> both = PopulationPolicy([NetworkPolicy(network, DQN()) for network in networks])
        >>> both.action_probabilities(np.ones((2, 1, 1), np.float32)).tolist()
        [[[1.0, 0.0]], [[0.0, 1.0]]]
    """

    def __init__(
        self, policies: Sequence[Any], *, is_over: Callable[[Any], Any] | None = None
    ) -> None:
        if not policies:
            raise PolicyError("there is no policy", expected="at least one")
        ours = [k for k, policy in enumerate(policies) if isinstance(policy, NetworkPolicy)]
        chosen = [policies[k] for k in ours]
        if len({policy.network.sizes for policy in chosen}) > 1:
            raise PolicyError("the networks differ in shape", expected="networks of one shape")
        self._others = [(k, as_function(one)) for k, one in enumerate(policies) if k not in ours]
        self._places, self._policies, self._is_over = np.array(ours, np.int64), chosen, is_over
        # Of a network: a policy's own, or a baseline's.
        first = (chosen or policies)[0].network
        self._shape, self._n_actions = (len(policies), first.n_features), first.n_actions
        units = [np.ones(1) if policy.scale is None else policy.scale for policy in chosen]
        self._scale = np.array(np.broadcast_arrays(*units), np.float32)[:, None]
        if chosen:
            params = np.stack([policy.network.to_flat() for policy in chosen])
            self._networks = Networks(params, first.sizes)
        # Members of one step that ask one baseline and one way to count.
        groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        for k, policy in enumerate(chosen):
            step = checked_step(policy.rule)
            asked = (id(policy.baseline), id(policy.pseudo_counts))
            key = (step.operator, *(asked if step.operator.needs.errors else ()))
            groups.setdefault(key, []).append((k, [[step.n_wedge]], [step.epsilon]))
        self._groups = [(k[0], *map(np.array, zip(*own, strict=True))) for k, own in groups.items()]

    def action_probabilities(self, states: Any) -> Any:
        """Return the probabilities of states (R, E, d), member r's in row r: shape (R, E, A).

        NumPy arrays in, NumPy arrays out; torch tensors come back on their device.
        """
        n_policies, n_features = self._shape
        states = checked_observations(states, n_features, "states")
        if states.ndim != 3 or len(states) != n_policies:
            expected = f"({n_policies}, E, d), as there are policies"
            raise DataError(f"states have shape {tuple(states.shape)}", expected=expected)
        device = states.device if is_tensor(states) else None
        out = _zeros((*states.shape[:-1], self._n_actions), states)
        for member, ask in self._others:
            out[member] = ask(states[member])
        if not self._policies:
            return out
        places = on_device(self._places, device)
        given = states[places]
        # Where nobody has units they are 1, which changes nothing.
        seen = given / on_device(self._scale, device)
        q = self._networks.q(seen)
        for operator, members, *numbers in self._groups:
            own, *limits = (on_device(part, device) for part in (members, *numbers))
            answers = (None, None)
            if operator.needs.errors:
                answers = self._ask(self._policies[members[0]], given[own], seen[own])
            out[places[own]] = improved_rows(operator, q[own], *answers, *limits)
        return out

    def _ask(self, policy: NetworkPolicy, given: Any, seen: Any) -> tuple[Any, Any]:
        """Ask baseline and pseudo-counts; where nobody asks what is done, nothing is counted."""
        n_actions, shape = self._n_actions, (*given.shape[:-1], self._n_actions)
        given, seen = (part.reshape(-1, part.shape[-1]) for part in (given, seen))
        baseline = checked_probabilities(policy.baseline, given, n_actions)
        if self._is_over is None:
            counts = checked_counts(policy.pseudo_counts, seen, n_actions)
        else:
            counts, is_asked = _zeros((len(seen), n_actions), seen), ~self._is_over(given)
            counts[is_asked] = checked_counts(policy.pseudo_counts, seen[is_asked], n_actions)
        return baseline.reshape(shape), counts.reshape(shape)


def _zeros(shape: tuple[int, ...], like: Any) -> Any:
    """Return float32 zeros of the kind of an array, on its device."""
    if not is_tensor(like):
        return np.zeros(shape, np.float32)
    return like.new_zeros(shape, dtype=namespace(like).float32)


def _read_about(path: Path) -> dict[str, Any]:
    """Return what a policy's JSON says, or that there is no policy."""
    try:
        about = json.loads(path.read_bytes())
        told = f"the format of {path.name} is another"
    except (OSError, ValueError, RecursionError) as problem:
        about, told = None, reason(problem)
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise DataError(
            f"{path.parent} holds no policy: {told}",
            expected=f"a folder with {path.name} of format {_FORMAT!r}",
            hint="a bare network is read by spibb.deep.Network.from_file",
        )
    return about


def _cannot_store(what: str, found: Any, expected: str) -> OutputError:
    return OutputError(
        f"{what} of type {type(found).__name__} cannot be stored",
        expected=expected,
        hint="store the Q-network alone with policy.network.write(path)",
    )
