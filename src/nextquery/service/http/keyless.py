"""Running without API keys, which is only possible on this machine's own address.

Whoever reaches the port may then ask for recommendations. A proxy could pass the port on to a whole
network, and nothing in a request proves that none did. So two rules hold without keys:

- A request that a proxy has marked is refused.
- Administration, and whatever shows what somebody asked, needs the token that the start printed.
"""

import secrets

from starlette.datastructures import Headers

_EXACT = (
    *("forwarded", "via", "x-forwarded", "x-real-ip", "x-client-ip", "true-client-ip"),
    *("cf-connecting-ip", "cdn-loop", "x-cluster-client-ip", "fastly-client-ip"),
    *("x-azure-clientip", "x-envoy-external-address"),
)
_PREFIXES = ("x-forwarded-", "x-original-")
CREATE_A_KEY = 'nextquery keys create "search box" --scope write --store URL'
CREATE_AN_ADMIN_KEY = "nextquery keys create operator --scope admin --store URL"


def new_token() -> str:
    """Return a token for one start of the service: 256 random bits."""
    return secrets.token_urlsafe(32)


def forwarding_header(headers: Headers) -> str | None:
    """Return the name of a header that only a proxy writes, or None.

    >>> forwarding_header(Headers({"X-Forwarded-For": "192.0.2.7", "Host": "localhost"}))
    'x-forwarded-for'
    """
    return next((name for name in headers if name in _EXACT or name.startswith(_PREFIXES)), None)


def same_origin(origin: str, host: str) -> bool:
    """Whether a web page's Origin is that of the Host it calls.

    >>> same_origin("http://localhost:8000", "localhost:8000"), same_origin("http://[", "localhost")
    (True, False)
    """
    return origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower())
