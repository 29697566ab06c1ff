"""Erase from the log, the pool and the files: a person's data, or data that is too old."""
