"""The only list of studies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spibb.errors import SettingsError
from spibb.runner.store import Store
from spibb.settings import checked_entry
from spibb.studies.complexity import COMPLEXITY
from spibb.studies.finite.study import FINITE
from spibb.studies.generators.study import GENERATORS_STUDY
from spibb.studies.helicopter.study import HELICOPTER
from spibb.studies.plan import Plan, read_toml
from spibb.studies.random_mdps.study import RANDOM_MDPS
from spibb.studies.representations.study import REPRESENTATIONS
from spibb.studies.results.aggregates import Results
from spibb.studies.risk.study import RISK
from spibb.studies.study import Study

STUDIES: dict[str, Study] = {}
PLANS: dict[str, Plan] = {}
# A study of many runs has larger jobs, which keep a GPU busy: about so many jobs, of so many runs.
_N_JOBS, _LARGEST_JOB = 200, 50


def add_study(study: Study) -> None:
    """Add a study and its plans to the lists; modules of other packages may."""
    name, plans = study.kind.study, {plan.name: plan for plan in study.plans}
    for kind, known, new in (("study", STUDIES, {name: study}), ("plan", PLANS, plans)):
        for one, what in new.items():
            if known.get(one, what) is not what:
                raise SettingsError(f"a {kind} {one!r} is there", expected="a name of its own")
    STUDIES[name] = study
    PLANS.update(plans)


for one in (RANDOM_MDPS, FINITE, COMPLEXITY, HELICOPTER, RISK, REPRESENTATIONS, GENERATORS_STUDY):
    add_study(one)


def find_plan(name: str, n_runs: int | None = None, *, baselines: Sequence[str] = ()) -> Plan:
    """Return a plan by name, or read it from a TOML file.

    Args:
        name: The plan's name, or a file.
        n_runs: Another number of runs.
        baselines: Files of baselines to compare, where the study can.
    """
    if name.endswith(".toml"):
        plan = _read_plan_file(Path(name))
    else:
        plan = checked_entry(name, PLANS, "plan", "or a .toml file")
    if baselines:
        if not hasattr(plan, "with_baselines"):
            told = f"the plan {name} has no baselines in files"
            raise SettingsError(told, expected="no --baseline")
        plan = plan.with_baselines(baselines)
    if n_runs is None:
        return plan
    per_job = max(plan.runs_per_job, min(n_runs // _N_JOBS, _LARGEST_JOB))
    return replace(plan, n_runs=n_runs, runs_per_job=per_job)


def read_plan(text: str) -> Plan:
    """Read a plan of any study from TOML."""
    return checked_entry(read_toml(text).get("study"), STUDIES, "study").kind.from_toml(text)


def _read_plan_file(file: Path) -> Plan:
    if file.exists() and not file.is_file():
        raise SettingsError(f"cannot read the plan {file}: it is no file")
    try:
        plan = read_plan(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(f"cannot read the plan {file}: {reason}") from None
    # A plan to be run is run by the present rules, whenever it was written.
    return replace(plan, rules=plan.present_rules, version1="")


def read_results(folder: Path) -> tuple[Study, Results[Any]]:
    """Return the study that a folder is of, and its results."""
    plan = read_plan(Store(Path(folder)).plan())
    study = STUDIES[plan.study]
    return study, study.read(Path(folder), plan)
