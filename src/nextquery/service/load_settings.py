"""Load settings from the command line, the environment and ``nextquery.toml``.

Options of the command come first, then the environment (``NEXTQUERY_PORT``), the file, and the
defaults. `load` also returns where each value came from.

A container inherits variables that are not meant for nextquery. So a variable that is not a
setting is reported and ignored. Kubernetes writes some itself: a Service called nextquery puts
``NEXTQUERY_PORT=tcp://10.0.0.1:8000`` and several more into every pod. Those are ignored
silently. A wrong value of a setting is still an error.

``python -m nextquery.service.load_settings`` prints the table in docs/reference/settings.md.
"""

import logging
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import SecretStr, ValidationError
from pydantic_settings import EnvSettingsSource

from nextquery.errors import InvalidInput, NotAFolder
from nextquery.service.log.database import without_password
from nextquery.service.settings import PREFIX, Settings

_NOT_SETTINGS = {"NEXTQUERY_CONFIG", "NEXTQUERY_URL", "NEXTQUERY_API_KEY"}  # read elsewhere
_OF_A_SERVICE = re.compile(
    r"\w+_SERVICE_HOST|\w+_SERVICE_PORT(_\w+)?|\w+_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?"
)
_ADDRESS_OF_A_SERVICE = re.compile(r"(tcp|udp|sctp)://\S+")  # the value of a name in _PORT


def from_environment() -> dict[str, Any]:
    """Return the settings in the environment, by name."""
    read: Callable[[], dict[str, Any]] = EnvSettingsSource(Settings)
    return {
        name: value
        for name, value in read().items()
        if not written_by_kubernetes(_variable(name), str(value))
    }


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return one sentence for each variable with our prefix that is not a setting.

    >>> unknown_variables({"NEXTQUERY_PROT": "1", "NEXTQUERY_PORT": "1", "HOME": "/"})
    ['the environment variable NEXTQUERY_PROT is not a setting and is ignored. Did you mean
     NEXTQUERY_PORT?']
    """
    known = {_variable(name) for name in Settings.model_fields} | _NOT_SETTINGS
    return [
        f"the environment variable {name} is not a setting and is ignored. {_hint(name, known)}"
        for name, value in environment.items()
        if name.startswith(PREFIX) and name not in known and not written_by_kubernetes(name, value)
    ]


def written_by_kubernetes(name: str, value: str) -> bool:
    """Whether Kubernetes wrote this variable for a Service.

    Most of its names are never settings. A name that ends in ``_PORT`` may be one, so there the
    value decides.

    >>> written_by_kubernetes("NEXTQUERY_PORT", "tcp://10.0.0.1:8000")
    True
    >>> written_by_kubernetes("NEXTQUERY_PORT", "9000")
    False
    """
    if _OF_A_SERVICE.fullmatch(name):
        return True
    return name.endswith("_PORT") and _ADDRESS_OF_A_SERVICE.fullmatch(value) is not None


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _hint(name: str, known: Iterable[str]) -> str:
    """Name the nearest setting. The prefix is left out: with it, all names look alike."""
    close = get_close_matches(name.removeprefix(PREFIX), [k.removeprefix(PREFIX) for k in known], 1)
    if close:
        return f"Did you mean {PREFIX}{close[0]}?"
    return "nextquery config show lists the settings."


FILE = "nextquery.toml"
LOGGER = logging.getLogger("nextquery.service")


class LoadedSettings(NamedTuple):
    """The settings, and where each value came from."""

    settings: Settings
    origins: Mapping[str, str]


def load(
    options: Mapping[str, Any] | None = None,
    *,
    assigned: Collection[str] = (),
    config: str | os.PathLike[str] | None = None,
) -> LoadedSettings:
    """Merge options, environment and file; an error names the setting, its value and the range.

    An environment variable with our prefix that is not a setting is logged and ignored.

    Parameters
    ----------
    options : values by name; None means not set.
    assigned : names of options that were given as ``--set NAME=VALUE``.
    config : the file. By default ``$NEXTQUERY_CONFIG``, or ``nextquery.toml`` if it exists.

    >>> settings, origins = load({"port": 9000})
    >>> settings.port, origins["port"], origins["workers"]
    (9000, 'option --port', 'default')
    """
    path = _config_file(config)
    given = {name: value for name, value in (options or {}).items() if value is not None}
    for problem in unknown_variables(os.environ):
        LOGGER.warning(problem)
    places: list[tuple[dict[str, Any], Callable[[str], str]]] = [
        (_read(path), lambda name: f"{path}"),
        (from_environment(), lambda name: f"environment {PREFIX}{name.upper()}"),
        (given, lambda name: _option(name, assigned)),
    ]
    merged: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.model_fields, "default")
    for values, place in places:
        merged |= values
        origins |= {name: place(name) for name in values}
    try:
        return LoadedSettings(Settings(**merged), origins)
    except ValidationError as error:
        raise InvalidInput(_message(error, origins)) from None


def _option(name: str, assigned: Collection[str]) -> str:
    return f"option --set {name}" if name in assigned else f"option --{name.replace('_', '-')}"


def _config_file(config: str | os.PathLike[str] | None) -> Path | None:
    named = config or os.environ.get("NEXTQUERY_CONFIG")
    if named is None:
        return Path(FILE) if Path(FILE).is_file() else None
    if not Path(named).is_file():
        raise NotAFolder(
            f"there is no configuration file {named}. Pass the path of an existing file."
        )
    return Path(named)


def _read(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{path} is not a TOML file: {error}. Write lines like port = 8000"
        ) from None


def _nearest(name: str, known: set[str]) -> str:
    close = get_close_matches(name, known, n=1)
    allowed = f"Did you mean {close[0]}? " if close else ""
    return f"{allowed}Allowed: {', '.join(sorted(known))}."


def _message(error: ValidationError, origins: Mapping[str, str]) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        allowed = problem["msg"].removeprefix("Value error, ").replace("Input should", "it should")
        if not problem["loc"]:  # about several settings: the message names them
            lines.append(f"{allowed}.")
            continue
        name = str(problem["loc"][0])
        origin = origins.get(name, "default")
        if problem["type"] == "extra_forbidden":
            lines.append(
                f"{name} ({origin}) is not a setting. {_nearest(name, set(Settings.model_fields))}"
            )
            continue
        secret = Settings.model_fields[name].annotation is SecretStr
        value = "a hidden value" if secret else repr(problem["input"])
        value = without_password(value) if name == "store" else value
        lines.append(f"{name} ({origin}): received {value}; {allowed}.")
    return "\n".join(
        [*lines, "Run nextquery config show to see every setting and where it came from."]
    )


def settings_table() -> str:
    """Return every setting with its default and its description, as a Markdown table.

    >>> settings_table().splitlines()[2]
    '| `pool` | — | The pool folder to serve. |'
    """
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = field.default
        if isinstance(default, SecretStr):
            default = default.get_secret_value()
        if isinstance(default, bool):
            default = str(default).lower()
        shown = "—" if default in (None, "", []) else f"`{default}`"
        lines.append(f"| `{name}` | {shown} | {field.description} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(settings_table())
