"""The arms: a pool of texts and vectors with exact nearest neighbours."""

from nextquery.arms.pool import ArmPool

__all__ = ["ArmPool"]
