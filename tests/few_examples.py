"""How many examples of a property to try if each takes a second, as those that start an engine."""

from hypothesis import settings

USUAL = 30  #: of the profile `repeatable`


def few(number: int) -> int:
    """Return `number`, or as many times more as the profile tries of other properties.

    Read when a test module is imported: by then `--hypothesis-profile` counts.
    """
    return number * settings().max_examples // USUAL
