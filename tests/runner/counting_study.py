"""A study whose third job cannot be computed."""

import pyarrow as pa


def run_job(plan, first, last):
    """Return one row for each run; run 5 fails."""
    if first <= 5 < last:
        raise ArithmeticError(f"run 5 of seed {plan.seed}\ncannot be counted")
    return pa.table({"run": list(range(first, last))})
