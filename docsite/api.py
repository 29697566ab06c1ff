"""The library's reference: one page per room, from the docstrings."""

import re
from collections.abc import Iterable

from docsite.navigation import ROOMS, Room
from docsite.public import is_documented, names_of, object_of


def page_of(room: Room) -> str:
    """Return the page of a room.

    >>> print(page_of(ROOMS[0]))
    # Arms
    <BLANKLINE>
    Past queries with their vectors, and the exact search.
    <BLANKLINE>
    ```{eval-rst}
    .. autoclass:: nextquery.ArmPool
       :members:
    ```
    <BLANKLINE>
    """
    names = [full for name in room.names for full in names_of(name)]
    blocks = "\n\n".join(_directive(name) for name in names)
    return f"# {room.title}\n\n{room.about}\n\n```{{eval-rst}}\n{blocks}\n```\n"


def _directive(name: str) -> str:
    found = object_of(name)
    if not is_documented(name):
        return f".. py:data:: nextquery.{name}\n\n   {_values(found)}"
    if isinstance(found, type):
        return f".. autoclass:: nextquery.{name}\n   :members:"
    return f".. autofunction:: nextquery.{name}"


def _values(constant: Iterable[object]) -> str:
    return "One of " + ", ".join(f"``{value}``" for value in constant) + "."


def with_types_as_text(lines: list[str]) -> None:
    """Change ``name : meaning`` to a name with its meaning below, in place.

    Our docstrings put the meaning where numpydoc has the type, since annotations say the types.

    >>> lines = ["Parameters", "----------", "k : how many,", "    at most.", "", "More : or less."]
    >>> with_types_as_text(lines)
    >>> lines
    ['Parameters', '----------', 'k', '    how many,', '    at most.', '', 'More : or less.']
    """
    inside, done = False, []
    for at, line in enumerate(lines):
        underlined = at + 1 < len(lines) and re.fullmatch("-{3,}", lines[at + 1]) is not None
        if underlined:
            inside = line in ("Parameters", "Attributes")
        elif inside and not line.strip():
            inside = any(later.startswith(" ") for later in lines[at + 1 : at + 2])
        named = re.match(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*) : (.*)", line)
        if inside and named:
            done += [named[1], f"    {named[2]}"]
        else:
            done.append(line)
    lines[:] = done


__all__ = ["ROOMS", "page_of", "with_types_as_text"]
