"""Commands for the model of a store: compare with the log, unlearn, roll back, end a fallback."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli import options as s
from nextquery.cli.options import moment, this_user, write_all
from nextquery.cli.output import out, print_json, table

if TYPE_CHECKING:
    from nextquery.service.log.events import Event
    from nextquery.service.log.writer import Write


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


def roll_back(
    to: Annotated[
        int | None, typer.Option(metavar="POSITION", help="What the model was here, it is again.")
    ] = None,
    forward: Annotated[
        bool, typer.Option("--forward", help="End the newest roll-back, as if it had never been.")
    ] = False,
    store: s.StoreUrl = None,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Make the model what it was at a position of the log, or bring back what was left out.

    Learning goes on from there, with decisions made after the roll-back. Running services compute
    the model again in the background. Nothing leaves the log or the statistics.
    """
    from nextquery.errors import InvalidInput
    from nextquery.service.log.teaching import Forward, RollBack

    if (to is None) != forward:
        raise InvalidInput("pass --to POSITION or --forward, and only one of them.")
    by = this_user()
    chosen: Write[int] = Forward(by) if to is None else RollBack(to, by)
    what = "forward again" if to is None else f"the model is that of position {to} now"
    _write(chosen, what, store=store, config=config, as_json=as_json)


def end_fallback(
    policy: Annotated[
        str | None, typer.Option(help="The policy that answers again; by default, all.")
    ] = None,
    store: s.StoreUrl = None,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Let policies answer again that were found worse than the most similar queries.

    Find out first why they were worse, and roll the model back if it was fooled. The watch begins
    anew: if they are still worse, the service falls back again.
    """
    from nextquery.service.log.teaching import EndFallback

    chosen = EndFallback(this_user(), policy)
    _write(
        chosen,
        f"{policy or 'every policy'} answers again",
        store=store,
        config=config,
        as_json=as_json,
    )


def _write(
    change: "Write[int]",
    what: str,
    *,
    store: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    settings = s.load_settings({"store": store}, config=config).settings
    from nextquery.service.log.store import Store

    opened = Store.open(settings.store, create=False)
    try:
        [position] = write_all(opened, [change])
    finally:
        opened.close()
    if as_json:
        print_json({"position": position})
    else:
        out().print(f"position {position}: {what}")


def rebuild(
    pool: Annotated[
        Path, typer.Argument(metavar="POOL", help="The pool that the store was created with.")
    ],
    store: s.StoreUrl = None,
    save: Annotated[
        bool, typer.Option("--save", help="Save the recomputed model as the newest snapshot.")
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Replace events that cannot be read or applied by void ones, which keep them.",
        ),
    ] = False,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Recompute the model from the event log and compare it with the service's newest snapshot.

    Fails if any number differs by more than 1e-9, or if an event cannot be read or applied, which
    would also keep the service from starting.
    """
    from nextquery.arms import ArmPool
    from nextquery.errors import Damaged, InvalidInput

    settings = s.load_settings({"store": store}, config=config).settings
    from nextquery.service.log.store import Store
    from nextquery.service.maintain.repair import AGREE, warning
    from nextquery.service.maintain.repair import rebuild as run
    from nextquery.service.maintain.repair import repair as mend
    from nextquery.service.model.learner import save_snapshot
    from nextquery.service.model.prepare import check_pool

    opened, arms = Store.open(settings.store, create=False), ArmPool.open(pool)
    if opened.head().position == 0:
        raise InvalidInput(f"{opened.name} has no events. Run nextquery serve POOL first.")
    check_pool(opened, arms)
    repaired = mend(opened, arms) if repair else []
    done = run(opened, arms)
    position = done.state.position
    if save:
        save_snapshot(opened, done.state, keep=1)
    opened.close()
    for event in () if as_json else repaired:
        out().print(f"repaired event {event.position}: {event.why}", markup=False)
    if not as_json and (undone := warning(repaired)):
        out().print(undone, markup=False)
    if as_json:
        compared = done.snapshot > 0
        print_json(
            {
                "position": position,
                "snapshot": done.snapshot if compared else None,
                "difference": done.difference if compared else None,
                "saved": save,
                **({"repaired": [event._asdict() for event in repaired]} if repair else {}),
            }
        )
    elif done.snapshot == 0:
        out().print(f"recomputed to position {position}; there is no snapshot to compare with")
    else:
        out().print(
            f"recomputed to position {position}; at the snapshot of position {done.snapshot} the "
            f"largest difference is {done.difference:g}"
        )
    if not done.agrees and not save:
        raise Damaged(
            f"the snapshot differs from the log by {done.difference:g}; at most {AGREE:g} is "
            "allowed. Trust the log: run rebuild with --save, and restart the service."
        )
