"""The study on random MDPs: the finite-MDP half of the Soft-SPIBB paper."""
