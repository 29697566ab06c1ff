"""`nextquery export`: the event log in other people's formats."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli import settings_options as s


def export(
    format: Annotated[
        str, typer.Option(help="ubi (JSON Lines of UBI 1.3) or parquet (a row per entry).")
    ] = "ubi",
    to: Annotated[
        Path | None, typer.Option("--out", help="The file to write; else standard output.")
    ] = None,
    store: s.StoreUrl = None,
    config: s.Config = None,
) -> None:
    """Write every decision with what became of it, in order of the log."""
    from nextquery.checks import installed, one_of

    settings = s.loaded({"store": store}, config=config).settings
    from nextquery.service.log import export as formats
    from nextquery.service.log.store import Store

    one_of(format, "format", formats.FORMATS)
    if format == "parquet":
        installed("service", "pyarrow")
    write = formats.write_ubi if format == "ubi" else formats.write_parquet
    opened = Store.open(settings.store, create=False)
    if to is None:
        write(opened, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    part = to.with_name(f".{to.name}.part")
    try:
        with part.open("wb") as sink:
            write(opened, sink)
        os.replace(part, to)  # an older export stands until the new one is whole
    finally:
        part.unlink(missing_ok=True)
