"""Judge a policy in finer states than it acts in."""
