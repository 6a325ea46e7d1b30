"""Generators of random problems with known truth, on which a model of risk is judged."""
