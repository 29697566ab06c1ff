"""Arms: a pool of texts and vectors with exact nearest-neighbour search."""

from nextquery.arms.pool import ArmPool

__all__ = ["ArmPool"]
