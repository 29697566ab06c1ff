"""Erasing what the log knows of a person, or what is older than it may get."""
