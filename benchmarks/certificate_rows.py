"""How many rows until a certificate promises a gain, and how it compares with the papers' formulas.

    python benchmarks/certificate_rows.py [--problems 4] [--skip-hcpi]

Garnets of 4 successors, rewards 0 or 1 of random means, gamma = 0.9, a random baseline whose own
visits decide how often each pair is seen; the start is given and the states are declared complete.
Certificates by the model are computed from counts, which may stand for 10^10 rows; each may choose
its policy and setting (the regret test holds for all at once). HCPI needs the episodes themselves:
50 steps each.

The second table holds the regret test against the papers' formulas as printed (Theorem 1 with e_Q,
the SPIBB bound), at the default settings and at small budgets, on the policies these come with.
Formulas are printed, not claimed: they are false in general (docs/guarantees.md).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from spibb import (
    HCPI,
    ApproxSoftSPIBB,
    BasicRL,
    Counts,
    HoeffdingP,
    HoeffdingQ,
    Log,
    PiBSPIBB,
    RobustBaselineRegret,
    RobustMDP,
    TabularMDP,
    TabularPolicy,
    audit,
    evaluate,
    zeta,
)
from spibb.certify.case import Case, spent_budget
from spibb.certify.theorems import theorem_2
from spibb.problem import Problem

GAMMA, DELTA = 0.9, 0.05
SHAPES = ((5, 2), (20, 3), (50, 4))
ROWS = [round(10 ** (k / 2)) for k in range(6, 21)]  # 1e3, 3e3, ... 1e10
BUDGETS = (1e-4, 1e-3, 1e-2, 0.05, 0.5)


@dataclass(frozen=True, eq=False)
class Garnet:
    """A process with its baseline and how often that visits each pair."""

    mdp: TabularMDP
    baseline: TabularPolicy
    visits: Any

    @classmethod
    def draw(cls, seed: int, n_states: int, n_actions: int) -> Garnet:
        """Draw a process."""
        rng = np.random.default_rng(seed)
        transition = np.zeros((n_states, n_actions, n_states))
        for x, a in np.ndindex(n_states, n_actions):
            chosen = rng.choice(n_states, 4, replace=False)
            transition[x, a, chosen] = np.diff(np.sort(rng.random(3)), prepend=0.0, append=1.0)
        mdp = TabularMDP(transition, rng.random((n_states, n_actions)), GAMMA, np.eye(n_states)[0])
        table = rng.dirichlet(np.ones(n_actions), n_states)
        step = np.einsum("xa,xay->xy", table, transition)
        stationary = np.linalg.matrix_power(step, 4_096)[0]
        return cls(mdp, TabularPolicy(table), stationary[:, None] * table)

    def counts(self, n_rows: int, rng: np.random.Generator) -> Counts:
        """Draw the counts of a log of so many rows."""
        n_states = len(self.visits)
        n_sa = np.maximum(1, np.round(n_rows * self.visits)).astype(np.int64)
        rows = self.mdp.dense.reshape(-1, n_states)
        n_sas = rng.multinomial(n_sa.ravel(), rows / rows.sum(axis=1, keepdims=True))
        return Counts(
            n_sa=n_sa,
            n_sas=sp.csr_array(n_sas),
            n_end=sp.csr_array(np.zeros(n_sas.shape, dtype=np.int64)),
            reward_sum=rng.binomial(n_sa, self.mdp.reward).astype(float),
            reward_range=(0.0, 1.0),
            n_initial=np.eye(n_states, dtype=np.int64)[0],
        )

    def asked(self) -> dict[str, Any]:
        """What every certificate is told."""
        return {
            "baseline": self.baseline, "gamma": GAMMA, "reward_range": (0.0, 1.0),
            "states_complete": True, "initial": self.mdp.initial,
        }  # fmt: skip

    def gain(self, policy: TabularPolicy) -> float:
        """The true gain of a policy."""
        return (
            evaluate(self.mdp, policy).performance - evaluate(self.mdp, self.baseline).performance
        )


def case_of(garnet: Garnet, counts: Counts, policy: TabularPolicy) -> Case:
    """Put a policy where theorems can look at it."""
    problem = Problem.of(counts, **garnet.asked())
    return Case(problem, evaluate(problem.model, policy), DELTA)


def theorem_1_as_printed(case: Case) -> float:
    """Return A^(x_0) - spent V_max / (1 - gamma) with e_Q; -inf where it is not advantageous."""
    if (case.advantage < -1e-9).any():
        return -np.inf
    spent = spent_budget(case.difference, HoeffdingQ().errors(case.problem, DELTA)).max()
    start = float(case.problem.model.initial @ case.advantage)
    return start - float(spent) * case.problem.values.v_max / (1 - GAMMA)


def spibb_as_printed(case: Case, n_wedge: float, bound: Any) -> float:
    """Return the estimated gain less zeta(n_wedge)."""
    n_states, n_actions = case.difference.shape
    return case.policy.performance - case.baseline.performance - zeta(
        n_wedge=n_wedge, delta=DELTA, n_states=n_states, n_actions=n_actions,
        v_max=case.problem.values.v_max, gamma=GAMMA, bound=bound,
    )  # fmt: skip


def by_model(garnet: Garnet, counts: Counts) -> dict[str, float]:
    """Return the best bound of each kind on one log."""
    asked = garnet.asked()
    soft = [
        ApproxSoftSPIBB(epsilon=e, max_iterations=steps).improve(counts, **asked)
        for e in BUDGETS for steps in (1, None)
    ]  # fmt: skip
    cautious = [
        ApproxSoftSPIBB(epsilon=e, error=HoeffdingP()).improve(counts, **asked) for e in BUDGETS
    ]
    n_wedge = int(np.quantile(counts.n_sa, 0.1))
    bootstrapped = PiBSPIBB(n_wedge=n_wedge).improve(counts, **asked)
    regret = RobustBaselineRegret().improve(counts, **asked)
    candidates = [*soft, *cautious, bootstrapped, regret, BasicRL().improve(counts, **asked)]
    followed = [
        audit(counts, policy=one.policy, **asked, successors="seen").bound for one in candidates
    ]
    robust = RobustMDP().improve(counts, **asked).certificate.others[0]
    case = case_of(garnet, counts, bootstrapped.policy)
    second = [theorem_2(case_of(garnet, counts, one.policy)).bound for one in cautious]
    return {
        "Theorem 2": max((b for b in second if b is not None), default=-np.inf),
        "SPIBB as printed": spibb_as_printed(case, n_wedge, "original"),
        "SPIBB two-point, as printed": spibb_as_printed(case, n_wedge, "two-point"),
        "Theorem 1 as printed (e_Q)": max(
            theorem_1_as_printed(case_of(garnet, counts, one.policy)) for one in soft
        ),
        "robust MDP": robust.bound,
        "regret test": max(one.certificate.bound for one in candidates),
        "regret test, successors seen": max(b for b in followed if b is not None),
    }


def by_episodes(garnet: Garnet, n_rows: int, rng: np.random.Generator) -> dict[str, float]:
    """Return what HCPI says of one log."""
    log = Log.sample(garnet.mdp, garnet.baseline, n_episodes=n_rows // 50, max_steps=50, rng=rng)
    paid = (rng.random(len(log)) < log.reward).astype(float)
    log = replace(log, reward=paid)
    found = {}
    for name, algorithm in (
        ("HCPI dr by Student's t (approximate)", HCPI()),
        ("HCPI is by concentration", HCPI(bound="concentration")),
        ("HCPI pdis by betting", HCPI(bound="betting")),
    ):
        result = algorithm.improve(log, **garnet.asked())
        claims = [result.certificate.guarantee, *result.certificate.others]
        test = next(one for one in claims if one.theorem.startswith("Held-out"))
        moved = bool(result.certificate.states.moved.any())
        found[name] = test.details["tested_lower_bound"] if moved else -1.0
    return found


def first_positive(n_problems: int, with_hcpi: bool) -> dict[str, list[str]]:
    """Return, for each certificate, the rows at which its median bound is positive."""
    table: dict[str, list[str]] = {}
    for shape in SHAPES:
        garnets = [Garnet.draw(seed, *shape) for seed in range(n_problems)]
        for compute, sizes in ((by_model, ROWS), (by_episodes, ROWS[:6] if with_hcpi else [])):
            medians: dict[str, list[float]] = {}
            for n_rows in sizes:
                found = []
                for seed, garnet in enumerate(garnets):
                    rng = np.random.default_rng([seed, n_rows])
                    if compute is by_model:
                        found.append(by_model(garnet, garnet.counts(n_rows, rng)))
                    else:
                        found.append(by_episodes(garnet, n_rows, rng))
                for name in found[0]:
                    medians.setdefault(name, []).append(float(np.median([f[name] for f in found])))
            for name, values in medians.items():
                hits = [n for n, value in zip(sizes, values, strict=True) if value > 0]
                text = f"{hits[0]:.0e}".replace("e+0", "e").replace("e+", "e") if hits else (
                    f"> {sizes[-1]:.0e}".replace("e+0", "e").replace("e+", "e")
                )  # fmt: skip
                table.setdefault(name, []).append(text)
    return table


def compared(n_problems: int) -> list[str]:
    """Hold the regret test against the formulas as printed, where those are true."""
    lines = [
        "| setting | formula | logs | true | regret test larger | median of both |",
        "|---" * 6 + "|",
    ]
    settings: list[tuple[str, Any, str]] = [
        ("epsilon 0.5, one step", ApproxSoftSPIBB(max_iterations=1), "e_Q"),
        ("n_wedge 10", PiBSPIBB(), "original"),
        ("n_wedge 10", PiBSPIBB(), "two-point"),
        ("epsilon 0.05, one step", ApproxSoftSPIBB(epsilon=0.05, max_iterations=1), "e_Q"),
        ("epsilon 0.01, one step", ApproxSoftSPIBB(epsilon=0.01, max_iterations=1), "e_Q"),
    ]
    for label, algorithm, formula in settings:
        old, new, truth = [], [], []
        for shape in SHAPES:
            for seed in range(n_problems):
                garnet = Garnet.draw(seed, *shape)
                for n_rows in ROWS[:11]:
                    counts = garnet.counts(n_rows, np.random.default_rng([seed, n_rows, 1]))
                    result = algorithm.improve(counts, **garnet.asked())
                    case = case_of(garnet, counts, result.policy)
                    if formula == "e_Q":
                        number = theorem_1_as_printed(case)
                    else:
                        number = spibb_as_printed(case, algorithm.n_wedge, formula)
                    if not np.isfinite(number) or not result.certificate.states.moved.any():
                        continue
                    old.append(number)
                    new.append(result.certificate.bound)
                    truth.append(garnet.gain(result.policy))
        old_a, new_a, truth_a = (np.array(part) for part in (old, new, truth))
        is_true = old_a <= truth_a + 1e-9
        larger = (new_a >= old_a)[is_true]
        assert (new_a <= truth_a + 1e-9).all(), "a violation of the regret test: look at it"
        lines.append(
            f"| {label} | {formula} | {len(old)} | {is_true.sum()} | {larger.sum()} | "
            f"{np.median(old_a[is_true]):.3g} / {np.median(new_a[is_true]):.3g} |"
        )
    return lines


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=4)
    parser.add_argument("--skip-hcpi", action="store_true")
    asked = parser.parse_args()
    print("| certificate | " + " | ".join(f"{s} x {a}" for s, a in SHAPES) + " |")
    print("|---" * (len(SHAPES) + 1) + "|")
    for name, cells in first_positive(asked.problems, not asked.skip_hcpi).items():
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print()
    print("\n".join(compared(asked.problems)))


if __name__ == "__main__":
    main()
