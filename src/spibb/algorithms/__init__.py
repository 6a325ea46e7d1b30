"""Algorithms: immutable settings with one verb, `improve`."""
