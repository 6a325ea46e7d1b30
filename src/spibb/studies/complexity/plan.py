"""The plan of the study: the gridworld with its actions multiplied."""

from __future__ import annotations

from dataclasses import dataclass, field

from spibb.algorithms.basic_rl import BasicRL
from spibb.algorithms.soft_spibb import ApproxSoftSPIBB, ExactSoftSPIBB
from spibb.algorithms.spibb_family import PiBSPIBB
from spibb.errors import SettingsError
from spibb.studies.plan import Plan, Setting, check_whole

# Actions of the gridworld before they are multiplied.
N_MOVES = 4


@dataclass(frozen=True)
class ComplexityPlan(Plan):
    """What the study varies; fields as in :class:`Plan`, but for these.

    Attributes:
        etas: Temperatures of the baseline, a softmax of the optimal Q.
        sizes: Numbers of actions, multiples of 4.
        trajectories_per_action: Trajectories of a log for each action, so that pairs are seen as
            often however many actions there are.
        n_timed: Logs that are timed alone, one after another: those of the first runs.
        n_together: Logs that are timed in one batch; 0: none.
        n_repeats: How often each is timed; the median counts.
    """

    second_goal: float = field(init=False, default=0.0)
    n_states: int = field(init=False, default=0)
    n_actions: int = field(init=False, default=0)
    n_successors: int = field(init=False, default=0)
    trajectories_per_action: int = 25
    n_timed: int = 20
    n_together: int = 50
    n_repeats: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        odd = [size for size in self.sizes if size < N_MOVES or size % N_MOVES]
        if odd:
            raise SettingsError(
                f"a gridworld of {odd[0]} actions", expected=f"multiples of its {N_MOVES} actions"
            )
        if min(self.etas) <= 0:
            raise SettingsError(f"the temperature is {min(self.etas)}", expected="a number > 0")
        least = {"trajectories_per_action": 1, "n_timed": 1, "n_repeats": 1, "n_together": 0}
        for name, smallest in least.items():
            check_whole(getattr(self, name), name, smallest)


def _complexity() -> ComplexityPlan:
    exact, approx = (kind(epsilon=1.0, delta=1.0) for kind in (ExactSoftSPIBB, ApproxSoftSPIBB))
    return ComplexityPlan(
        study="complexity",
        name="complexity",
        seed=2021,
        n_runs=200,
        runs_per_job=10,
        etas=(0.1,),
        sizes=(4, 8, 16, 32, 64, 128, 256),
        max_steps=50,
        settings=(
            Setting.of("Basic RL", BasicRL()),
            Setting.of("Pi_b-SPIBB, n_wedge=10", PiBSPIBB(n_wedge=10), "n_wedge: Pi_b-SPIBB", 10),
            Setting.of("Exact-Soft-SPIBB, epsilon=1", exact, "epsilon: Exact-Soft-SPIBB", 1),
            Setting.of("Approx-Soft-SPIBB, epsilon=1", approx, "epsilon: Approx-Soft-SPIBB", 1),
        ),
    )


PLANS: dict[str, ComplexityPlan] = {plan.name: plan for plan in (_complexity(),)}
