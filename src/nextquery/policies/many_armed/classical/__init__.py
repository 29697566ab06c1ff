"""Bandits for a few arms, as they are taught; here to compare with."""
