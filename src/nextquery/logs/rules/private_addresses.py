"""Addresses of machines: IPv4, IPv6 and MAC.

Software versions look like IPv4 addresses ("1.2.3.4"), and addresses of private networks
("192.168.0.1") are the same everywhere and often searched for. A log keeps both; a query typed into
the service with any of them does not become an arm.
"""

from nextquery.logs.quoting import matches
from nextquery.logs.rules.pattern import Pattern

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_QUAD = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_VERSION = "(?:version|versie|versión|release|build|firmware|update|upgrade|section|chapter|rfc|v)"
_NETWORK = r"10\.|127\.|169\.254\.|172\.(?:1[6-9]|2[0-9]|3[01])\.|192\.168\.|2(?:2[4-9]|[345]\d)\."

ADDRESSES: tuple[Pattern, ...] = (
    Pattern(
        "ipv4",
        "public IPv4 addresses",
        # The version word is part of the match, so that the check can see it.
        (rf"(?:\b{_VERSION}[ .:]{{0,2}})?(?:^|[^\w.]|\b){_QUAD}(?:$|[^\w.]|\.(?:\D|$))",),
        # A first number up to 10 is that of a version more often than that of an address.
        check=f"NOT {matches('m', '[a-z]', 'i')} AND NOT {matches('m', f'^[^0-9]*(?:{_NETWORK})')} "
        "AND regexp_extract(m, '[0-9]+')::INT > 10",
    ),
    Pattern(
        "ipv4-any",
        "anything that looks like an IPv4 address",
        (rf"(?:^|[^\d.]){_QUAD}(?:$|[^\d.]|\.(?:\D|$))",),
        live_only=True,
    ),
    Pattern(
        "ipv6",
        "IPv6 addresses",
        (
            r"\b[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7}\b",
            r"\b(?:[23][0-9a-f]{3}|fe80|f[cd][0-9a-f]{2})(?::[0-9a-f]{1,4}){0,6}::"
            r"(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?",
        ),
    ),
    Pattern(
        "mac-address",
        "MAC addresses",
        (r"\b[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}\b",),
        check=f"{matches('m', '[a-f]', 'i')} AND {matches('m', '[0-9]')}",
    ),
)
