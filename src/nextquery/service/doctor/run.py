"""All checks, one after another."""

from pathlib import Path

from nextquery.arms import ArmPool
from nextquery.errors import NextqueryError
from nextquery.service.doctor.findings import Finding, checked
from nextquery.service.doctor.machine import (
    check_clock,
    check_files,
    check_supported,
    check_versions,
)
from nextquery.service.doctor.pool import check_pool
from nextquery.service.doctor.store import check_disk, check_store
from nextquery.service.settings import Settings


def examine(settings: Settings, pool: Path) -> list[Finding]:
    """Return what every check found; none of them changes anything."""
    found = checked("system", check_supported)
    found += checked("versions", lambda: check_versions(settings))
    found += checked("clock", check_clock)
    found += checked("open files", lambda: check_files(settings))
    found += checked("pool", lambda: check_pool(pool))
    found += checked("disk", lambda: check_disk(settings))
    found += checked("store", lambda: check_store(settings, _opened(pool)))
    return found


def _opened(pool: Path) -> ArmPool | None:
    try:
        return ArmPool.open(pool)
    except (NextqueryError, OSError):
        return None  # a check of the pool says so
