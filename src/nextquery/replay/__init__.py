"""Replay: the experiments of the paper on past sessions, and the report they end in."""
