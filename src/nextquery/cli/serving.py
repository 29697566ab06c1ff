"""Serve a pool: in this process, or in shards on a Ray cluster."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nextquery import datasets
from nextquery.cli.output import Stages
from nextquery.cli.settings_options import load_settings

if TYPE_CHECKING:
    from nextquery.arms import ArmPool
    from nextquery.service.settings import Settings

_POOLS = Path("pools")  # where the pools of built-in logs are made


def serve_with(
    options: Mapping[str, str | None],
    *,
    more: Iterable[str] = (),
    config: Path | None = None,
    forget: bool = False,
) -> None:
    """Serve with these settings until the process is stopped.

    Parameters
    ----------
    options : settings by name; None leaves one to the environment and the configuration file.
    more : further settings, as NAME=VALUE.
    config : the configuration file.
    forget : a change of the policy may forget what was learnt live.
    """
    from nextquery.service.http import responses
    from nextquery.service.server import loading

    responses.start(level="info", messages=False)  # so that warnings about settings are JSON too
    with loading():
        settings = load_settings(options, more=more, config=config).settings
        import numba  # noqa: F401  (needed soon, and large)

        from nextquery.service.server import serve

    stdout = sys.stdout
    with Stages() as stages:

        def may_forget(question: str) -> bool:
            return forget or (sys.stdin.isatty() and stages.ask(question))

        if settings.pool is not None and datasets.file_of(settings.pool) is not None:
            pool = built_in_pool(settings.pool, _POOLS, stages)
            settings = settings.model_copy(update={"pool": str(pool)})
        serve(
            join_cluster(settings),
            open_pool=open_pool,
            forget=may_forget,
            tell=lambda line: print(line, file=stdout, flush=True),
            progress=lambda done, total: stages(
                "learn from past sessions", done / total if total else 1.0
            ),
        )


def built_in_pool(name: str, folder: Path, stages: Stages) -> Path:
    """Return the pool of a built-in log, which is made once, in `folder`."""
    pool = folder / name
    if not (pool / "manifest.json").exists():
        from nextquery.build.ingest import ingest

        ingest([str(datasets.path(name))], pool, progress=stages)
    return pool


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
