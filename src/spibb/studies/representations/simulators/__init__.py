"""Processes with raw columns and a known truth, one in each file."""
