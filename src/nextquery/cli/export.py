"""`nextquery export`: the event log in standard formats."""

import os
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
    from nextquery.service.log import export as formats
    from nextquery.service.log.export_parquet import write_parquet
    from nextquery.service.log.store import Store

    one_of(format, "format", formats.FORMATS)
    write = formats.write_ubi if format == "ubi" else write_parquet
    event_log = Store.open(settings.store, create=False)
    if to is None:
        write(event_log, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    part = to.with_name(f".{to.name}.part")
    try:
        with part.open("wb") as sink:
            write(event_log, sink)
        os.replace(part, to)  # an older export is kept until the new one is complete
    finally:
        part.unlink(missing_ok=True)
