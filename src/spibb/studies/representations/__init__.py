"""A study of verdicts where states are encoded from the columns of a real process."""
