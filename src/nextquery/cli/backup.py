"""`nextquery backup` and `nextquery restore`: copies of a store that prove themselves."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli import settings_options as s
from nextquery.cli.output import out, print_json

if TYPE_CHECKING:
    from nextquery.service.maintain.backup import Proof


def backup(
    to: Annotated[Path, typer.Option("--out", metavar="FILE", help="The new file to write.")],
    store: s.StoreUrl = None,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Copy a store into one file while the service runs, and prove the copy.

    The file is an SQLite database, also for a store on PostgreSQL. The model is computed again from
    the copied log and compared with the store's newest snapshot.
    """
    settings = s.load_settings({"store": store}, config=config).settings
    from nextquery.service.log.store import Store
    from nextquery.service.maintain.backup import backup as run

    opened = Store.open(settings.store, create=False)
    try:
        proof = run(opened, to)
    finally:
        opened.close()
    _tell(proof, f"backed up {opened.name} to {to}", as_json=as_json)


def restore(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file that nextquery backup wrote.")
    ],
    store: s.StoreUrl = None,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Make a new store from a backup, and prove it: the same events, the same model.

    The store must not exist yet, or be an empty PostgreSQL database. Serve it with the pool that it
    was made with.
    """
    settings = s.load_settings({"store": store}, config=config).settings
    from nextquery.service.log.database import without_password
    from nextquery.service.maintain.backup import restore as run

    proof = run(file, settings.store)
    _tell(proof, f"restored {file} as {without_password(settings.store)}", as_json=as_json)


def _tell(proof: "Proof", what: str, *, as_json: bool) -> None:
    if as_json:
        print_json(proof._asdict())
        return
    out().print(
        f"{what}: {proof.position} events; the model computed from them differs by "
        f"{proof.difference:g} at position {proof.position}",
        markup=False,
    )
