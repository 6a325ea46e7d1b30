"""Is this log sound? What it holds, and what would be wrong with a result made of it."""
