"""Helpers that build small pieces of SQL with proper quoting."""


def text(value: str) -> str:
    """Quote a text as an SQL literal.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def name(value: str) -> str:
    """Quote a text as an SQL name.

    >>> name("when")
    '"when"'
    """
    return '"' + value.replace('"', '""') + '"'


def matches(column: str, pattern: str, flags: str = "") -> str:
    """SQL condition: the regular expression (RE2) matches somewhere in the column."""
    more = f", '{flags}'" if flags else ""
    return f"regexp_matches({column}, {text(pattern)}{more})"


def replaced(column: str, pattern: str, by: str, flags: str = "g") -> str:
    """SQL expression: the column with every match of the regular expression replaced."""
    return f"regexp_replace({column}, {text(pattern)}, {text(by)}, '{flags}')"
