"""Where the settings come from.

A value comes from the first place that names it: the command's options, the environment
(``NEXTQUERY_PORT``), the file ``nextquery.toml``, the default. `load` keeps where each came from.
"""

import os
import tomllib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource

from nextquery.errors import InvalidInput, NotAFolder
from nextquery.service.log.database import without_password
from nextquery.service.settings.settings import PREFIX, Settings

FILE = "nextquery.toml"
_NOT_SETTINGS = {"NEXTQUERY_CONFIG", "NEXTQUERY_URL", "NEXTQUERY_API_KEY"}  # read by others


class Loaded(NamedTuple):
    """The settings, and the place each value came from."""

    settings: Settings
    origins: Mapping[str, str]


def load(
    options: Mapping[str, Any] | None = None, *, config: str | os.PathLike[str] | None = None
) -> Loaded:
    """Merge options, environment and file; a mistake names its field, value and what is allowed.

    Parameters
    ----------
    options : values given by hand; None means not given.
    config : the file; else ``$NEXTQUERY_CONFIG``, else ``nextquery.toml`` here, if there is one.

    >>> settings, origins = load({"port": 9000})
    >>> settings.port, origins["port"], origins["workers"]
    (9000, 'option --port', 'default')
    """
    path = _config_file(config)
    given = {name: value for name, value in (options or {}).items() if value is not None}
    from_environment: Callable[[], dict[str, Any]] = EnvSettingsSource(Settings)
    _refuse_unknown_variables()
    places: list[tuple[dict[str, Any], Callable[[str], str]]] = [
        (_read(path), lambda name: f"{path}"),
        (from_environment(), lambda name: f"environment {PREFIX}{name.upper()}"),
        (given, lambda name: f"option --{name.replace('_', '-')}"),
    ]
    merged: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.model_fields, "default")
    for values, place in places:
        merged |= values
        origins |= {name: place(name) for name in values}
    try:
        return Loaded(Settings(**merged), origins)
    except ValidationError as error:
        raise InvalidInput(_in_words(error, origins)) from None


def _config_file(config: str | os.PathLike[str] | None) -> Path | None:
    named = config or os.environ.get("NEXTQUERY_CONFIG")
    if named is None:
        return Path(FILE) if Path(FILE).is_file() else None
    if not Path(named).is_file():
        raise NotAFolder(f"there is no configuration file {named}. Name one that exists.")
    return Path(named)


def _read(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{path} is no TOML file: {error}. Write lines like port = 8000"
        ) from None


def _refuse_unknown_variables() -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields} | _NOT_SETTINGS
    for name in os.environ:
        if name.startswith(PREFIX) and name not in known:
            raise InvalidInput(
                f"the environment variable {name} is no setting. {_nearest(name, known)}"
            )


def _nearest(name: str, known: set[str]) -> str:
    close = get_close_matches(name, known, n=1)
    allowed = f"Did you mean {close[0]}? " if close else ""
    return f"{allowed}Allowed: {', '.join(sorted(known))}."


def _in_words(error: ValidationError, origins: Mapping[str, str]) -> str:
    said = []
    for problem in error.errors(include_url=False):
        allowed = problem["msg"].removeprefix("Value error, ").replace("Input should", "it should")
        if not problem["loc"]:  # of several settings together: it names them
            said.append(f"{allowed}.")
            continue
        name = str(problem["loc"][0])
        origin = origins.get(name, "default")
        if problem["type"] == "extra_forbidden":
            said.append(
                f"{name} ({origin}) is no setting. {_nearest(name, set(Settings.model_fields))}"
            )
            continue
        secret = name == "user_hash_secret"
        value = "a hidden value" if secret else repr(problem["input"])
        value = without_password(value) if name == "store" else value
        said.append(f"{name} ({origin}): received {value}; {allowed}.")
    return "\n".join([*said, "nextquery config show prints every setting with where it came from."])
