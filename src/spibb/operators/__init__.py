"""Improvement steps: functions of one row of Q and the baseline, lifted over any leading axes."""

from spibb.operators.lift import (
    adv_approx_step,
    adv_exact_step,
    apply,
    greedy,
    lower_approx_step,
    lower_exact_step,
    pi_b_step,
    pi_leq_b_step,
    soft_approx_step,
    soft_exact_step,
)
from spibb.operators.rows import Operator

__all__ = [
    "Operator",
    "adv_approx_step",
    "adv_exact_step",
    "apply",
    "greedy",
    "lower_approx_step",
    "lower_exact_step",
    "pi_b_step",
    "pi_leq_b_step",
    "soft_approx_step",
    "soft_exact_step",
]
