"""The plans: the paper's benchmark, its hyper-parameter searches, and a small one to try.

Robust MDP and HCPI are plans of their own ("-tests"), since they cost more and no GPU does them;
they draw what their companions draw, so that the two merge into one study.

Labels carry the paper's epsilon. The released code spent twice that, so ``epsilon=2`` of a figure
is a budget of 4 here, with delta = 1: errors as a scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

from spibb.studies.kinds import Count, Discount, Number, Treatment, check_whole
from spibb.studies.plan import Plan, Setting, factor
from spibb.studies.version1 import Version1

ETAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SIZES = (10, 20, 50, 100, 200, 500, 1000, 2000)
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
N_WEDGES = (5, 7, 10, 15, 20, 30, 50, 70, 100)
KAPPAS = (0.001, 0.002, 0.003, 0.0035, 0.004, 0.005, 0.01, 0.02, 0.05)
ROBUST_DELTAS = (0.001, 0.01, 0.1, 0.5, 0.9)
HCPI_DELTAS = (0.01, 0.05, 0.1, 0.5, 0.9)


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
    reader1 = Version1("eta", "trajectories")

    eta: tuple[float, ...] = factor(
        "η", float, lambda x: 0 <= x <= 1, "a strength in [0, 1]", is_needed=True
    )
    trajectories: tuple[int, ...] = factor("trajectories", int, is_needed=True)
    max_steps: Count
    second_goal: Number
    n_states: Count = 50
    n_actions: Annotated[int, partial(check_whole, least=2)] = 4
    n_successors: Count = 4
    gamma: Discount = 0.95
    unseen: Treatment = "terminal"


_SPIBB = {"Pi_b-SPIBB": "pi-b-spibb", "Pi_<=b-SPIBB": "pi-leq-b-spibb"}
_SOFT = {"Exact-Soft-SPIBB": "exact-soft-spibb", "Approx-Soft-SPIBB": "approx-soft-spibb"}
# The released code records the plan that Robust MDP did not test; MBIE is that, without the test.
_ROBUST = {"Robust MDP": "robust-mdp", "Robust MDP untested": "mbie"}
# The paper's test, as near as an honest one comes (docs/algorithms/hcpi.md).
_HCPI: dict[str, Any] = {
    "estimator": "dr", "bound": "student-t", "train_share": 0.2, "pessimism": 0.0, "min_ess": 0.0,
    "mixtures": [k / 10 for k in range(10)],
}  # fmt: skip


def _soft(*epsilons: float) -> list[Setting]:
    """Return soft algorithms iterated, and with a single step."""
    once, told = {f"{name} 1-step": id for name, id in _SOFT.items()}, {"scale": 2, "delta": 1.0}
    return [
        setting
        for epsilon in epsilons
        for names, n_steps in ((_SOFT, None), (once, 1))
        for setting in Setting.grid("epsilon", [epsilon], names, max_iterations=n_steps, **told)
    ]


_BASIC = Setting.of("Basic RL", {"algorithm": "basic-rl"})
_RAMDPS = Setting.grid("kappa", KAPPAS, {"RaMDP": "ramdp"})
_BENCHMARK = [_BASIC, *Setting.grid("n_wedge", (10,), _SPIBB)]
_PAPER = [*_BENCHMARK, *_RAMDPS, *_soft(*EPSILONS)]
_SEARCHED = [_BASIC, *Setting.grid("n_wedge", N_WEDGES, _SPIBB), *_RAMDPS]
_TESTED = [
    *Setting.grid("delta", ROBUST_DELTAS, _ROBUST),
    *Setting.grid("delta", HCPI_DELTAS, {"HCPI doubly robust": "hcpi"}, **_HCPI),
    *Setting.grid("delta", (0.05,), {"HCPI cautious": "hcpi"}),
]
_SMOKE = [*_BENCHMARK, *Setting.grid("kappa", (0.003,), {"RaMDP": "ramdp"}), *_soft(2.0)]


def _plan(name: str, settings: list[Setting], **facts: Any) -> RandomMDPPlan:
    given: dict[str, Any] = {
        "seed": 2019, "n_runs": 200, "runs_per_job": 4, "eta": ETAS, "trajectories": SIZES,
        "max_steps": 50, "second_goal": 1.0,
    }  # fmt: skip
    return RandomMDPPlan(name=name, settings=tuple(settings), **(given | facts))


_FEW = {"eta": (0.1, 0.9), "trajectories": (10, 100)}
PLANS = (
    _plan("random-mdps", _PAPER),
    _plan("random-mdps-tests", _TESTED),
    _plan("random-mdps-unguarded", _PAPER, max_steps=10_000),
    _plan("spibb-search", _SEARCHED, seed=2020, second_goal=0.0),
    _plan("spibb-search-tests", _TESTED, seed=2020, second_goal=0.0),
    _plan("random-mdps-smoke", _SMOKE, seed=1, n_runs=8, runs_per_job=2, **_FEW),
)
