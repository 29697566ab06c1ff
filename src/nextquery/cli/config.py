"""`nextquery config`: what is set, and where."""

from typing import Any

import typer

from nextquery.cli import settings_options as s
from nextquery.cli.output import out, print_json, table

config = typer.Typer(name="config", help="What is set, and where.", no_args_is_help=True)


@config.callback()
def about() -> None:
    """What is set, and where."""


@config.command()
def show(
    set: s.Set = [],  # noqa: B006
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Print every setting of the service with where its value came from; secrets are hidden."""
    settings, origins = s.loaded({}, more=set, config=config)
    from nextquery.service.settings.settings import Settings

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
    """A value as it may be seen.

    >>> shown("store", "postgresql://me:secret@db/nextquery")
    'postgresql://me:***@db/nextquery'
    >>> shown("store", "postgresql://me@db/nextquery?password=secret")
    'postgresql://me@db/nextquery?password=***'
    """
    if name == "user_hash_secret":
        return "hidden" if value.get_secret_value() else ""
    if name == "store":
        from nextquery.service.log.database import without_password

        return without_password(value)
    return value
