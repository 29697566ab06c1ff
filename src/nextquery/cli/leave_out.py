"""`nextquery leave-out`: unlearn what a user, a key owner or a span of time taught."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli import settings_options as s
from nextquery.cli.changes import this_user, write_all
from nextquery.cli.output import out, print_json, table

if TYPE_CHECKING:
    from nextquery.service.log.events import Event


def leave_out(
    user: Annotated[
        str | None, typer.Option(metavar="ID", help="The user_id of the requests.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="OWNER", help="The owner of the key of the requests.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="First moment, like 2026-03-01T12:00 (UTC if not said)."
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="First moment that counts again.")
    ] = None,
    undo: Annotated[
        int | None,
        typer.Option(metavar="POSITION", help="Let decisions teach again that an event left out."),
    ] = None,
    list_them: Annotated[
        bool, typer.Option("--list", help="Show what is left out, and change nothing.")
    ] = False,
    store: s.StoreUrl = None,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Unlearn decisions, chosen by user, key owner and time; all that you name must hold.

    Their clicks, time-outs and queries teach nothing any more; they stay in the log and in the
    statistics. Running services recompute their model in the background.
    """
    settings = s.load_settings({"store": store}, config=config).settings
    from nextquery.errors import InvalidInput
    from nextquery.service.log.store import Hashes, Store
    from nextquery.service.log.teaching import LeaveOut, TakeBackIn

    since_s, until_s = moment(since, "--from"), moment(until, "--until")
    opened, user_hash = Store.open(settings.store, create=False), None
    if user is not None:
        user_hash = Hashes.of(opened, settings.user_hash_secret.get_secret_value()).user(user)
        if user_hash is None:
            raise InvalidInput(f"--user {user!r} names nobody. Pass the user_id of the requests.")
    if not list_them:
        by = this_user()
        chosen = LeaveOut(user_hash, key, since_s, until_s, by)
        write_all(opened, [chosen if undo is None else TakeBackIn(undo, by)])
    found = opened.left_out(opened.head().position)
    opened.close()
    rows = [_row(event) for event in found]
    rows = [row for row in rows if row["decisions"] or row["undoes"]]  # repairs have neither
    if as_json:
        print_json(rows)
    elif list_them:
        columns = ["position", "decisions", "key", "from", "until", "undoes"]
        cells = [["" if row[name] is None else row[name] for name in columns] for row in rows]
        out().print(table("left out", columns, cells))
    elif undo is not None:
        out().print(f"position {rows[-1]['position']}: event {undo} no longer counts")
    else:
        out().print(
            f"position {rows[-1]['position']}: {rows[-1]['decisions']} decisions teach nothing now"
        )


def _row(event: "Event") -> dict[str, object]:
    from nextquery.service.log.events import LeftOut

    body = event.body
    assert isinstance(body, LeftOut)
    return {
        "position": event.position,
        "decisions": len(body.decisions),
        "user_hash": body.user_hash,
        "key": body.owner,
        "from": _iso(body.since),
        "until": _iso(body.until),
        "undoes": body.undoes,
    }


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()


def moment(text: str | None, option: str) -> float | None:
    """Return the Unix time of a moment as people write it, in UTC if it does not say."""
    from nextquery.errors import InvalidInput

    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"{option} must be a date or a time like 2026-03-01T12:00; received {text!r}."
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
