"""Studies as data: plans, what one run does, and the figures."""
