"""How risky is a policy? One posterior model of what the log leaves possible answers.

`model` fits it, `gain_moments` gives mean and deviation of gains, `penalised_search` makes policies
by it, and `risk` says what follows for a decision.
"""
