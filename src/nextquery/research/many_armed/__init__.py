"""Bandits for very many arms, all with the contract of a policy."""
