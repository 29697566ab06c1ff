"""`nextquery config`: show the settings of the service."""

from typing import Any

import typer

from nextquery.cli import settings_options as s
from nextquery.cli.output import out, print_json, table

config = typer.Typer(name="config", help="Show the settings of the service.", no_args_is_help=True)


@config.callback()
def about() -> None:
    """Show the settings of the service."""


@config.command()
def show(
    set: s.Set = [],  # noqa: B006
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Print every setting of the service, its value and its source; secrets are hidden."""
    settings, origins = s.load_settings({}, more=set, config=config)
    from nextquery.service.settings import Settings

    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "value": shown(name, getattr(settings, name)),
            "from": origins[name],
            "meaning": field.description,
        }
        for name, field in Settings.model_fields.items()
    ]
    if as_json:
        print_json({row["name"]: {"value": row["value"], "from": row["from"]} for row in rows})
    else:
        cells = [[str(value) for value in row.values()] for row in rows]
        out().print(table("Settings", list(rows[0]), cells))


def shown(name: str, value: Any) -> Any:
    """Return a value with its secrets hidden.

    >>> shown("store", "postgresql://me:secret@db/nextquery")
    'postgresql://me:***@db/nextquery'
    >>> shown("store", "postgresql://me@db/nextquery?password=secret")
    'postgresql://me@db/nextquery?password=***'
    """
    from pydantic import SecretStr

    if isinstance(value, SecretStr):
        return "hidden" if value.get_secret_value() else ""
    if name == "store":
        from nextquery.service.log.database import without_password

        return without_password(value)
    return value
