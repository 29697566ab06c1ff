"""Bandits that stay with an arm until it has failed."""
