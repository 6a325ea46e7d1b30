"""Finite Markov decision processes: models, policies, evaluation, planning, sampling."""
