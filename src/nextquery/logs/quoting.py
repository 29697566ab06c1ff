"""Small pieces of SQL, with their texts quoted."""


def text(value: str) -> str:
    """A text as an SQL literal.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def name(value: str) -> str:
    """A text as an SQL name.

    >>> name("when")
    '"when"'
    """
    return '"' + value.replace('"', '""') + '"'


def matches(column: str, pattern: str, flags: str = "") -> str:
    """The condition that a regular expression (RE2) matches somewhere."""
    more = f", '{flags}'" if flags else ""
    return f"regexp_matches({column}, {text(pattern)}{more})"


def replaced(column: str, pattern: str, by: str, flags: str = "g") -> str:
    """The expression with every match of a regular expression replaced."""
    return f"regexp_replace({column}, {text(pattern)}, {text(by)}, '{flags}')"
