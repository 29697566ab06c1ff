"""Commands that control suggestions: block queries and patterns, curate, pin, audit changes.

Every change to a store records who made it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli import options as s
from nextquery.cli.options import moment, this_user, write_all
from nextquery.cli.output import out, print_json, table

if TYPE_CHECKING:
    from nextquery.arms import ArmPool
    from nextquery.service.log.operators import Control


def audit(
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="First moment, like 2026-03-01T12:00 (UTC if not said)."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most changes to show.")] = 100,
    store: s.StoreUrl = None,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Show what operators changed, newest first, and who did it: blocks, pins, arms, keys, models.

    Who made a change of keys is not known.
    """
    settings = s.load_settings({"store": store}, config=config).settings
    from nextquery.service.log import operators as log
    from nextquery.service.log.store import Store

    opened = Store.open(settings.store, create=False)
    found = log.changes(opened, since=moment(since, "--since") or 0.0, limit=limit)
    opened.close()
    rows = [log.as_json(change) for change in found]
    if as_json:
        print_json({"changes": rows})
        return
    cells = [
        [
            row["time"],
            str(row["position"] or "-"),
            row["change"],
            _details_text(row["details"]),
            _who(row),
        ]
        for row in rows
    ]
    out().print(table("changes", ["time", "position", "change", "what", "who"], cells))


def _details_text(details: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in details.items() if name != "settings")


def _who(row: dict[str, dict[str, str]]) -> str:
    return " ".join(row["by"].values()) if row["by"] else "not recorded"


def block(
    pool: Annotated[
        Path, typer.Argument(metavar="POOL", help="The pool that the store was created with.")
    ],
    queries: Annotated[
        list[str],
        typer.Argument(metavar="[QUERY]...", help="Queries to block.", show_default=False),
    ] = [],  # noqa: B006  (typer only reads it)
    pattern: Annotated[
        list[str],
        typer.Option(
            help="Words that no shown query may have next to each other; * stands for any "
            "characters of a word, ? for one; repeatable."
        ),
    ] = [],  # noqa: B006
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of queries, one per line.")
    ] = None,
    pattern_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of patterns, one per line.")
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Allow these again, instead of blocking them.")
    ] = False,
    list_them: Annotated[
        bool, typer.Option("--list", help="Show what is blocked, and change nothing.")
    ] = False,
    store: s.StoreUrl = None,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Never show queries, or what a pattern matches, starting with the next answer of a service.

    Running services respect it at once. Nothing is written if any query or pattern is not valid.
    """
    settings = s.load_settings({"store": store}, config=config).settings
    from nextquery.arms import ArmPool
    from nextquery.errors import InvalidInput
    from nextquery.service.log.store import Store
    from nextquery.service.model.learner import Learner, newest_state
    from nextquery.service.model.prepare import check_pool

    texts = [*queries, *lines(file)]
    patterns = [*pattern, *lines(pattern_file)]
    if not list_them and not texts and not patterns:
        raise InvalidInput(
            "received nothing to block. Pass queries, --pattern, --file or --pattern-file; or "
            "--list to see what is blocked."
        )
    opened, arms = Store.open(settings.store, create=False), ArmPool.open(pool)
    check_pool(opened, arms)
    changed = 0
    if not list_them:
        changes = _changes(arms, texts, patterns, remove=remove)
        changed = len(write_all(opened, changes))
    learner = Learner(opened, newest_state(opened))
    learner.catch_up()
    state = learner.state
    opened.close()
    if as_json:
        blocked = {"queries": sorted(state.blocked), "patterns": sorted(state.patterns)}
        print_json({**blocked, "changed": changed, "position": state.position})
        return
    for kind, found in (("query", state.blocked), ("pattern", state.patterns)):
        for text in sorted(found) if list_them else ():
            print(f"{kind}\t{text}")
    if not list_them:
        done = "allowed again" if remove else "blocked"
        out().print(
            f"position {state.position}: {changed} {done}; {len(state.blocked)} queries and "
            f"{len(state.patterns)} patterns are blocked now"
        )


def _changes(
    pool: "ArmPool", queries: list[str], patterns: list[str], *, remove: bool
) -> "list[Control]":
    """Return the changes to write, all of them checked."""
    from nextquery.catalogue.catalogue import Catalogue
    from nextquery.service.engine.requests import check_query
    from nextquery.service.log.events import Blocked, PatternAllowed, PatternBlocked, Unblocked
    from nextquery.service.log.operators import Control

    catalogue, by = Catalogue(pool), this_user()
    texts = [catalogue.key(check_query(query)) for query in queries]
    cleaned = [catalogue.pattern(pattern).text for pattern in patterns]
    of_text, of_pattern = (Unblocked, PatternAllowed) if remove else (Blocked, PatternBlocked)
    return [Control(of_text(text, by)) for text in texts] + [
        Control(of_pattern(text, by)) for text in cleaned
    ]


def lines(file: Path | None) -> list[str]:
    """Return the lines of a file that are not blank; none without a file."""
    from nextquery.errors import InvalidInput

    if file is None:
        return []
    try:
        content = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"cannot read {file}: {error}. Pass a UTF-8 text file with one query or pattern per "
            "line."
        ) from error
    return [line.strip() for line in content.splitlines() if line.strip()]


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
    from nextquery.service.model.learner import followed
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
