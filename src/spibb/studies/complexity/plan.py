"""The plan of the study: the gridworld with its actions multiplied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from spibb.algorithms.basic_rl import BasicRL
from spibb.algorithms.soft_spibb import ApproxSoftSPIBB, ExactSoftSPIBB
from spibb.algorithms.spibb_family import PiBSPIBB
from spibb.data.estimate import Unseen, checked_unseen
from spibb.studies.plan import Plan, Setting, check_discount, check_whole, factor
from spibb.studies.version1 import Renamed

# Actions of the gridworld before they are multiplied.
N_MOVES = 4


@dataclass(frozen=True, kw_only=True)
class ComplexityPlan(Plan):
    """What the study varies; a run is a new log.

    Attributes:
        temperature: Temperatures of the baseline, a softmax of the optimal Q.
        actions: Numbers of actions, multiples of 4.
        max_steps: Longest trajectory.
        gamma: The discount.
        unseen: What pairs without data do in the estimated models.
        trajectories_per_action: Trajectories of a log for each action, so that pairs are seen as
            often however many actions there are.
        n_timed: Logs that are timed alone, one after another: those of the first runs.
        n_together: Logs that are timed in one batch; 0: none.
        n_repeats: How often each is timed; the median counts.
    """

    study: ClassVar[str] = "complexity"
    # As those of the study on random MDPs.
    present_rules: ClassVar[int] = 2
    columns: ClassVar[Mapping[str, str]] = {"n_iterations": "whole numbers"}
    reader1 = Renamed("temperature", "actions")

    temperature: tuple[float, ...] = factor("temperature", float, lambda x: x > 0, "a number > 0")
    actions: tuple[int, ...] = factor(
        "number of actions", int, lambda x: x % N_MOVES == 0, f"multiples of its {N_MOVES} actions"
    )
    max_steps: int
    gamma: float = 0.95
    unseen: Unseen = "terminal"
    trajectories_per_action: int = 25
    n_timed: int = 20
    n_together: int = 50
    n_repeats: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        self.demand("temperature", "actions")
        checked_unseen(self.unseen)
        check_discount(self.gamma)
        least = {
            "max_steps": 1, "trajectories_per_action": 1, "n_timed": 1, "n_repeats": 1,
            "n_together": 0,
        }  # fmt: skip
        for name, smallest in least.items():
            check_whole(getattr(self, name), name, smallest)


def _complexity() -> ComplexityPlan:
    exact, approx = (kind(epsilon=1.0, delta=1.0) for kind in (ExactSoftSPIBB, ApproxSoftSPIBB))
    return ComplexityPlan(
        name="complexity",
        seed=2021,
        n_runs=200,
        runs_per_job=10,
        temperature=(0.1,),
        actions=(4, 8, 16, 32, 64, 128, 256),
        max_steps=50,
        settings=(
            Setting.of("Basic RL", BasicRL()),
            Setting.of("Pi_b-SPIBB", PiBSPIBB(n_wedge=10), "n_wedge", 10),
            Setting.of("Exact-Soft-SPIBB", exact, "epsilon", 1),
            Setting.of("Approx-Soft-SPIBB", approx, "epsilon", 1),
        ),
    )


PLANS = (_complexity(),)
