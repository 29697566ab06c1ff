"""When a typed query becomes an arm: who typed it, how often that may happen, and review."""
