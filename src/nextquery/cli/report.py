"""`nextquery report`: make figures and tables from result files."""

from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli.output import out


def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder that replay or reproduce wrote.")
    ],
) -> None:
    """Make the report of a run: Markdown, one HTML page, and figures as PNG and SVG."""
    from nextquery.research import replay

    page = replay.report(run)
    out().print(f"{page}\n{page.with_suffix('.md')}", soft_wrap=True, markup=False)
