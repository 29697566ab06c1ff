"""`nextquery keys`: create, list and revoke API keys."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli import settings_options as s
from nextquery.cli.output import err, out, print_json, table

if TYPE_CHECKING:
    from nextquery.service.http.keys import Key, KeyRing

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
