"""Checks of single settings: what is wrong about a value, and what it should be."""

from limits import parse as parse_rate
from pydantic import SecretStr

from nextquery.errors import InvalidInput
from nextquery.service.log.database import check_url

SHORTEST_SECRET = 32
"""Characters: who sees a signature, like every visitor their own, can try short secrets at home."""


def origins(value: list[str]) -> list[str]:
    """Check that each is the origin of a web page.

    >>> origins(["https://shop.example/search"])
    Traceback (most recent call last):
    ValueError: 'https://shop.example/search' is not an origin; use one like https://shop.example
    """
    for origin in value:
        scheme, found, host = origin.partition("://")
        if not found or scheme not in ("http", "https") or not host or "/" in host:
            raise ValueError(f"{origin!r} is not an origin; use one like https://shop.example")
    return value


def long_secret(value: SecretStr) -> SecretStr:
    """Check that a secret is long, if there is one."""
    if 0 < len(value) < SHORTEST_SECRET:
        raise ValueError(
            f"Input should have at least {SHORTEST_SECRET} characters, as openssl rand -hex 32 "
            "prints them"
        )
    return value


def store_url(value: str) -> str:
    """Check that it is the URL of a store."""
    if "://" not in value:
        raise ValueError("Input should be sqlite:///FILE or postgresql://USER@HOST/NAME")
    try:
        check_url(value)
    except InvalidInput as error:
        raise ValueError(str(error).rstrip(".")) from None
    return value


def rate(value: str) -> str:
    """Check that it is a rate.

    >>> rate("often")
    Traceback (most recent call last):
    ValueError: Input should be like 1000/second, 50/minute, or none
    """
    if value != "none":
        try:
            parse_rate(value)
        except ValueError:
            raise ValueError("Input should be like 1000/second, 50/minute, or none") from None
    return value
