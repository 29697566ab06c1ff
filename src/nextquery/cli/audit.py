"""`nextquery audit`: who changed what."""

from typing import Annotated

import typer

from nextquery.cli import settings_options as s
from nextquery.cli.leave_out import moment
from nextquery.cli.output import out, print_json, table


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
        [row["time"], str(row["position"] or "-"), row["change"], _told(row["details"]), _who(row)]
        for row in rows
    ]
    out().print(table("changes", ["time", "position", "change", "what", "who"], cells))


def _told(details: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in details.items() if name != "settings")


def _who(row: dict[str, dict[str, str]]) -> str:
    return " ".join(row["by"].values()) if row["by"] else "not recorded"
