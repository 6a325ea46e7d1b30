"""The improvement steps as operations on whole torch tensors, for graphs of GPU work.

The row functions of spibb.operators branch, which a captured graph cannot: here every row takes
every branch, and masks decide. Each step takes q, baseline and errors of shape (..., A), epsilon of
shape (...,), any floating type, any device, and has no gradient. tests/deep/test_torch_steps.py
holds them to the row functions.
"""

from __future__ import annotations

from typing import Any

from spibb.operators.rows import Operator


def step(operator: Operator, q: Any, baseline: Any, errors: Any, epsilon: Any) -> Any:
    """Return the new rows by an operator."""
    if operator is Operator.GREEDY:
        return greedy(q)
    if operator is Operator.PI_B:
        return pi_b(q, baseline, errors)
    if operator is Operator.PI_LEQ_B:
        return pi_leq_b(q, baseline, errors)
    if operator is Operator.SOFT_APPROX:
        return soft_approx(q, baseline, errors, epsilon)
    return soft_exact(q, baseline, errors, epsilon)


def greedy(q: Any) -> Any:
    """Put all mass on the first action of largest q."""
    best = q.argmax(-1, keepdim=True)
    return q.new_zeros(q.shape).scatter(-1, best, 1.0)


def pi_b(q: Any, baseline: Any, errors: Any) -> Any:
    """Copy the baseline where the error is infinite, be greedy among the rest."""
    return _with_rest(q, baseline, errors.isinf(), errors)


def pi_leq_b(q: Any, baseline: Any, errors: Any) -> Any:
    """As `pi_b`, but pinned actions worse than the best trusted one give their mass."""
    pinned = errors.isinf()
    best = q.masked_fill(pinned, -_INF).amax(-1, keepdim=True)
    return _with_rest(q, baseline, pinned & (q > best), errors)


def _with_rest(q: Any, baseline: Any, keeps: Any, errors: Any) -> Any:
    """Let some actions keep the baseline's mass; the best trusted action takes the rest."""
    pinned = errors.isinf()
    best = q.masked_fill(pinned, -_INF).argmax(-1, keepdim=True)
    rest = baseline.masked_fill(keeps, 0.0).sum(-1, keepdim=True)
    found = baseline.masked_fill(~keeps, 0.0).scatter_add(-1, best, rest)
    return found.where(~pinned.all(-1, keepdim=True), baseline)


def soft_approx(q: Any, baseline: Any, errors: Any, epsilon: Any) -> Any:
    """Move mass from the worst actions to the best bargains until the budget is spent."""
    free = errors.isfinite()
    budget = epsilon[..., None].clone()
    order = q.argsort(dim=-1, stable=True)
    out = baseline.clone()
    for k in range(q.shape[-1]):
        donor = order[..., k : k + 1]
        gain = q - q.gather(-1, donor)
        ratio = (gain / errors).masked_fill(~(free & (gain > 0)), 0.0)
        best = ratio.amax(-1, keepdim=True)
        receiver = q.masked_fill(ratio < best, -_INF).argmax(-1, keepdim=True)
        given, owed = errors.gather(-1, donor), errors.gather(-1, receiver)
        mass = out.gather(-1, donor)
        moves = (best > 0) & given.isfinite() & (mass > 0)
        dearer = given.maximum(owed)
        mass = mass.minimum((budget / (2.0 * dearer)).masked_fill(dearer == 0, _INF))
        mass = mass.masked_fill(~moves, 0.0)
        out = out.scatter_add(-1, receiver, mass).scatter_add(-1, donor, -mass)
        cost = (mass * (given + owed)).masked_fill(~moves, 0.0)
        budget = (budget - cost).clamp(min=0.0)
    return out.where(epsilon[..., None].isfinite(), greedy(q))


def soft_exact(q: Any, baseline: Any, errors: Any, epsilon: Any) -> Any:
    """Sweep the events of the exact step; at most two for each action can happen."""
    free = errors.isfinite()
    least = errors.amin(-1, keepdim=True)
    d = q.masked_fill((errors > least) | ~free, -_INF).argmax(-1, keepdim=True)
    active = free.any(-1, keepdim=True)
    budget = epsilon[..., None].clone()
    received = budget.new_zeros(budget.shape)
    out = baseline.clone()
    for _ in range(2 * q.shape[-1]):
        q_d, e_d = q.gather(-1, d), errors.gather(-1, d)
        price = ((q_d - q) / (e_d + errors)).masked_fill(~(free & (q < q_d) & (out > 0)), 0.0)
        donor_price, donor = price.max(-1, keepdim=True)
        climbs = free & (q > q_d) & (errors > e_d)
        price = ((q - q_d) / (errors - e_d)).masked_fill(~climbs, 0.0)
        edge_price, vertex = price.max(-1, keepdim=True)
        gives = active & (donor_price > 0) & (donor_price >= edge_price)
        climbs_now = active & (edge_price > 0) & ~gives
        # A donor gives all it has, or what the budget allows.
        mass, unit = baseline.gather(-1, donor), errors.gather(-1, donor) + e_d
        is_whole = mass * unit <= budget
        part = mass.where(is_whole, mass.minimum(budget / unit)).masked_fill(~gives, 0.0)
        out = out.scatter_add(-1, donor, -part)
        received = received + part
        budget = budget - (part * unit).masked_fill(~(gives & is_whole), 0.0)
        # An edge carries all that was received to the next vertex, or what the budget allows.
        unit = errors.gather(-1, vertex) - e_d
        carries = received * unit <= budget
        part = received.minimum(budget / unit).masked_fill(~climbs_now | carries, 0.0)
        out = out.scatter_add(-1, vertex, part)
        cost = (received * unit).masked_fill(~(climbs_now & carries), 0.0)
        received = received - part
        budget = budget - cost
        d = vertex.where(climbs_now & carries, d)
        active = (gives & is_whole) | (climbs_now & carries)
    out = out.scatter_add(-1, d, received)
    return out.where(epsilon[..., None].isfinite(), greedy(q))


_INF = float("inf")
