"""How risky is a policy? Models that the log leaves possible are drawn, and policies tried in them.

The prior (spibb.data.prior) gives every pair a distribution of models. `draws` draws whole models
from it, `performance` evaluates policies in each, `risk` says what follows for a decision.
"""
