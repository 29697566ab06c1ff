"""`nextquery block`: queries and patterns that are never shown."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli import settings_options as s
from nextquery.cli.changes import this_user, write_all
from nextquery.cli.output import out, print_json

if TYPE_CHECKING:
    from nextquery.arms import ArmPool
    from nextquery.service.log.operators import Control


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
    from nextquery.service.model.learner import Learner
    from nextquery.service.model.prepare import check_pool
    from nextquery.service.model.snapshots import newest_state

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
