"""The settings in environment variables, and the variables with our prefix that are none.

A container inherits variables that nobody meant for nextquery, so a variable that is not a setting
is reported and ignored. Kubernetes writes some itself: a Service called nextquery puts
``NEXTQUERY_PORT=tcp://10.0.0.1:8000`` and several more into every pod. Those are ignored silently.
A wrong value of a setting is still an error.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic_settings import EnvSettingsSource

from nextquery.service.settings.settings import PREFIX, Settings

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
