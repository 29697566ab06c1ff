"""Maintain a store: back up, restore, repair, and take over its log for a new pool."""
