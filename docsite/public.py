"""The public names of the library: those of `nextquery.__all__`, and of its modules in it."""

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import nextquery


def public_names() -> list[str]:
    """Return every public name below `nextquery`; a module stands for the names in it.

    >>> [name for name in public_names() if name.startswith("optimize.")]
    ['optimize.SetFunction', 'optimize.greedi', 'optimize.greedy', 'optimize.lazy_greedy']
    """
    return [full for name in nextquery.__all__ for full in names_of(name)]


def names_of(name: str) -> list[str]:
    """Return a name, or the public names of the module of that name; none of them twice.

    >>> names_of("ArmPool"), len(names_of("utility"))
    (['ArmPool'], 4)
    """
    found = object_of(name)
    if not isinstance(found, ModuleType):
        return [name]
    known = [object_of(other) for other in nextquery.__all__]
    inner = {f"{name}.{inner}": getattr(found, inner) for inner in sorted(found.__all__)}
    return [full for full, value in inner.items() if not any(value is one for one in known)]


def object_of(name: str) -> Any:
    """Return what has a public name."""
    found: Any = nextquery
    for part in name.split("."):
        found = getattr(found, part)
    return found


def docstrings(name: str) -> Iterator[str]:
    """Yield the docstring of a public name and, of a class, those of its own public members."""
    found = object_of(name)
    if inspect.isclass(found) or inspect.isroutine(found):
        yield found.__doc__ or ""
    if inspect.isclass(found):
        for member, value in vars(found).items():
            bare = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if not member.startswith("_") and inspect.isfunction(bare):
                yield bare.__doc__ or ""


def is_documented(name: str) -> bool:
    """Whether a name has docstrings of its own; constants have none."""
    found = object_of(name)
    return inspect.isclass(found) or inspect.isroutine(found)
