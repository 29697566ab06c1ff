"""Forgetting a person in the pool that is served."""
