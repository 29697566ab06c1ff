"""Normalise logged SQL without changing its literals, quoted names and operators.

A statement is split into tokens, and only text outside quotes changes. ``'It''s'``, ``"Name"``,
``LIKE '%20'`` and ``c++`` stay as they are.
"""

from nextquery.logs.quoting import matches, replaced, text

_SPACE = r"\s\x{a0}"
_QUOTED = r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\$\$.*?\$\$"""
_GAP = rf"(?:[{_SPACE}]|--[^\n]*|/\*.*?\*/)+"
# The last alternatives: an unclosed quote runs to the end; a single - / or $ is an operator.
_TOKEN = rf"""{_QUOTED}|{_GAP}|[^'"`$/\-{_SPACE}]+|['"`].*|."""
_TOKENS = f"regexp_extract_all(x, {text(_TOKEN)}, 0, 's')"


def _each(change: str) -> str:
    return f"array_to_string(list_transform({_TOKENS}, lambda t: {change}), '')"


_IS_GAP = matches("t", rf"^(?:[{_SPACE}]|--|/\*)")
_IS_QUOTED = matches("t", r"""^(?:['"`]|\$\$)""")

#: comments and runs of spaces become one space
LAYOUT = "trim(" + _each(f"CASE WHEN {_IS_GAP} THEN ' ' ELSE t END") + ")"
#: semicolons and spaces at the end are removed
END = replaced("x", rf"[;{_SPACE}]+$", "", "")
#: lower case outside quotes
CASE = _each(f"CASE WHEN {_IS_QUOTED} THEN t ELSE lower(t) END")
#: the shown spelling keeps its case and its semicolon
TRIMMED = "trim(x)"
