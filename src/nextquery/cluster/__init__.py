"""The same calls on a Ray cluster, for more than one machine."""

from nextquery.cluster.connection import connect
from nextquery.cluster.greedi import greedi
from nextquery.cluster.pool import RayArmPool

__all__ = ["RayArmPool", "connect", "greedi"]
