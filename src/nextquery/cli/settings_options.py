"""The options of the service that several commands share.

They are texts here and become values in the one schema of the settings, so that a mistake is
answered in the same words whether it came from an option, the environment or the file.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from nextquery.service.settings.load import Loaded

Config = Annotated[
    Path | None, typer.Option(help="The configuration file; else nextquery.toml here, if any.")
]
StoreUrl = Annotated[
    str | None, typer.Option("--store", help="The event log: sqlite:///FILE or postgresql://…")
]
Set = Annotated[
    list[str],
    typer.Option("--set", help="NAME=VALUE of any setting; repeatable. config show lists them."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Answer with JSON.")]


def loaded(
    options: Mapping[str, str | None], *, more: Iterable[str] = (), config: Path | None = None
) -> "Loaded":
    """The settings, from options, environment and file."""
    from nextquery.checks import installed
    from nextquery.errors import InvalidInput

    installed("service", "fastapi", "uvicorn", "sqlalchemy", "pydantic_settings", "limits")
    from nextquery.service.settings.load import load

    given = dict(options)
    for pair in more:
        name, found, value = pair.partition("=")
        if not found:
            raise InvalidInput(f"--set takes NAME=VALUE, like timeout_s=60; received {pair!r}.")
        given[name.strip().replace("-", "_")] = value
    return load(given, config=config)
