"""`nextquery export`: the event log in standard formats."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli import settings_options as s


def export(
    format: Annotated[
        str,
        typer.Option(
            help="ubi (JSON Lines, UBI 1.3), parquet (one row per entry), obp (Open Bandit "
            "Pipeline), vw (VowpalWabbit), gru4rec or hred (sessions)."
        ),
    ] = "ubi",
    to: Annotated[
        Path | None, typer.Option("--out", help="The file to write; standard output by default.")
    ] = None,
    pool: Annotated[
        str | None, typer.Option(help="The pool that the service serves; for the format obp.")
    ] = None,
    store: s.StoreUrl = None,
    config: s.Config = None,
) -> None:
    """Write every decision with its outcome, in the order of the log."""
    from nextquery.checks import one_of

    settings = s.load_settings({"store": store, "pool": pool}, config=config).settings
    from nextquery.service.erasure.files import export_to, write
    from nextquery.service.exchange.export import FORMATS
    from nextquery.service.log.store import Store

    one_of(format, "format", FORMATS)
    needs_pool = FORMATS[format].pages is None
    event_log = Store.open(settings.store, create=False)
    if to is None:
        write(event_log, sys.stdout.buffer, format, settings.pool if needs_pool else None)
        sys.stdout.buffer.flush()
    else:
        export_to(event_log, to, format, settings.pool if needs_pool else None)
