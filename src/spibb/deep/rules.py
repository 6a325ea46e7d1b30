"""What a Q-network is trained towards: one frozen settings object for each algorithm.

All rules share one target (spibb.deep.targets); a rule is reduced to five scalars that every engine
understands, so that members of different rules may be trained side by side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import ClassVar, NamedTuple

from spibb.errors import LARGEST, checked_number
from spibb.operators.rows import Operator
from spibb.settings import Settings


class TargetStep(NamedTuple):
    """A rule as the engines see it.

    Attributes:
        operator: The improvement step at the next state.
        is_double: Whether the online network drives the step (else the target network).
        kappa: Penalty on the reward, kappa / sqrt(N~(x, a)).
        n_wedge: Pseudo-count from which a pair is trusted, for the bootstrapping steps.
        epsilon: Budget of the soft steps, in errors 1 / sqrt(N~).
    """

    operator: Operator
    is_double: bool = True
    kappa: float = 0.0
    n_wedge: float = 0.0
    epsilon: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Rule(Settings):
    """Base of the rules: an operator, and its settings as fields with the names of `TargetStep`."""

    family: ClassVar[str] = "rule"
    operator: ClassVar[Operator] = Operator.GREEDY
    is_double: ClassVar[bool] = True

    def step(self) -> TargetStep:
        """Return the scalars of this rule; a step that nothing limits is greedy."""
        settings = {item.name: getattr(self, item.name) for item in fields(self)}
        is_free = settings.get("n_wedge") == 0 or settings.get("epsilon") == math.inf
        return TargetStep(Operator.GREEDY if is_free else self.operator, self.is_double, **settings)

    @property
    def is_greedy(self) -> bool:
        """Whether acting needs neither baseline nor pseudo-counts."""
        return not self.step().operator.needs.errors

    def __post_init__(self) -> None:
        for item in fields(self):
            most, given = LARGEST if item.name == "kappa" else math.inf, getattr(self, item.name)
            value = checked_number(given, item.name, "a number >= 0", least=0.0, most=most)
            object.__setattr__(self, item.name, value)


@dataclass(frozen=True, kw_only=True)
class DQN(Rule):
    """y = r + gamma max_a Q_target(x', a)."""

    id: ClassVar[str] = "dqn"
    is_double: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class DoubleDQN(Rule):
    """y = r + gamma Q_target(x', argmax_a Q_online(x', a))."""

    id: ClassVar[str] = "double-dqn"


@dataclass(frozen=True, kw_only=True)
class RaMDPDQN(Rule):
    """Double-DQN on the reward r - kappa / sqrt(N~(x, a)).

    Args:
        kappa: Penalty on rare pairs; 0 is Double-DQN.
    """

    kappa: float = 0.003
    id: ClassVar[str] = "ramdp-dqn"


@dataclass(frozen=True, kw_only=True)
class PiBSPIBBDQN(Rule):
    """SPIBB-DQN: the baseline where N~(x', a) < n_wedge, greedy among the other actions.

    Args:
        n_wedge: Pseudo-count from which a pair is trusted; 0 is Double-DQN, inf the baseline.
    """

    n_wedge: float = 10.0
    id: ClassVar[str] = "pi-b-spibb-dqn"
    operator: ClassVar[Operator] = Operator.PI_B


@dataclass(frozen=True, kw_only=True)
class PiLeqBSPIBBDQN(Rule):
    """As SPIBB-DQN, but rare pairs may also lose probability.

    Args:
        n_wedge: Pseudo-count from which a pair is trusted; 0 is Double-DQN, inf the baseline.
    """

    n_wedge: float = 10.0
    id: ClassVar[str] = "pi-leq-b-spibb-dqn"
    operator: ClassVar[Operator] = Operator.PI_LEQ_B


@dataclass(frozen=True, kw_only=True)
class ApproxSoftSPIBBDQN(Rule):
    """The approximate Soft-SPIBB step at x' with errors 1 / sqrt(N~(x', a)).

    Args:
        epsilon: Budget of sum_a e(x', a) |pi(a) - pi_b(a)|; 0 is the baseline, inf Double-DQN.
    """

    epsilon: float = 0.5
    id: ClassVar[str] = "approx-soft-spibb-dqn"
    operator: ClassVar[Operator] = Operator.SOFT_APPROX


@dataclass(frozen=True, kw_only=True)
class ExactSoftSPIBBDQN(Rule):
    """The exact Soft-SPIBB step at x', in closed form.

    Args:
        epsilon: Budget as for :class:`ApproxSoftSPIBBDQN`.
    """

    epsilon: float = 0.5
    id: ClassVar[str] = "exact-soft-spibb-dqn"
    operator: ClassVar[Operator] = Operator.SOFT_EXACT


RULES: dict[str, type[Rule]] = {kind.id: kind for kind in Rule.__subclasses__()}
