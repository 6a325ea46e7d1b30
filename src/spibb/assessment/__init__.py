"""Judge a policy: what it would gain, what it risks, whether to deploy it."""
