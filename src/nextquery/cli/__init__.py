"""The command line: one module for each panel of `nextquery --help`.

Exit codes: 0 success, 1 a bug in nextquery, 2 wrong usage, 3 invalid input, 4 files that cannot be
read or written, 5 nothing found to forget, 130 interrupted.
"""

import signal
import sys
from importlib.metadata import version
from typing import Annotated

import typer
from rich.markup import escape

from nextquery.cli.build import encode, ingest, stats, verify
from nextquery.cli.control import audit, block, curate
from nextquery.cli.data import backup, export, forget, restore, take_over
from nextquery.cli.evaluate import algorithms, compare, evaluate, replay, report, reproduce
from nextquery.cli.model import end_fallback, leave_out, rebuild, roll_back
from nextquery.cli.output import BAD_FILES, err, exit_code
from nextquery.cli.serve import config, doctor, keys, serve
from nextquery.cli.start import demo, explore, recommend
from nextquery.cli.train import train
from nextquery.errors import NextqueryError

_FIRST_STEPS = """\
nextquery recommends the next query: it learns from a query log and from clicks.

Try it on the built-in log (prints a link to the page):
  nextquery demo

Use your own log:
  nextquery stats LOG                               what it contains, what the rules remove
  nextquery ingest LOG --out POOL --user COLUMN     make a pool of queries to recommend
  nextquery recommend POOL "a query"                look at the pool
  nextquery serve POOL --store sqlite:///events.db  recommend and learn over HTTP

LOG is a CSV, TSV, JSON Lines or Parquet file with one query per row.
nextquery --help lists all commands; nextquery COMMAND --help explains one."""

app = typer.Typer(
    name="nextquery",
    help="Recommend the next query: learn from a query log and from clicks.",
    pretty_exceptions_enable=False,
)
experiments = (replay, report, reproduce, compare, evaluate)
served = (serve, export, explore)
commands = (demo, ingest, encode, stats, verify, recommend, train, *experiments, *served)
of_the_model = (rebuild, leave_out, roll_back, end_fallback, take_over)
of_a_store = (block, curate, audit, *of_the_model, forget, backup, restore, doctor)
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
        message = escape(_in_words(error))
        err().print(f"[bold red]error:[/bold red] {message}", soft_wrap=True)
        sys.exit(BAD_FILES)


def _in_words(error: OSError) -> str:
    """Return what is wrong with which file, and what to do.

    >>> _in_words(FileExistsError(17, "File exists", "a.csv"))
    'a.csv: File exists. Pass another path, or change that one, and run the command again.'
    """
    if error.filename is None or error.strerror is None:
        return str(error)
    return (
        f"{error.filename}: {error.strerror}. Pass another path, or change that one, and run the "
        "command again."
    )


def _exit(number: int, _: object) -> None:
    """Exit through `sys.exit`, so that cleanup runs."""
    sys.exit(128 + number)


def _version(value: bool) -> None:
    if value:
        print(f"nextquery {version('nextquery')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def main_options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Recommend the next query: learn from a query log and from clicks."""
    if context.invoked_subcommand is None:
        print(_FIRST_STEPS)
