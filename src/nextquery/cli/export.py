"""`nextquery export`: the event log in standard formats."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli import settings_options as s


def export(
    format: Annotated[
        str, typer.Option(help="ubi (JSON Lines, UBI 1.3) or parquet (one row per entry).")
    ] = "ubi",
    to: Annotated[
        Path | None, typer.Option("--out", help="The file to write; standard output by default.")
    ] = None,
    store: s.StoreUrl = None,
    config: s.Config = None,
) -> None:
    """Write every decision with its outcome, in the order of the log."""
    from nextquery.checks import one_of

    settings = s.load_settings({"store": store}, config=config).settings
    from nextquery.service.log.erasure.exports import WRITERS, export_to
    from nextquery.service.log.store import Store

    one_of(format, "format", tuple(WRITERS))
    event_log = Store.open(settings.store, create=False)
    if to is None:
        WRITERS[format](event_log, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    else:
        export_to(event_log, to, format)
