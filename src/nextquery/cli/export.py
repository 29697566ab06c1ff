"""`nextquery export`: the event log in standard formats."""

import os
import sys
from collections import deque
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
    from nextquery.arms import ArmPool
    from nextquery.catalogue import Catalogue
    from nextquery.service.log.exchange.formats import FORMATS, export_pages
    from nextquery.service.log.store import Store

    one_of(format, "format", FORMATS)
    needs_pool = FORMATS[format].pages is None and settings.pool is not None
    catalogue = Catalogue(ArmPool.open(settings.pool or "")) if needs_pool else None
    event_log = Store.open(settings.store, create=False)
    if to is None:
        deque(export_pages(format, event_log, sys.stdout.buffer, catalogue), maxlen=0)
        sys.stdout.buffer.flush()
        return
    part = to.with_name(f".{to.name}.part")
    try:
        with part.open("wb") as sink:
            deque(export_pages(format, event_log, sink, catalogue), maxlen=0)
        os.replace(part, to)  # an older export is kept until the new one is complete
    finally:
        part.unlink(missing_ok=True)
