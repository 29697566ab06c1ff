"""The command line: one file per command.

Exit codes: 0 success, 1 a bug in nextquery, 2 wrong usage, 3 invalid input, 4 files that cannot be
read or written, 130 interrupted.
"""

import signal
import sys
from importlib.metadata import version
from typing import Annotated

import typer
from rich.markup import escape

from nextquery.cli.algorithms import algorithms
from nextquery.cli.config import config
from nextquery.cli.export import export
from nextquery.cli.ingest import ingest
from nextquery.cli.keys import keys
from nextquery.cli.leave_out import leave_out
from nextquery.cli.output import BAD_FILES, err, exit_code
from nextquery.cli.rebuild import rebuild
from nextquery.cli.recommend import recommend
from nextquery.cli.replay import replay
from nextquery.cli.report import report
from nextquery.cli.reproduce import reproduce
from nextquery.cli.serve import serve
from nextquery.cli.stats import stats
from nextquery.cli.take_over import take_over
from nextquery.cli.train import train
from nextquery.cli.verify import verify
from nextquery.errors import NextqueryError

app = typer.Typer(
    name="nextquery",
    help="Recommend the next query: learn from a query log and from clicks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
commands = (ingest, stats, verify, recommend, train, replay, report, reproduce, serve, export)
of_a_store = (rebuild, leave_out, take_over)
for command in (*commands, algorithms, *of_a_store):
    app.command()(command)
for group in (keys, config):
    app.add_typer(group)


def main() -> None:
    """Run a command; print expected errors without a traceback."""
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _exit)
    try:
        app()
    except NextqueryError as error:
        err().print(f"[bold red]error:[/bold red] {escape(str(error))}", soft_wrap=True)
        sys.exit(exit_code(error))
    except OSError as error:
        err().print(f"[bold red]error:[/bold red] {escape(str(error))}", soft_wrap=True)
        sys.exit(BAD_FILES)


def _exit(number: int, _: object) -> None:
    """Exit through `sys.exit`, so that cleanup runs."""
    sys.exit(128 + number)


def _version(value: bool) -> None:
    if value:
        print(f"nextquery {version('nextquery')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Recommend the next query: learn from a query log and from clicks."""
