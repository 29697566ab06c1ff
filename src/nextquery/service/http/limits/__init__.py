"""Limits on what clients can use up: bodies, connections, lines of the log."""
