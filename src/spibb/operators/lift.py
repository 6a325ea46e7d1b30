"""The operators for users: any leading axes, NumPy arrays or torch tensors.

The last axis holds the actions; the others broadcast against each other. Tensors on the CPU share
their memory with NumPy; tensors on a GPU stay there (extra ``gpu``). No gradient flows: the result
of a step is a target, not a layer.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spibb.compiled.arrays import is_tensor, namespace, to_numpy
from spibb.errors import SettingsError
from spibb.operators.rows import Operator, step_rows


def greedy(q: Any) -> Any:
    """Put all probability on the first action of largest ``q``.

    Example:
        >>> greedy([1.0, 3.0, 2.0])
        array([0., 1., 0.])
    """
    return apply(Operator.GREEDY, q)


def pi_b_step(q: Any, baseline: Any, trusted: Any) -> Any:
    """Copy the baseline where an action is not trusted, be greedy among the rest.

    Args:
        q: Values, last axis actions.
        baseline: Probabilities of the baseline.
        trusted: Boolean, whether the log holds enough of the pair.

    Example:
        The worked table of the paper's appendix: the first and the last action are bootstrapped.

        >>> pi_b_step([1, 2, 3, 4], [0.1, 0.4, 0.3, 0.2], [False, True, True, False])
        array([0.1, 0. , 0.7, 0.2])
    """
    return apply(Operator.PI_B, q, baseline, _errors_of(trusted))


def pi_leq_b_step(q: Any, baseline: Any, trusted: Any) -> Any:
    """Give an action that is not trusted at most the baseline's probability.

    Example:
        >>> pi_leq_b_step([1, 2, 3, 4], [0.1, 0.4, 0.3, 0.2], [False, True, True, False])
        array([0. , 0. , 0.8, 0.2])
    """
    return apply(Operator.PI_LEQ_B, q, baseline, _errors_of(trusted))


def soft_exact_step(q: Any, baseline: Any, errors: Any, epsilon: Any) -> Any:
    """Maximise the expected ``q`` within the budget ``sum e |pi - b| <= epsilon``, exactly.

    Args:
        q: Values, last axis actions.
        baseline: Probabilities of the baseline.
        errors: Error of each pair, >= 0; infinite where the probability must stay.
        epsilon: Budget, a number or an array over the leading axes; infinite means none.

    Example:
        Moving mass m from the first action to the second costs m (1 + 1), so m = 0.2.

        >>> soft_exact_step([0.0, 1.0], [0.5, 0.5], [1.0, 1.0], 0.4)
        array([0.3, 0.7])
    """
    return apply(Operator.SOFT_EXACT, q, baseline, errors, epsilon)


def soft_approx_step(q: Any, baseline: Any, errors: Any, epsilon: Any) -> Any:
    """Move mass from the worst actions to the best bargains within the budget.

    Arguments as in :func:`soft_exact_step`.

    Example:
        >>> soft_approx_step([0.0, 1.0], [0.5, 0.5], [1.0, 1.0], 0.4)
        array([0.3, 0.7])
    """
    return apply(Operator.SOFT_APPROX, q, baseline, errors, epsilon)


def lower_exact_step(q: Any, baseline: Any, errors: Any, epsilon: Any) -> Any:
    """Maximise ``q`` with a budget on increases only, ``sum e max(0, pi - b) <= epsilon``.

    Arguments as in :func:`soft_exact_step`; an infinite error forbids increases only.

    Example:
        Only the receiver pays: a budget of 0.4 moves mass 0.4.

        >>> lower_exact_step([0.0, 1.0], [0.5, 0.5], [1.0, 1.0], 0.4)
        array([0.1, 0.9])
    """
    return apply(Operator.LOWER_EXACT, q, baseline, errors, epsilon)


def lower_approx_step(q: Any, baseline: Any, errors: Any, epsilon: Any) -> Any:
    """Move mass to the best bargains with a budget on increases only.

    Arguments as in :func:`lower_exact_step`.

    Example:
        >>> lower_approx_step([0.0, 1.0], [0.5, 0.5], [1.0, 1.0], 0.4)
        array([0.1, 0.9])
    """
    return apply(Operator.LOWER_APPROX, q, baseline, errors, epsilon)


def adv_exact_step(q: Any, baseline: Any, errors: Any, epsilon: Any, q_baseline: Any) -> Any:
    """Maximise ``q`` within the budget among rows with ``sum q_baseline (pi - b) >= 0``.

    Arguments as in :func:`soft_exact_step`, and:
        q_baseline: An estimate of the baseline's values, shape as ``q``.

    Example:
        By the baseline's values the second action is worse, so nothing moves.

        >>> adv_exact_step([0.0, 1.0], [0.5, 0.5], [1.0, 1.0], 0.4, [1.0, 0.0])
        array([0.5, 0.5])
    """
    return apply(Operator.ADV_EXACT, q, baseline, errors, epsilon, q_baseline)


def adv_approx_step(q: Any, baseline: Any, errors: Any, epsilon: Any, q_baseline: Any) -> Any:
    """Move mass to the best bargains as long as the row stays advantageous.

    Arguments as in :func:`adv_exact_step`.

    Example:
        >>> adv_approx_step([0.0, 1.0], [0.5, 0.5], [1.0, 1.0], 0.4, [1.0, 0.0])
        array([0.5, 0.5])
    """
    return apply(Operator.ADV_APPROX, q, baseline, errors, epsilon, q_baseline)


def apply(
    operator: Operator,
    q: Any,
    baseline: Any = None,
    errors: Any = None,
    epsilon: Any = 0.0,
    q_baseline: Any = None,
) -> Any:
    """Apply an operator that is known by its number; the functions above are this one.

    Args:
        operator: Which operator; it says what it needs of the rest.
        q: Values, last axis actions.
        baseline: Probabilities of the baseline.
        errors: Error of each pair, >= 0; 0 or infinite for an operator without a budget.
        epsilon: Budget, a number or an array over the leading axes; infinite means none.
        q_baseline: An estimate of the baseline's values, shape as ``q``.

    Example:
        >>> apply(Operator.SOFT_EXACT, [0.0, 1.0], [0.5, 0.5], [1.0, 1.0], 0.4)
        array([0.3, 0.7])
    """
    for name, part, is_needed in (
        ("baseline", baseline, operator.needs.errors),
        ("errors", errors, operator.needs.errors),
        ("q_baseline", q_baseline, operator.needs.q_baseline),
    ):
        if is_needed and part is None:
            raise SettingsError(f"{name} is None", expected=f"numbers: {operator.name} needs them")
    # What an operator does not look at, the loops take all the same.
    baseline = q if baseline is None else baseline
    others = (0.0 if part is None else part for part in (errors, q_baseline))
    parts = [_placed(part, q) for part in (q, baseline, *others)]
    budget = _placed(epsilon, q)[..., None]
    shape = _common_shape(*parts, budget)
    values, baselines, costs, sides = (_flat(part, shape) for part in parts)
    rows = (values, baselines, costs, _flat(budget, (*shape[:-1], 1))[:, 0], sides)
    _check_values(operator, *rows, _slack(baseline, shape[-1]))
    return _like(apply_rows(operator, *rows).reshape(shape), q)


def apply_rows(
    operator: Operator, q: Any, baseline: Any, errors: Any, epsilon: Any, q_baseline: Any
) -> Any:
    """Apply an operator to rows (N, A) of float64, budgets (N,), which nobody looks at again.

    NumPy arrays or tensors of any device, contiguous and of one kind; the new rows are of it too.
    """
    rows = (q, baseline, errors, epsilon, q_baseline)
    if is_tensor(q) and q.is_cuda:
        from spibb.operators.cuda import step_tensors

        return step_tensors(operator, *rows)
    out = namespace(q).empty_like(q)
    # Tensors on the CPU share their memory.
    step_rows(int(operator), *(to_numpy(part) for part in (*rows, out)))
    return out


def _errors_of(trusted: Any) -> Any:
    flags = trusted if is_tensor(trusted) else np.asarray(trusted)
    xp = namespace(flags)
    if flags.dtype != (np.bool_ if xp is np else xp.bool):
        raise SettingsError(f"trusted has type {flags.dtype}", expected="booleans")
    return xp.where(flags, 0.0, np.inf)


def _placed(part: Any, q: Any) -> Any:
    """Return an argument where q is: as a tensor on its GPU, else as an array."""
    if is_tensor(q) and q.is_cuda:
        torch = namespace(q)
        return torch.as_tensor(part, dtype=torch.float64, device=q.device).detach()
    return np.asarray(to_numpy(part))


def _common_shape(*parts: Any) -> tuple[int, ...]:
    q, baseline, errors, side, budget = (tuple(part.shape) for part in parts)
    if not q:
        raise SettingsError("q is a single number", expected="an axis of actions")
    try:
        shape = np.broadcast_shapes(q, baseline, errors, side, budget)
    except ValueError:
        raise SettingsError(
            f"shapes {q}, {baseline}, {errors}, {budget[:-1]} of q, baseline, errors and epsilon "
            "do not fit together",
            expected="shapes that broadcast, with the actions on the last axis",
        ) from None
    if shape[-1] == 0:
        raise SettingsError(f"q of shape {q}", expected="at least one action")
    return shape


def _flat(part: Any, shape: tuple[int, ...]) -> Any:
    """Return rows (N, A) of one memory layout and one type, so that a kernel is compiled once."""
    if is_tensor(part):
        return part.broadcast_to(shape).reshape(-1, shape[-1]).contiguous()
    rows = np.broadcast_to(part, shape).reshape(-1, shape[-1])
    return np.require(rows, dtype=np.float64, requirements=["C", "W"])


def _slack(baseline: Any, n_actions: int) -> float:
    """Return how far the probabilities of a row may be from a sum of 1, as its type rounds."""
    kind: Any = baseline.dtype if is_tensor(baseline) else np.asarray(baseline).dtype
    is_float = kind.is_floating_point if is_tensor(baseline) else kind.kind == "f"
    resolution = float(namespace(baseline).finfo(kind).eps) if is_float else 0.0
    # Rounding errors of many numbers are of both signs, and add up to far less than their number.
    return max(1e-6, 2.0 * resolution * math.sqrt(n_actions))


def _check_values(
    operator: Operator, q: Any, baseline: Any, errors: Any, epsilon: Any, side: Any, slack: float
) -> None:
    """Check N rows where they are, (N, A) each but budgets, and fetch only what is wrong."""
    xp, sums = namespace(q), "the baseline's probabilities sum to"
    checks = [("q is", q, xp.isfinite(q), "finite numbers")]
    if operator.needs.errors:
        stay = "numbers >= 0, infinite where the baseline must stay"
        total = baseline.sum(-1)
        checks += [
            ("baseline is", baseline, (baseline >= 0) & (baseline <= 1 + 1e-9), "probabilities"),
            ("errors is", errors, errors >= 0, stay),
            ("epsilon is", epsilon, epsilon >= 0, "a budget >= 0"),
            ("q_baseline is", side, xp.isfinite(side), "finite numbers"),
            (sums, total, abs(total - 1.0) <= slack, "1 in every row"),
        ]
    if xp.stack([good.all() for _, _, good, _ in checks]).all():
        return
    what, part, good, expected = next(check for check in checks if not check[2].all())
    row, *action = (int(place) for place in np.argwhere(~to_numpy(good))[0])
    found = float(part[(row, *action)])
    raise SettingsError(
        f"{what} {f'{found:.9g}' if what == sums else found}",
        where=f"row {row}" + "".join(f", action {a}" for a in action),
        expected=expected,
        hint="divide each row by its sum" if what == sums else None,
    )


def _like(rows: Any, q: Any) -> Any:
    """Return rows as the kind of array that q is; half-precision inputs come back as they were."""
    if is_tensor(q):
        torch = namespace(q)
        kind = q.dtype if q.dtype.is_floating_point else torch.float64
        return torch.as_tensor(rows, dtype=kind, device=q.device)
    is_single = np.asarray(q).dtype == np.float32
    return rows.astype(np.float32) if is_single else rows
