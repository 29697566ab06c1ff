"""The endpoints of the API, read from its OpenAPI document: what both API pages are made from."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Schema = Mapping[str, Any]
DEEPEST = 4  # objects in objects


class Field(NamedTuple):
    """A field of a request or an answer; fields of objects in it follow, with dotted names."""

    name: str
    kind: str
    required: bool
    about: str


class Endpoint(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    scope: str
    about: str
    body: str  #: an example of the request's body, as JSON, or ""
    fields: tuple[Field, ...]  #: of the body, or the parameters of the query
    answer: str  #: an example of the answer
    answer_type: str  #: the media type of the example
    answers: tuple[Field, ...]
    errors: tuple[tuple[str, str], ...]  #: status, cause

    @property
    def anchor(self) -> str:
        """The name of its place in a page.

        >>> Endpoint("POST", "/v1/arms/approve", "", "", "", (), "", "", (), ()).anchor
        'post-v1-arms-approve'
        """
        return re.sub(r"\W+", "-", (self.method + self.path).lower()).strip("-")


def endpoints(document: Schema) -> list[Endpoint]:
    """Return every endpoint of an OpenAPI document, in its order."""
    return [
        _endpoint(document, method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def problem_fields(document: Schema) -> tuple[Field, ...]:
    """Return the fields of an error."""
    return tuple(_fields(document, {"$ref": "#/components/schemas/Problem"}))


def _endpoint(document: Schema, method: str, path: str, operation: Schema) -> Endpoint:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    contents: Schema = operation["responses"]["200"].get("content", {})
    kind = next(iter(contents), "")
    content: Schema = contents.get(kind, {})
    parameters = (
        _field(document, one["name"], one["schema"], one.get("required", False), one)
        for one in operation.get("parameters", [])
    )
    return Endpoint(
        method,
        path,
        operation["x-scope"],
        " ".join(operation.get("description", "").split()),
        _example(document, body),
        (*_required_first(_fields(document, body.get("schema", {}))), *parameters),
        _example(document, content),
        kind,
        tuple(_fields(document, content.get("schema", {}))),
        tuple(
            (status, response["description"])
            for status, response in sorted(operation["responses"].items())
            if status != "200"
        ),
    )


def _required_first(fields: Iterator[Field]) -> list[Field]:
    """Return the fields of a body; those of objects in it stay below their object."""
    found = list(fields)
    nested = any("." in field.name for field in found)
    return found if nested else sorted(found, key=lambda field: not field.required)


def _resolved(document: Schema, schema: Schema) -> Schema:
    """Return what a reference refers to; null is left out of a choice."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return {**document["components"]["schemas"][name], **_without(schema, "$ref")}
    choices = [one for one in schema.get("anyOf", []) if one.get("type") != "null"]
    if len(choices) == 1:
        return {**_resolved(document, choices[0]), **_without(schema, "anyOf")}
    return schema


def _without(schema: Schema, name: str) -> Schema:
    return {key: value for key, value in schema.items() if key != name}


def _fields(document: Schema, schema: Schema, before: str = "", depth: int = 0) -> Iterator[Field]:
    """Yield the fields of an object, each followed by those of the object it holds."""
    found = _resolved(document, schema)
    required = found.get("required", ())
    for name, inner in found.get("properties", {}).items():
        yield _field(document, before + name, inner, name in required, inner)
        held = _resolved(document, inner)
        below = f"{before}{name}."
        if held.get("type") == "array":
            held, below = _resolved(document, held.get("items", {})), f"{before}{name}[]."
        if depth < DEEPEST:
            yield from _fields(document, held, below, depth + 1)


def _field(document: Schema, name: str, schema: Schema, required: bool, said: Schema) -> Field:
    about = said.get("description", "")
    default = schema.get("default")
    if default is not None:
        about = f"{about} Default: {json.dumps(default)}.".strip()
    return Field(name, kind_of(document, schema), required, about)


def kind_of(document: Schema, schema: Schema) -> str:
    """Return the type of a field in words, with its limits.

    >>> kind_of({}, {"type": "integer", "minimum": 1, "maximum": 50})
    'integer, 1 to 50'
    >>> kind_of({}, {"anyOf": [{"type": "string", "maxLength": 256}, {"type": "null"}]})
    'string, at most 256 characters, or null'
    >>> kind_of({}, {"type": "array", "items": {"enum": ["a", "b"]}})
    'list of "a" or "b"'
    """
    found = _resolved(document, schema)
    nullable = any(one.get("type") == "null" for one in schema.get("anyOf", []))
    return _plain_kind(document, found) + (", or null" if nullable else "")


def _plain_kind(document: Schema, found: Schema) -> str:
    if "const" in found or "enum" in found:
        values = found.get("enum", [found.get("const")])
        return " or ".join(json.dumps(value) for value in values)
    if found.get("type") == "array":
        return f"list of {kind_of(document, found.get('items', {}))}"
    if "anyOf" in found:
        kinds = [kind_of(document, one) for one in found["anyOf"] if one.get("type") != "null"]
        return " or ".join(kinds)
    low, high = found.get("minimum"), found.get("maximum")
    limits = ""
    if high is not None:
        limits = f", {low:g} to {high:g}"
    elif low is not None:
        limits = f", at least {low:g}"
    if "maxLength" in found:
        limits += f", at most {found['maxLength']:,} characters"
    return str(found.get("type", "any value")) + limits


def _example(document: Schema, content: Schema) -> str:
    """Return an example of a body: what the route gives, or else what its schema gives."""
    for found in (content, _resolved(document, content.get("schema", {}))):
        if "example" in found:
            return _shown(found["example"])
        for one in _values(found.get("examples")):
            return _shown(one)
    return ""


def _values(examples: Any) -> list[Any]:
    """Return examples that are a list, or those of a mapping from names."""
    if isinstance(examples, Mapping):
        return [one.get("value") for one in examples.values()]
    return list(examples or [])


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
