"""The command line: one file per verb.

Exit codes: 0 done, 1 a defect of nextquery, 2 wrong usage, 3 what was given cannot be used, 4 files
cannot be read or written, 130 interrupted.
"""

import signal
import sys
from importlib.metadata import version
from typing import Annotated

import typer
from rich.markup import escape

from nextquery.cli.config import config
from nextquery.cli.export import export
from nextquery.cli.ingest import ingest
from nextquery.cli.keys import keys
from nextquery.cli.output import BAD_FILES, err, exit_code
from nextquery.cli.rebuild import rebuild
from nextquery.cli.recommend import recommend
from nextquery.cli.replay import replay
from nextquery.cli.report import report
from nextquery.cli.reproduce import reproduce
from nextquery.cli.serve import serve
from nextquery.cli.stats import stats
from nextquery.cli.train import train
from nextquery.errors import NextqueryError

app = typer.Typer(
    name="nextquery",
    help="Learn from a query log, and from clicks, which query to recommend next.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
verbs = (ingest, stats, recommend, train, replay, report, reproduce, serve, export, rebuild)
for verb in verbs:
    app.command()(verb)
for group in (keys, config):
    app.add_typer(group)


def main() -> None:
    """Run a command; errors raised on purpose are said in words, without a trace."""
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _end)
    try:
        app()
    except NextqueryError as error:
        err().print(f"[bold red]error:[/bold red] {escape(str(error))}", soft_wrap=True)
        sys.exit(exit_code(error))
    except OSError as error:
        err().print(f"[bold red]error:[/bold red] {escape(str(error))}", soft_wrap=True)
        sys.exit(BAD_FILES)


def _end(number: int, _: object) -> None:
    """Asked to stop, or left by the terminal: go through the ways out that clean up."""
    sys.exit(128 + number)


def _version(asked: bool) -> None:
    if asked:
        print(f"nextquery {version('nextquery')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say it and stop.")
    ] = False,
) -> None:
    """Learn from a query log, and from clicks, which query to recommend next."""
