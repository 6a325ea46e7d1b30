"""The study of run time: time to convergence against the number of actions."""
