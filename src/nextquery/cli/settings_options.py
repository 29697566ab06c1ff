"""The service options that several commands share.

They are strings here, and the schema of the settings converts them. So an invalid value gives the
same error from an option, the environment or the file.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from nextquery.service.load_settings import Loaded

Config = Annotated[
    Path | None,
    typer.Option(help="The configuration file; by default nextquery.toml in this folder, if any."),
]
StoreUrl = Annotated[
    str | None, typer.Option("--store", help="The event log: sqlite:///FILE or postgresql://…")
]
Set = Annotated[
    list[str],
    typer.Option(
        "--set", help="NAME=VALUE for any setting; repeatable. nextquery config show lists them."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def load_settings(
    options: Mapping[str, str | None], *, more: Iterable[str] = (), config: Path | None = None
) -> "Loaded":
    """Load the settings from options, environment and file."""
    from nextquery.checks import installed
    from nextquery.errors import InvalidInput

    installed("service", "fastapi", "uvicorn", "sqlalchemy", "pydantic_settings", "limits")
    from nextquery.service.load_settings import load

    values, assigned = dict(options), set()
    for pair in more:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidInput(f"--set takes NAME=VALUE, like timeout_s=60; received {pair!r}.")
        assigned.add(name := name.strip().replace("-", "_"))
        values[name] = value
    return load(values, assigned=assigned, config=config)
