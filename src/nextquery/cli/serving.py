"""Open the served pool: in this process, or in shards on a Ray cluster."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nextquery.arms import ArmPool
    from nextquery.service.settings.settings import Settings


def join_cluster(settings: "Settings") -> "Settings":
    """Join the cluster, and set its address in the settings, so that every worker joins the same.

    The pool is opened first, so that a wrong path fails without a cluster.
    """
    if settings.cluster is None:
        return settings
    from nextquery.arms import ArmPool
    from nextquery.cluster import connect

    ArmPool.open(str(settings.pool))
    return settings.model_copy(update={"cluster": connect(settings.cluster)})


def open_pool(settings: "Settings") -> "ArmPool":
    """Open the pool of the settings; workers import this function by its name."""
    if settings.cluster is None:
        from nextquery.arms import ArmPool

        return ArmPool.open(str(settings.pool))
    from nextquery.cluster import RayArmPool

    sys.stdout = sys.stderr  # Ray prints to stdout when a worker dies
    return RayArmPool.open(
        str(settings.pool),
        address=settings.cluster,
        shards=settings.shards,
        deadline=settings.shard_deadline_s,
        on_missing=settings.on_missing,
    )
