"""Bandits that play only some of many arms, drawn at random."""
