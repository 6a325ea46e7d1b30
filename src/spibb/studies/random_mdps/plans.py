"""The plans: the paper's benchmark, its hyper-parameter searches, and a small one to try.

Robust MDP and HCPI are plans of their own ("-tests"), since they cost more and no GPU does them;
they draw what their companions draw, so that the two merge into one study.

Labels carry the paper's epsilon. The released code spent twice that, so ``epsilon=2`` of a figure
is a budget of 4 here, with delta = 1: errors as a scale.
"""

from __future__ import annotations

from spibb.algorithms.basic_rl import BasicRL
from spibb.algorithms.hcpi import HCPI
from spibb.algorithms.mbie import MBIE
from spibb.algorithms.penalised import RaMDP
from spibb.algorithms.robust_mdp import RobustMDP
from spibb.algorithms.soft_spibb import ApproxSoftSPIBB, ExactSoftSPIBB, SoftSPIBB
from spibb.algorithms.spibb_family import PiBSPIBB, PiLeqBSPIBB
from spibb.studies.plan import Plan, Setting

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


def _soft(epsilon: float) -> list[Setting]:
    return [
        Setting.of(
            f"{name}, epsilon={epsilon:g}",
            kind(epsilon=2 * epsilon, delta=1.0, max_iterations=1 if is_one_step else None),
            f"epsilon: {name}",
            epsilon,
        )
        for name, kind, is_one_step in _SOFT
    ]


def _ramdp(kappa: float) -> Setting:
    return Setting.of(f"RaMDP, kappa={kappa:g}", RaMDP(kappa=kappa), "kappa: RaMDP", kappa)


def _n_wedge(n: int) -> list[Setting]:
    return [
        Setting.of(f"Pi_b-SPIBB, n_wedge={n}", PiBSPIBB(n_wedge=n), "n_wedge: Pi_b-SPIBB", n),
        Setting.of(
            f"Pi_<=b-SPIBB, n_wedge={n}", PiLeqBSPIBB(n_wedge=n), "n_wedge: Pi_<=b-SPIBB", n
        ),
    ]


def _robust(delta: float) -> list[Setting]:
    # The released code records the plan that it did not test; MBIE is that, without the test.
    tested, untested = "Robust MDP", "Robust MDP untested"
    return [
        Setting.of(f"{tested}, delta={delta:g}", RobustMDP(delta=delta), f"delta: {tested}", delta),
        Setting.of(f"{untested}, delta={delta:g}", MBIE(delta=delta), f"delta: {untested}", delta),
    ]


def _hcpi(delta: float) -> Setting:
    """Return the paper's test as near as an honest one comes: see docs/studies.md."""
    name = "HCPI doubly robust"
    algorithm = HCPI(
        delta=delta,
        estimator="dr",
        bound="student-t",
        train_share=0.2,
        mixtures=tuple(k / 10 for k in range(10)),
        pessimism=0.0,
        min_ess=0.0,
    )
    return Setting.of(f"{name}, delta={delta:g}", algorithm, f"delta: {name}", delta)


def _tested() -> list[Setting]:
    settings = [setting for delta in ROBUST_DELTAS for setting in _robust(delta)]
    settings += [_hcpi(delta) for delta in HCPI_DELTAS]
    cautious = HCPI(delta=0.05)
    settings.append(Setting.of("HCPI cautious, delta=0.05", cautious, "delta: HCPI cautious", 0.05))
    return settings


def _paper() -> list[Setting]:
    settings = [Setting.of("Basic RL", BasicRL()), *_n_wedge(10)]
    settings += [_ramdp(kappa) for kappa in KAPPAS]
    settings += [setting for epsilon in EPSILONS for setting in _soft(epsilon)]
    return settings


def _benchmark(name: str, settings: list[Setting], *, max_steps: int = 50) -> Plan:
    return Plan(
        study="random-mdps",
        name=name,
        seed=2019,
        n_runs=200,
        runs_per_job=4,
        etas=ETAS,
        sizes=SIZES,
        max_steps=max_steps,
        second_goal=1.0,
        settings=tuple(settings),
    )


def _searched() -> list[Setting]:
    settings = [Setting.of("Basic RL", BasicRL())]
    settings += [setting for n in N_WEDGES for setting in _n_wedge(n)]
    settings += [_ramdp(kappa) for kappa in KAPPAS]
    return settings


def _search(name: str, settings: list[Setting]) -> Plan:
    return Plan(
        study="random-mdps",
        name=name,
        seed=2020,
        n_runs=200,
        runs_per_job=4,
        etas=ETAS,
        sizes=SIZES,
        max_steps=50,
        second_goal=0.0,
        settings=tuple(settings),
    )


def _smoke() -> Plan:
    return Plan(
        study="random-mdps",
        name="random-mdps-smoke",
        seed=1,
        n_runs=8,
        runs_per_job=2,
        etas=(0.1, 0.9),
        sizes=(10, 100),
        max_steps=50,
        second_goal=1.0,
        settings=(Setting.of("Basic RL", BasicRL()), *_n_wedge(10), _ramdp(0.003), *_soft(2.0)),
    )


PLANS: dict[str, Plan] = {
    plan.name: plan
    for plan in (
        _benchmark("random-mdps", _paper()),
        _benchmark("random-mdps-tests", _tested()),
        _benchmark("random-mdps-unguarded", _paper(), max_steps=10_000),
        _search("spibb-search", _searched()),
        _search("spibb-search-tests", _tested()),
        _smoke(),
    )
}
