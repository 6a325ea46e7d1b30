"""Tables in files, databases and data frames, read as Arrow tables."""
