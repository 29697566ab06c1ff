"""`nextquery curate`: queries that may be suggested although nobody asked, and pins."""

from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli import settings_options as s
from nextquery.cli.block import lines
from nextquery.cli.changes import this_user, write_all
from nextquery.cli.output import out, print_json


def curate(
    pool: Annotated[
        Path, typer.Argument(metavar="POOL", help="The pool that the store was created with.")
    ],
    queries: Annotated[
        list[str],
        typer.Argument(metavar="[QUERY]...", help="Queries to import.", show_default=False),
    ] = [],  # noqa: B006  (typer only reads it)
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of queries, one per line.")
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            metavar="QUERY", help="Also pin them: always show them at the top after this."
        ),
    ] = None,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="Also pin them after every query.")
    ] = False,
    remove: Annotated[
        bool,
        typer.Option("--remove", help="Remove the pins of these, instead of pinning them."),
    ] = False,
    segment: Annotated[str, typer.Option(help="The segment that they are for.")] = "",
    list_them: Annotated[
        bool, typer.Option("--list", help="Show the pins, and change nothing.")
    ] = False,
    store: s.StoreUrl = None,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Import queries that may be suggested although nobody asked them; pin them to the top.

    Running services respect it at once. Nothing is written if any query is not valid.
    """
    settings = s.load_settings({"store": store}, config=config).settings
    from nextquery.arms import ArmPool
    from nextquery.errors import InvalidInput
    from nextquery.service.engine.engine import listed_pins, to_curate, to_pin, to_unpin
    from nextquery.service.log.store import Hashes, Store
    from nextquery.service.model.catalogue import followed
    from nextquery.service.model.prepare import check_pool

    texts = [*queries, *lines(file)]
    pinned = after is not None or everywhere
    if not list_them and not texts:
        raise InvalidInput("received no queries. Pass some, or --file; or --list to see the pins.")
    if (after is not None and everywhere) or (remove and not pinned):
        raise InvalidInput(
            "received both --after and --everywhere, or --remove without either. Pass one of them. "
            "To remove an imported query itself, block it: nextquery block."
        )
    opened, arms = Store.open(settings.store, create=False), ArmPool.open(pool)
    check_pool(opened, arms)
    catalogue, by, changed = followed(arms, opened), this_user(), 0
    if texts and not list_them:
        if not remove:
            hashes = Hashes.of(opened, settings.user_hash_secret.get_secret_value())
            changed = write_all(opened, [to_curate(catalogue, hashes, texts, segment, by)])[0]
            catalogue = followed(arms, opened)
        change = to_unpin if remove else to_pin
        pins = [change(catalogue, text, after, segment, by) for text in texts if pinned]
        if pins:
            write_all(opened, pins)
            catalogue = followed(arms, opened)
    listed = listed_pins(catalogue)
    opened.close()
    if as_json:
        print_json({"pins": listed, "imported": changed})
        return
    for pin in listed if list_them else ():
        print(f"{pin['segment'] or '-'}\t{pin['after'] or '(every query)'}\t{pin['query']}")
    if not list_them:
        out().print(f"{changed} new queries may be suggested; {len(listed)} pins are in force")
