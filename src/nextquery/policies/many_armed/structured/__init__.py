"""Bandits that know how far arms are from each other."""
