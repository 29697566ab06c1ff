"""`nextquery doctor`: check everything that the service needs, and say what to do."""

from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli import settings_options as s
from nextquery.cli.output import BAD_FILES, out, print_json

_MARKS = {"ok": "[green]ok[/green]     ", "warning": "[yellow]warning[/yellow]"}


def doctor(
    pool: Annotated[Path, typer.Argument(metavar="POOL", help="The pool to serve.")],
    store: s.StoreUrl = None,
    set: s.Set = [],  # noqa: B006  (typer only reads it)
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Check machine, versions, pool, encoder, store, clock, disk and rights; say what to do.

    Changes nothing. Exits with 4 if there is a problem; a warning is no problem.
    """
    settings = s.load_settings({"store": store}, more=set, config=config).settings
    from rich.markup import escape

    from nextquery.service.doctor import examine

    findings = examine(settings, pool)
    problems = sum(one.state == "problem" for one in findings)
    if as_json:
        checks = [one._asdict() for one in findings]
        print_json({"ok": problems == 0, "problems": problems, "checks": checks})
    else:
        for one in findings:
            mark = _MARKS.get(one.state, "[red]problem[/red]")
            todo = f" {escape(one.todo)}" if one.todo else ""
            line = f"{mark}  {one.name}: {escape(one.found)}."
            out().print(line + todo, soft_wrap=True, highlight=False)
    if problems:
        raise typer.Exit(BAD_FILES)
