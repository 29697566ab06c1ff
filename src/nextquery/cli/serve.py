"""Commands that serve and set up the service: serve, keys, config, doctor.

A pool is served in this process, or in shards on a Ray cluster.
"""

import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextquery import datasets
from nextquery.cli import options as s
from nextquery.cli import output
from nextquery.cli.options import load_settings
from nextquery.cli.output import BAD_FILES, Stages, err, out, print_json, table

if TYPE_CHECKING:
    from nextquery.arms import ArmPool
    from nextquery.service.http.keys import Key, KeyRing
    from nextquery.service.settings import Settings


config = typer.Typer(name="config", help="Show the settings of the service.", no_args_is_help=True)


@config.callback()
def about() -> None:
    """Show the settings of the service."""


@config.command()
def show(
    set: s.Set = [],  # noqa: B006
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Print every setting of the service, its value and its source; secrets are hidden."""
    settings, origins = s.load_settings({}, more=set, config=config)
    from nextquery.service.settings import Settings

    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "value": shown(name, getattr(settings, name)),
            "from": origins[name],
            "meaning": field.description,
        }
        for name, field in Settings.model_fields.items()
    ]
    if as_json:
        print_json({row["name"]: {"value": row["value"], "from": row["from"]} for row in rows})
    else:
        cells = [[str(value) for value in row.values()] for row in rows]
        out().print(table("Settings", list(rows[0]), cells))


def shown(name: str, value: Any) -> Any:
    """Return a value with its secrets hidden.

    >>> shown("store", "postgresql://me:secret@db/nextquery")
    'postgresql://me:***@db/nextquery'
    >>> shown("store", "postgresql://me@db/nextquery?password=secret")
    'postgresql://me@db/nextquery?password=***'
    """
    from pydantic import SecretStr

    if isinstance(value, SecretStr):
        return "hidden" if value.get_secret_value() else ""
    if name == "store":
        from nextquery.service.log.database import without_password

        return without_password(value)
    return value


_MARKS = {"ok": "[green]ok[/green]     ", "warning": "[yellow]warning[/yellow]"}


def doctor(
    pool: Annotated[Path, typer.Argument(metavar="POOL", help="The pool to serve.")],
    store: s.StoreUrl = None,
    set: s.Set = [],  # noqa: B006  (typer only reads it)
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Check machine, versions, pool, encoder, store, clock, disk and rights; say what to do.

    Changes nothing. Exits with 4 if there is a problem; a warning is no problem.
    """
    settings = s.load_settings({"store": store}, more=set, config=config).settings
    from rich.markup import escape

    from nextquery.service.doctor import examine

    findings = examine(settings, pool)
    problems = sum(one.state == "problem" for one in findings)
    if as_json:
        checks = [one._asdict() for one in findings]
        print_json({"ok": problems == 0, "problems": problems, "checks": checks})
    else:
        for one in findings:
            mark = _MARKS.get(one.state, "[red]problem[/red]")
            todo = f" {escape(one.todo)}" if one.todo else ""
            line = f"{mark}  {one.name}: {escape(one.found)}."
            out().print(line + todo, soft_wrap=True, highlight=False)
    if problems:
        raise typer.Exit(BAD_FILES)


keys = typer.Typer(
    name="keys",
    help="Create, list, rotate and revoke the API keys of a store.",
    no_args_is_help=True,
)


@keys.command()
def create(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    scope: Annotated[
        str, typer.Option(help="read, write (includes read) or admin (everything).")
    ] = "write",
    owner: Annotated[
        str | None,
        typer.Option(
            help="The application that the key belongs to: its keys share sessions, others see "
            "nothing of them. By default the key is an owner of its own."
        ),
    ] = None,
    trusted_users: Annotated[
        bool,
        typer.Option(
            "--trusted-users",
            help="Trust the user_id of its requests without a signature, so that people get "
            "recommendations from their own past. Only for a back end that knows who is logged "
            "in; never for a key in a web page.",
        ),
    ] = False,
    store: s.StoreUrl = None,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Create a key and print it. It is shown only once: the store keeps only its hash."""
    from nextquery.service.http.keys import check_new_key

    check_new_key(name=name, scope=scope, owner=owner)  # before a new store is created
    key, text = _ring(store, config).create(
        name=name, scope=scope, owner=owner, trusted_users=trusted_users
    )
    if as_json:
        print_json({**_fields(key), "key": text})
        return
    print(text)
    err().print(
        f"key {key.id}, scope {key.scope}, owner {key.owner}"
        + (", its user ids are trusted" if key.trusted_users else "")
        + ". Save it now: it is not shown again.",
        markup=False,
    )


@keys.command(name="list")
def list_keys(store: s.StoreUrl = None, config: s.Config = None, as_json: s.AsJson = False) -> None:
    """List the keys, without their secrets."""
    rows = [_fields(key) for key in _ring(store, config, create=False).list()]
    if as_json:
        print_json(rows)
    else:
        columns = ["id", "name", "scope", "owner", "trusted_users", "created", "revoked"]
        cells = [[_cell(row[column]) for column in columns] for row in rows]
        out().print(table("API keys", [name.replace("_", " ") for name in columns], cells))


@keys.command()
def rotate(
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of the key, as in keys list.")],
    overlap: Annotated[
        float, typer.Option(help="Hours in which the old key still works beside the new one.")
    ] = 24.0,
    store: s.StoreUrl = None,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Replace a key: print a new one with the same scope and owner, and let the old one end."""
    key, text = _ring(store, config, create=False).rotate(id, overlap_s=overlap * 3600)
    if as_json:
        print_json({**_fields(key), "key": text})
        return
    print(text)
    err().print(
        f"key {key.id} replaces {id}, which still works for {overlap:g} hours. Save the new one "
        "now: it is not shown again.",
        markup=False,
    )


@keys.command()
def revoke(
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of the key, as in keys list.")],
    store: s.StoreUrl = None,
    config: s.Config = None,
) -> None:
    """Revoke a key. Running services reject it within a second."""
    key = _ring(store, config, create=False).revoke(id)
    out().print(f"revoked {key.id} ({key.name})", markup=False)


def _ring(store: str | None, config: "s.Config", *, create: bool = True) -> "KeyRing":
    settings = s.load_settings({"store": store}, config=config).settings
    from nextquery.service.http.keys import KeyRing
    from nextquery.service.log.store import Store

    return KeyRing(Store.open(settings.store, create=create))


def _fields(key: "Key") -> dict[str, str | bool | None]:
    return {
        "id": key.id,
        "name": key.name,
        "scope": key.scope,
        "owner": key.owner,
        "trusted_users": key.trusted_users,
        "created": _day(key.created),
        "revoked": None if key.revoked is None else _day(key.revoked),
    }


def _cell(value: str | bool | None) -> str:
    return "yes" if value is True else value or ""


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))


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
            print_line=lambda line: print(line, file=stdout, flush=True),
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


