"""The library's reference: every public name is on one page, with an example that runs."""

import inspect
import re
from contextlib import suppress
from typing import Any, get_args, get_type_hints

import pytest

from docsite.api import page_of, with_types_as_text
from docsite.conf import nitpick_ignore_regex
from docsite.navigation import NAVIGATION, ROOMS
from docsite.pages import REPOSITORY, pages
from docsite.public import docstrings, is_documented, names_of, object_of, public_names
from docsite.sources import place

IN_ROOMS = [full for room in ROOMS for name in room.names for full in names_of(name)]


def test_every_public_name_is_in_one_room() -> None:
    assert len(set(IN_ROOMS)) == len(IN_ROOMS)
    assert set(public_names()) <= set(IN_ROOMS)


@pytest.mark.parametrize("name", [name for name in IN_ROOMS if is_documented(name)])
def test_every_public_name_has_an_example(name: str) -> None:
    """The examples run as doctests of their modules; methods may have them in place of a class."""
    assert any(">>> " in text for text in docstrings(name)), f"no example for nextquery.{name}"


@pytest.mark.parametrize("name", [name for name in IN_ROOMS if is_documented(name)])
def test_types_in_signatures_are_public_or_left_out_by_name(name: str) -> None:
    """Otherwise `make docs` stops at a reference that leads nowhere; it runs before a release."""
    known = [object_of(public) for public in IN_ROOMS]
    for kind in own_types(object_of(name)):
        full = f"{kind.__module__}.{kind.__qualname__}"
        left_out = any(re.fullmatch(pattern, full) for _, pattern in nitpick_ignore_regex)
        assert left_out or any(kind is one for one in known), full


def own_types(found: Any) -> set[type]:
    """Return the types in the signature of something, and of its own public members."""
    values = [found, *vars(found).values()] if inspect.isclass(found) else [found]
    bare = [getattr(value, "fget", None) or getattr(value, "__func__", value) for value in values]
    types: set[type] = set()
    for function in filter(inspect.isfunction, bare):
        if function.__name__ == "__init__" or not function.__name__.startswith("_"):
            with suppress(NameError):  # imported for type checkers alone
                types |= classes_in(*get_type_hints(function).values())
    return types


def classes_in(*hints: Any) -> set[type]:
    """Return the classes that type hints name, also within others."""
    found: set[type] = set()
    for hint in hints:
        inner = hint if isinstance(hint, list) else get_args(hint)
        found |= classes_in(*inner)
        if isinstance(hint, type) and not inner:
            found.add(hint)
    return found


def test_names_without_an_example_are_noticed() -> None:
    class Bare:
        """Has no example."""

        def method(self) -> None:
            """Nor has this."""

    assert not any(">>> " in str(value.__doc__) for value in (Bare, Bare.method))
    assert len(IN_ROOMS) > 60


def test_pages_name_what_they_document() -> None:
    for room in ROOMS:
        text = page_of(room)
        for name in room.names:
            for full in names_of(name):
                assert f":: nextquery.{full}\n" in text


def test_several_parameters_and_other_sections() -> None:
    lines = ["Parameters", "---", "a, b : two.", "*more : rest.", "", "    ", "x : not one."]
    with_types_as_text(lines)
    assert lines == [
        *("Parameters", "---", "a, b", "    two.", "*more", "    rest."),
        *("", "    ", "x : not one."),
    ]


def test_every_page_is_in_the_navigation() -> None:
    listed = {f"{name}.md" for names in NAVIGATION.values() for name in names}
    known = {str(there) for page in pages() if (there := place(page)) is not None}
    assert known - {"index.md"} == listed - {"api/http.md"}
    assert set(REPOSITORY.values()) <= listed
