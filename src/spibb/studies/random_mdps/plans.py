"""The plans: the paper's benchmark, its hyper-parameter searches, and a small one to try.

Robust MDP and HCPI are plans of their own ("-tests"), since they cost more and no GPU does them;
they draw what their companions draw, so that the two merge into one study.

Labels carry the paper's epsilon. The released code spent twice that, so ``epsilon=2`` of a figure
is a budget of 4 here, with delta = 1: errors as a scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from spibb.algorithms.basic_rl import BasicRL
from spibb.algorithms.hcpi import HCPI
from spibb.algorithms.mbie import MBIE
from spibb.algorithms.penalised import RaMDP
from spibb.algorithms.robust_mdp import RobustMDP
from spibb.algorithms.soft_spibb import ApproxSoftSPIBB, ExactSoftSPIBB, SoftSPIBB
from spibb.algorithms.spibb_family import PiBSPIBB, PiLeqBSPIBB
from spibb.data.estimate import Unseen, checked_unseen
from spibb.studies.plan import Plan, Setting, check_discount, check_number, check_whole, factor
from spibb.studies.version1 import Renamed

ETAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SIZES = (10, 20, 50, 100, 200, 500, 1000, 2000)
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
N_WEDGES = (5, 7, 10, 15, 20, 30, 50, 70, 100)
KAPPAS = (0.001, 0.002, 0.003, 0.0035, 0.004, 0.005, 0.01, 0.02, 0.05)
ROBUST_DELTAS = (0.001, 0.01, 0.1, 0.5, 0.9)
HCPI_DELTAS = (0.01, 0.05, 0.1, 0.5, 0.9)

# label, class, one-step
_SOFT: tuple[tuple[str, type[SoftSPIBB], bool], ...] = (
    ("Exact-Soft-SPIBB", ExactSoftSPIBB, False),
    ("Approx-Soft-SPIBB", ApproxSoftSPIBB, False),
    ("Exact-Soft-SPIBB 1-step", ExactSoftSPIBB, True),
    ("Approx-Soft-SPIBB 1-step", ApproxSoftSPIBB, True),
)


@dataclass(frozen=True, kw_only=True)
class RandomMDPPlan(Plan):
    """What a study on random MDPs varies: a run is a new process, with baselines and logs.

    Attributes:
        eta: Strengths of the baselines.
        trajectories: Sizes of the logs.
        max_steps: Longest trajectory; those that reach it are truncated.
        second_goal: Reward of a second goal that is added after the baseline was made; 0: none.
        n_states: States of the processes.
        n_actions: Actions.
        n_successors: Successors of a pair.
        gamma: The discount.
        unseen: What pairs without data do in the estimated models; the paper's end for nothing.
    """

    study: ClassVar[str] = "random-mdps"
    # 2: rows move for more than rounding; the robust algorithms' sets hold at random counts and
    # know the start; R-MIN's terminal states are worth 0.
    present_rules: ClassVar[int] = 2
    reader1 = Renamed("eta", "trajectories")

    eta: tuple[float, ...] = factor("η", float, lambda x: 0 <= x <= 1, "a strength in [0, 1]")
    trajectories: tuple[int, ...] = factor("trajectories", int)
    max_steps: int
    second_goal: float
    n_states: int = 50
    n_actions: int = 4
    n_successors: int = 4
    gamma: float = 0.95
    unseen: Unseen = "terminal"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.demand("eta", "trajectories")
        checked_unseen(self.unseen)
        for name in ("max_steps", "n_states", "n_successors"):
            check_whole(getattr(self, name), name, 1)
        check_whole(self.n_actions, "n_actions", 2)
        check_number(self.second_goal, "second_goal")
        check_discount(self.gamma)


def _soft(epsilon: float) -> list[Setting]:
    return [
        Setting.of(
            name,
            kind(epsilon=2 * epsilon, delta=1.0, max_iterations=1 if is_one_step else None),
            "epsilon",
            epsilon,
        )
        for name, kind, is_one_step in _SOFT
    ]


def _ramdp(kappa: float) -> Setting:
    return Setting.of("RaMDP", RaMDP(kappa=kappa), "kappa", kappa)


def _n_wedge(n: int) -> list[Setting]:
    return [
        Setting.of("Pi_b-SPIBB", PiBSPIBB(n_wedge=n), "n_wedge", n),
        Setting.of("Pi_<=b-SPIBB", PiLeqBSPIBB(n_wedge=n), "n_wedge", n),
    ]


def _robust(delta: float) -> list[Setting]:
    # The released code records the plan that it did not test; MBIE is that, without the test.
    return [
        Setting.of("Robust MDP", RobustMDP(delta=delta), "delta", delta),
        Setting.of("Robust MDP untested", MBIE(delta=delta), "delta", delta),
    ]


def _hcpi(delta: float) -> Setting:
    """Return the paper's test as near as an honest one comes: see docs/studies.md."""
    algorithm = HCPI(
        delta=delta,
        estimator="dr",
        bound="student-t",
        train_share=0.2,
        mixtures=tuple(k / 10 for k in range(10)),
        pessimism=0.0,
        min_ess=0.0,
    )
    return Setting.of("HCPI doubly robust", algorithm, "delta", delta)


def _tested() -> list[Setting]:
    settings = [setting for delta in ROBUST_DELTAS for setting in _robust(delta)]
    settings += [_hcpi(delta) for delta in HCPI_DELTAS]
    return [*settings, Setting.of("HCPI cautious", HCPI(delta=0.05), "delta", 0.05)]


def _paper() -> list[Setting]:
    settings = [Setting.of("Basic RL", BasicRL()), *_n_wedge(10)]
    settings += [_ramdp(kappa) for kappa in KAPPAS]
    return settings + [setting for epsilon in EPSILONS for setting in _soft(epsilon)]


def _searched() -> list[Setting]:
    settings = [Setting.of("Basic RL", BasicRL())]
    settings += [setting for n in N_WEDGES for setting in _n_wedge(n)]
    return settings + [_ramdp(kappa) for kappa in KAPPAS]


def _plan(name: str, settings: list[Setting], **facts: Any) -> RandomMDPPlan:
    given: dict[str, Any] = {
        "seed": 2019, "n_runs": 200, "runs_per_job": 4, "eta": ETAS, "trajectories": SIZES,
        "max_steps": 50, "second_goal": 1.0,
    }  # fmt: skip
    return RandomMDPPlan(name=name, settings=tuple(settings), **(given | facts))


PLANS = (
    _plan("random-mdps", _paper()),
    _plan("random-mdps-tests", _tested()),
    _plan("random-mdps-unguarded", _paper(), max_steps=10_000),
    _plan("spibb-search", _searched(), seed=2020, second_goal=0.0),
    _plan("spibb-search-tests", _tested(), seed=2020, second_goal=0.0),
    _plan(
        "random-mdps-smoke",
        [Setting.of("Basic RL", BasicRL()), *_n_wedge(10), _ramdp(0.003), *_soft(2.0)],
        seed=1,
        n_runs=8,
        runs_per_job=2,
        eta=(0.1, 0.9),
        trajectories=(10, 100),
    ),
)