def serve(
    pool: Annotated[
        str | None,
        typer.Argument(
            metavar="POOL",
            help="A pool that ingest wrote, or topics for a pool of the built-in log.",
        ),
    ] = None,
    store: s.StoreUrl = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[
        str | None, typer.Option(help="The port to listen on; 0 for any free port.")
    ] = None,
    workers: Annotated[str | None, typer.Option(help="Number of worker processes.")] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Search the pool on a Ray cluster: host:port of its head node, auto for the Ray "
            "on this machine, or local to start one here.",
        ),
    ] = None,
    shards: Annotated[
        str | None,
        typer.Option(help="Shards of the pool on the cluster; one per machine by default."),
    ] = None,
    keys: Annotated[
        str | None, typer.Option(help="Whether requests need an API key: auto, on or off.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            autocompletion=output.served_policies,
            help="Policy that ranks the candidates; nextquery config show lists the names.",
        ),
    ] = None,
    explore: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="A CSV, TSV, Parquet or DuckDB file to explore by example on the page.",
        ),
    ] = None,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help="Allow a change of the policy to forget what was learnt live. Without it, serve "
            "asks on a terminal, and is an error elsewhere.",
        ),
    ] = False,
    set: s.Set = [],  # noqa: B006  (typer only reads it)
    config: s.Config = None,
) -> None:
    """Recommend and learn over HTTP.

    Every event is stored before its response is sent, so you can kill the service at any time
    without losing data.

    Without API keys it only serves this machine, and administration needs the token that it prints.
    Before you put a proxy in front, make a key first: nextquery keys create NAME --scope write
    """
    options = {
        "pool": pool,
        "store": store,
        "host": host,
        "port": port,
        "workers": workers,
        "cluster": cluster,
        "shards": shards,
        "keys": keys,
        "policy": policy,
        "explore": explore,
    }
    serve_with(options, more=set, config=config, forget=forget)
