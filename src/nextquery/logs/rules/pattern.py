"""What a pattern of private text is."""

from dataclasses import dataclass

#: SQL over the match m: its digits
DIGITS = "regexp_replace(m, '[^0-9]', '', 'g')"


@dataclass(frozen=True)
class Pattern:
    """One kind of private text.

    >>> Pattern("email", "e-mail addresses", (r"[^@]+@[^@]+",)).changed_by
    '--skip email'
    """

    name: str
    does: str
    regexes: tuple[str, ...]  #: case-insensitive; a match is a candidate
    check: str = ""  #: SQL over the match m that confirms it
    live_only: bool = False  #: too broad for a log: only for queries typed into the service

    @property
    def changed_by(self) -> str:
        """The option that switches this pattern off."""
        return f"--skip {self.name}"
