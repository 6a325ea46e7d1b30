"""Rows a second on a GPU: ``python benchmarks/gpu_rows.py``, with the extra gpu."""

import time

import torch

from spibb import operators


def main() -> None:
    """Time the exact and the approximate step on ten million rows."""
    torch.manual_seed(0)
    for n_actions in (4, 9, 25):
        n_rows = 10_000_000 if n_actions < 25 else 4_000_000
        q = torch.randn(n_rows, n_actions, device="cuda", dtype=torch.float64)
        baseline = torch.softmax(torch.randn_like(q), dim=1)
        errors = torch.rand_like(q)
        for step in (operators.soft_exact_step, operators.soft_approx_step):
            step(q, baseline, errors, 0.5)
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(5):
                step(q, baseline, errors, 0.5)
            torch.cuda.synchronize()
            rate = 5 * n_rows / (time.perf_counter() - start)
            print(f"{step.__name__}, {n_actions} actions: {rate / 1e9:.2f} billion rows a second")


if __name__ == "__main__":
    main()
