"""The entries of a slate."""
