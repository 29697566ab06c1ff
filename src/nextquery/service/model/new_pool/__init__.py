"""Another pool under the same log: what continues it, and how all workers change to it."""
