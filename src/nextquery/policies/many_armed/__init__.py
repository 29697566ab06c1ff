"""Bandits for very many arms: each in a file of its own, all on the contract of a policy."""
