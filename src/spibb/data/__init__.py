"""Logs of decisions and what is counted in them."""
