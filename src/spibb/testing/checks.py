"""The conformance suite: what every algorithm must do, whoever wrote it.

>>> from spibb import PiBSPIBB
>>> check_algorithm(PiBSPIBB(n_wedge=5))
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable

import numpy as np

from spibb.algorithms.base import Algorithm
from spibb.algorithms.improvement import Improvement
from spibb.data.counts import Counts
from spibb.data.log import Log
from spibb.errors import SpibbError
from spibb.mdp.evaluation import evaluate
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy


def check_algorithm(*algorithms: Algorithm) -> None:
    """Run every check; the first that fails raises AssertionError with its reason.

    Args:
        algorithms: Settings to check. Import them from a module: one check runs in another process,
            which is started once for all of them.
    """
    for algorithm in algorithms:
        for check in CHECKS:
            try:
                check(algorithm)
            except Exception as error:
                error.add_note(f"{check.__name__}: {algorithm}")
                raise
    check_same_in_another_process(*algorithms)


def random_problem(
    seed: int, n_states: int = 6, n_actions: int = 3, n_episodes: int = 30
) -> tuple[TabularMDP, TabularPolicy, Log]:
    """Return a random process with a terminal state, a baseline, and a log it made."""
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.full(n_states, 0.3), (n_states, n_actions))
    terminal = np.arange(n_states) == n_states - 1
    reward = rng.normal(size=(n_states, n_actions))
    mdp = TabularMDP(transition, reward, 0.9, terminal=terminal)
    baseline = TabularPolicy(rng.dirichlet(np.ones(n_actions), n_states))
    return mdp, baseline, Log.sample(mdp, baseline, n_episodes=n_episodes, max_steps=30, rng=rng)


def _run(
    algorithm: Algorithm, log: Log, baseline: TabularPolicy, gamma: float = 0.9
) -> Improvement:
    return algorithm.improve(log, baseline=baseline, gamma=gamma, rng=np.random.default_rng(7))


def check_settings_are_immutable(algorithm: Algorithm) -> None:
    """Settings are frozen, and building them again gives the same ones."""
    for item in dataclasses.fields(algorithm):
        try:
            setattr(algorithm, item.name, 0)
        except dataclasses.FrozenInstanceError:
            continue
        raise AssertionError(f"{algorithm.id}: setting {item.name} can be changed")


def check_config_round_trips(algorithm: Algorithm) -> None:
    """The configuration survives JSON."""
    config = json.loads(json.dumps(algorithm.to_config(), allow_nan=False))
    again = type(algorithm).from_config(config)
    assert again.to_config() == algorithm.to_config(), f"{algorithm.id}: {config} changed"


def check_result_is_a_policy(algorithm: Algorithm) -> None:
    """The result is a table of distributions whose values are those that are reported."""
    _, baseline, log = random_problem(1)
    result = _run(algorithm, log, baseline)
    table = result.policy.probabilities
    assert table.shape == baseline.probabilities.shape
    assert (table >= 0).all(), f"{algorithm.id}: negative probability"
    np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-12)
    values = evaluate(result.problem.model, result.policy)
    np.testing.assert_allclose(result.v, values.v, atol=1e-8, err_msg="v is not the policy's")
    np.testing.assert_allclose(result.q, values.q, atol=1e-8, err_msg="q is not the policy's")


def check_inputs_are_untouched(algorithm: Algorithm) -> None:
    """Neither the log nor the baseline is changed."""
    _, baseline, log = random_problem(2)
    before = [baseline.probabilities.copy(), log.state.copy(), log.reward.copy()]
    _run(algorithm, log, baseline)
    for old, new in zip(before, [baseline.probabilities, log.state, log.reward], strict=True):
        np.testing.assert_array_equal(old, new, err_msg=f"{algorithm.id} changed its input")


def check_same_in_another_process(*algorithms: Algorithm) -> None:
    """The same settings, data and generator give the same result, bit for bit, elsewhere too."""
    kinds = [type(algorithm) for algorithm in algorithms]
    for kind in kinds:
        if kind.__module__ == "__main__":
            raise AssertionError(f"{kind.id}: define the class in a module to check it")
    code = (
        "import importlib, json, sys; from spibb.testing import checks\n"
        "for module, name, config in json.loads(sys.argv[1]):\n"
        "    kind = getattr(importlib.import_module(module), name)\n"
        "    _, baseline, log = checks.random_problem(3)\n"
        "    result = checks._run(kind.from_config(config), log, baseline)\n"
        "    print(result.policy.probabilities.tobytes().hex())\n"
    )
    asked = [
        (kind.__module__, kind.__name__, algorithm.to_config())
        for kind, algorithm in zip(kinds, algorithms, strict=True)
    ]
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(asked)], capture_output=True, text=True, check=True
    )
    for algorithm, there in zip(algorithms, done.stdout.split(), strict=True):
        _, baseline, log = random_problem(3)
        here = _run(algorithm, log, baseline).policy.probabilities.tobytes().hex()
        assert here == there, f"{algorithm}: another process differs"


def check_corner_cases(algorithm: Algorithm) -> None:
    """One action, one state, one row, unvisited states, everything terminal, gamma = 0."""
    corners = {
        "one action": random_problem(4, n_actions=1)[1:],
        "one row": _problem_of([0], [1], [2.0], [1], [True], 2, 2),
        "one state": _problem_of([0] * 6, [0, 1] * 3, [1.0, -1.0] * 3, [0] * 6, None, 1, 2),
        "unvisited state": _problem_of([0, 1], [0, 1], [1.0, 0.0], [1, 0], None, 5, 3),
        "every step ends": _problem_of([0, 1, 0], [0, 0, 1], [1.0, -2.0, 3.0], [2, 2, 2],
                                       [True] * 3, 3, 2),
    }  # fmt: skip
    # An algorithm that splits the log says how many episodes it needs, and refuses fewer.
    needed = getattr(algorithm, "min_episodes", 0)
    for name, (baseline, log) in corners.items():
        if log.n_episodes < needed:
            _expect_refusal(algorithm, log, baseline, f"{log.n_episodes} episodes")
            continue
        for gamma in (0.0, 0.9):
            result = _run(algorithm, log, baseline, gamma)
            assert np.isfinite(result.v).all(), f"{algorithm.id}: {name}, gamma {gamma}"
            np.testing.assert_allclose(result.policy.probabilities.sum(axis=1), 1.0, atol=1e-12)


def check_certificate_is_json(algorithm: Algorithm) -> None:
    """The certificate is strict JSON, and claims a number only if every condition holds."""
    _, baseline, log = random_problem(5)
    certificate = _run(algorithm, log, baseline).certificate
    json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
    if certificate.bound is not None:
        assert all(condition.is_satisfied for condition in certificate.guarantee.conditions)


def check_refuses_bad_baseline(algorithm: Algorithm) -> None:
    """A baseline that cannot have made the log is refused."""
    _, baseline, log = random_problem(6)
    table = np.zeros(baseline.probabilities.shape)
    table[:, 0] = 1.0
    _expect_refusal(
        algorithm, log, TabularPolicy(table), "a baseline that cannot have made the log"
    )


def _expect_refusal(algorithm: Algorithm, log: Log, baseline: TabularPolicy, what: str) -> None:
    try:
        _run(algorithm, log, baseline)
    except SpibbError:
        return
    raise AssertionError(f"{algorithm.id}: accepted {what}")


def _problem_of(
    state: list[int],
    action: list[int],
    reward: list[float],
    next_state: list[int],
    terminated: list[bool] | None,
    n_states: int,
    n_actions: int,
) -> tuple[TabularPolicy, Log]:
    log = Log.from_arrays(
        state=state, action=action, reward=reward, next_state=next_state,
        terminated=terminated if terminated is not None else [False] * len(state),
        episode=np.arange(len(state)), n_states=n_states, n_actions=n_actions,
    )  # fmt: skip
    assert Counts.from_log(log).n_sa.sum() == len(state)
    return TabularPolicy.uniform(n_states, n_actions), log


CHECKS: tuple[Callable[[Algorithm], None], ...] = (
    check_settings_are_immutable,
    check_config_round_trips,
    check_result_is_a_policy,
    check_inputs_are_untouched,
    check_corner_cases,
    check_certificate_is_json,
    check_refuses_bad_baseline,
)
