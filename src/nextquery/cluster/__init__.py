"""Beyond one machine: the same calls on a Ray cluster."""

from nextquery.cluster.connection import connect

__all__ = ["connect"]
