"""``spibb audit``."""

from __future__ import annotations

from spibb.certify.audit import audit
from spibb.certify.certificate import Certificate
from spibb.cli.inputs import Declared, find_error, read_inputs
from spibb.cli.printing import (
    print_changes,
    print_changes_csv,
    print_conditions,
    print_guarantee,
    print_json,
)
from spibb.errors import SettingsError
from spibb.mdp.policy import TabularPolicy
from spibb.problem import Problem
from spibb.report.changes import list_changes


def run_audit(
    log: str,
    baseline: str,
    policy: str,
    gamma: float,
    *,
    epsilon: float | None,
    n_wedge: float | None,
    delta: float | None,
    error: str | None,
    declared: Declared,
    columns: str | None,
    printed: str,
) -> bool:
    """Judge a policy, print the outcome, and tell whether it keeps to what was asked."""
    if n_wedge is not None and not n_wedge >= 0:
        raise SettingsError(f"n_wedge is {n_wedge}", expected="a number of observations >= 0")
    rows, made_by = read_inputs(log, baseline, columns)
    problem = Problem.of(rows, baseline=made_by, gamma=gamma, **declared.keywords)
    judged = problem.align(TabularPolicy.read(policy))
    certificate = audit(
        problem,
        policy=judged,
        delta=0.05 if delta is None else delta,
        epsilon=epsilon,
        n_wedge=n_wedge,
        error=None if error is None else find_error(error),
    )
    changes = list_changes(judged, problem.baseline, certificate.states)
    if printed == "json":
        print_json(certificate.to_dict())
    elif printed == "csv":
        print_changes_csv(changes)
    else:
        print_conditions("Checks", certificate.checks)
        print_changes(changes)
        print_guarantee(certificate)
    return _is_kept(certificate, epsilon, n_wedge)


def _is_kept(certificate: Certificate, epsilon: float | None, n_wedge: float | None) -> bool:
    asked = [] if epsilon is None else [certificate.check("constraint")]
    if n_wedge is not None:
        asked += [
            condition
            for other in certificate.others
            for condition in other.conditions
            if condition.name == "bootstrapped-copy"
        ]
    return all(condition.is_satisfied for condition in asked)
