"""Comparison: every recommender on one stream, its costs, and which to use."""
