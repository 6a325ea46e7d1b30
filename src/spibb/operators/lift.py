"""The operators for users: any leading axes, NumPy arrays or torch tensors.

The last axis holds the actions; the others broadcast against each other. Tensors on the CPU share
their memory with NumPy; tensors on a GPU stay there (extra ``gpu``). No gradient flows: the result
of a step is a target, not a layer.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.errors import SettingsError
from spibb.operators.rows import Operator, step_rows


def greedy(q: Any) -> Any:
    """Put all probability on the first action of largest ``q``.

    Example:
        >>> greedy([1.0, 3.0, 2.0])
        array([0., 1., 0.])
    """
    return _lift(Operator.GREEDY, q, q, 0.0, 0.0)


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
    return _lift(Operator.PI_B, q, baseline, _errors_of(trusted), 0.0)


def pi_leq_b_step(q: Any, baseline: Any, trusted: Any) -> Any:
    """Give an action that is not trusted at most the baseline's probability.

    Example:
        >>> pi_leq_b_step([1, 2, 3, 4], [0.1, 0.4, 0.3, 0.2], [False, True, True, False])
        array([0. , 0. , 0.8, 0.2])
    """
    return _lift(Operator.PI_LEQ_B, q, baseline, _errors_of(trusted), 0.0)


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
    return _lift(Operator.SOFT_EXACT, q, baseline, errors, epsilon)


def soft_approx_step(q: Any, baseline: Any, errors: Any, epsilon: Any) -> Any:
    """Move mass from the worst actions to the best bargains within the budget.

    Arguments as in :func:`soft_exact_step`.

    Example:
        >>> soft_approx_step([0.0, 1.0], [0.5, 0.5], [1.0, 1.0], 0.4)
        array([0.3, 0.7])
    """
    return _lift(Operator.SOFT_APPROX, q, baseline, errors, epsilon)


def lower_exact_step(q: Any, baseline: Any, errors: Any, epsilon: Any) -> Any:
    """Maximise ``q`` with a budget on increases only, ``sum e max(0, pi - b) <= epsilon``.

    Arguments as in :func:`soft_exact_step`; an infinite error forbids increases only.

    Example:
        Only the receiver pays: a budget of 0.4 moves mass 0.4.

        >>> lower_exact_step([0.0, 1.0], [0.5, 0.5], [1.0, 1.0], 0.4)
        array([0.1, 0.9])
    """
    return _lift(Operator.LOWER_EXACT, q, baseline, errors, epsilon)


def lower_approx_step(q: Any, baseline: Any, errors: Any, epsilon: Any) -> Any:
    """Move mass to the best bargains with a budget on increases only.

    Arguments as in :func:`lower_exact_step`.

    Example:
        >>> lower_approx_step([0.0, 1.0], [0.5, 0.5], [1.0, 1.0], 0.4)
        array([0.1, 0.9])
    """
    return _lift(Operator.LOWER_APPROX, q, baseline, errors, epsilon)


def adv_exact_step(q: Any, baseline: Any, errors: Any, epsilon: Any, q_baseline: Any) -> Any:
    """Maximise ``q`` within the budget among rows with ``sum q_baseline (pi - b) >= 0``.

    Arguments as in :func:`soft_exact_step`, and:
        q_baseline: An estimate of the baseline's values, shape as ``q``.

    Example:
        By the baseline's values the second action is worse, so nothing moves.

        >>> adv_exact_step([0.0, 1.0], [0.5, 0.5], [1.0, 1.0], 0.4, [1.0, 0.0])
        array([0.5, 0.5])
    """
    return _lift(Operator.ADV_EXACT, q, baseline, errors, epsilon, q_baseline)


def adv_approx_step(q: Any, baseline: Any, errors: Any, epsilon: Any, q_baseline: Any) -> Any:
    """Move mass to the best bargains as long as the row stays advantageous.

    Arguments as in :func:`adv_exact_step`.

    Example:
        >>> adv_approx_step([0.0, 1.0], [0.5, 0.5], [1.0, 1.0], 0.4, [1.0, 0.0])
        array([0.5, 0.5])
    """
    return _lift(Operator.ADV_APPROX, q, baseline, errors, epsilon, q_baseline)


def _errors_of(trusted: Any) -> Any:
    if _is_tensor(trusted) and trusted.is_cuda and trusted.dtype.itemsize == 1:
        return trusted.logical_not().double().mul(np.inf).nan_to_num(nan=0.0, posinf=np.inf)
    flags = _to_numpy(trusted)
    if flags.dtype != np.bool_:
        raise SettingsError(f"trusted has type {flags.dtype}", expected="booleans")
    return np.where(flags, 0.0, np.inf)


def _lift(
    operator: Operator, q: Any, baseline: Any, errors: Any, epsilon: Any, side: Any = 0.0
) -> Any:
    if _is_tensor(q) and q.is_cuda and q.ndim > 0 and q.shape[-1] > 0:
        return _on_gpu(operator, q, (baseline, errors, epsilon, side))
    values = _to_numpy(q)
    if values.ndim == 0:
        raise SettingsError("q is a single number", expected="an axis of actions")
    dtype = np.float32 if values.dtype == np.float32 else np.float64
    parts = [_to_numpy(part) for part in (values, baseline, errors, side)]
    budget = _to_numpy(epsilon)[..., None]
    try:
        shape = np.broadcast_shapes(*(part.shape for part in parts), budget.shape)
    except ValueError:
        shapes = ", ".join(str(part.shape) for part in (*parts[:3], budget[..., 0]))
        raise SettingsError(
            f"shapes {shapes} of q, baseline, errors and epsilon do not fit together",
            expected="shapes that broadcast, with the actions on the last axis",
        ) from None
    if shape[-1] == 0:
        raise SettingsError(f"q of shape {values.shape}", expected="at least one action")
    rows, baselines, errs, sides, budgets = (_flat(part, shape) for part in (*parts, budget))
    slack = _slack(baseline, shape[-1])
    _refuse_bad_values(operator, rows, baselines, errs, budgets, sides, slack)
    out = np.empty_like(rows)
    epsilons = np.ascontiguousarray(budgets[:, 0])
    step_rows(int(operator), rows, baselines, errs, epsilons, sides, out)
    return _like(out.reshape(shape).astype(dtype, copy=False), q)


def _on_gpu(operator: Operator, q: Any, others: tuple[Any, ...]) -> Any:
    """Run the same step where the tensor is; values are checked there too."""
    import torch

    from spibb.operators.cuda import step_tensors

    def place(part: Any) -> Any:
        return torch.as_tensor(part, dtype=torch.float64, device=q.device)

    baseline, errors, epsilon, side = (place(part) for part in others)
    values = place(q.detach())
    rows, baselines, errs, sides, budgets = torch.broadcast_tensors(
        values, baseline, errors, side, epsilon[..., None]
    )
    shape = rows.shape
    flat = [
        part.reshape(-1, shape[-1]).contiguous() for part in (rows, baselines, errs, sides, budgets)
    ]
    _refuse_bad_tensors(operator, flat, _slack(others[0], shape[-1]))
    out = step_tensors(operator, flat[0], flat[1], flat[2], flat[4][:, 0].contiguous(), flat[3])
    return out.reshape(shape).to(q.dtype if q.dtype.is_floating_point else torch.float64)


def _slack(baseline: Any, n_actions: int) -> float:
    """Return how far the probabilities of a row may be from a sum of 1, as its type rounds."""
    resolution = 0.0
    if _is_tensor(baseline) and baseline.dtype.is_floating_point:
        import torch

        resolution = float(torch.finfo(baseline.dtype).eps)
    elif np.asarray(baseline).dtype.kind == "f" and not _is_tensor(baseline):
        resolution = float(np.finfo(np.asarray(baseline).dtype).eps)
    # Rounding errors of many numbers are of both signs, and add up to far less than their number.
    return max(1e-6, 2.0 * resolution * math.sqrt(n_actions))


def _refuse_bad_tensors(operator: Operator, flat: list[Any], slack: float) -> None:
    """Check on the GPU, and fetch the rows only where something is wrong."""
    q, baseline, errors, side, epsilon = flat
    is_good = q.isfinite().all()
    if operator is not Operator.GREEDY:
        is_good &= ((baseline >= 0) & (baseline <= 1 + 1e-9)).all() & (errors >= 0).all()
        is_good &= (epsilon >= 0).all() & side.isfinite().all()
        is_good &= ((baseline.sum(dim=1) - 1.0).abs() <= slack).all()
    if not bool(is_good):
        rows, baselines, errs, sides, budgets = (part.cpu().numpy() for part in flat)
        _refuse_bad_values(operator, rows, baselines, errs, budgets, sides, slack)


def _flat(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float64]:
    rows = np.broadcast_to(array, shape).reshape(-1, shape[-1])
    # One memory layout and one type, so that the kernel is compiled once.
    return np.require(rows, dtype=np.float64, requirements=["C", "W"])


def _refuse_bad_values(
    operator: Operator,
    q: NDArray[np.float64],
    baseline: NDArray[np.float64],
    errors: NDArray[np.float64],
    epsilon: NDArray[np.float64],
    side: NDArray[np.float64],
    slack: float,
) -> None:
    tables = {
        "q": q,
        "baseline": baseline,
        "errors": errors,
        "epsilon": epsilon,
        "q_baseline": side,
    }
    checks = [("q", np.isfinite(q), "finite numbers")]
    if operator is not Operator.GREEDY:
        checks += [
            ("baseline", (baseline >= 0) & (baseline <= 1 + 1e-9), "probabilities"),
            ("errors", errors >= 0, "numbers >= 0, infinite where the baseline must stay"),
            ("epsilon", epsilon >= 0, "a budget >= 0"),
            ("q_baseline", np.isfinite(side), "finite numbers"),
        ]
    for name, good, expected in checks:
        if not good.all():
            row, action = np.argwhere(~good)[0]
            raise SettingsError(
                f"{name} is {tables[name][row, action]}",
                where=f"row {row}, action {action}",
                expected=expected,
            )
    off = np.abs(baseline.sum(axis=1) - 1.0) > slack
    if operator is not Operator.GREEDY and off.any():
        row = int(np.argmax(off))
        raise SettingsError(
            f"the baseline's probabilities sum to {baseline[row].sum():.9g}",
            where=f"row {row}",
            expected="1 in every row",
            hint="divide each row by its sum",
        )


def _is_tensor(value: Any) -> bool:
    return type(value).__module__.split(".")[0] == "torch"


def _to_numpy(value: Any) -> NDArray[Any]:
    if _is_tensor(value):
        tensor = value.detach().cpu()
        if tensor.is_floating_point() and tensor.element_size() < 4:
            tensor = tensor.float()  # NumPy does not know bfloat16
        array: NDArray[Any] = tensor.numpy()
        return array
    return np.asarray(value)


def _like(array: NDArray[Any], q: Any) -> Any:
    if not _is_tensor(q):
        return array
    import torch

    tensor = torch.from_numpy(array)
    # Half-precision inputs come back as they went in.
    kept = q.dtype if q.dtype.is_floating_point else tensor.dtype
    return tensor.to(device=q.device, dtype=kept)
