"""Experiments: who gets which policy, and tests that are valid whenever you look at them."""
