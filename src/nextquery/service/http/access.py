"""Access control: API keys and their scopes, rates, and the Host and Origin headers.

*With keys*, every path except the public ones needs a key with the right scope, and each key has
a rate limit. Only failed lookups of a key are counted, so another client cannot lock out a valid
key. This also holds behind a proxy where all clients share one address. A key is protected by its
256 random bits. The limits keep guessing cheap for the service and visible to the client.

*Without keys* (only on localhost) everyone who reaches the port may ask for recommendations. The
Host and Origin headers must name this machine. Otherwise any web page opened on this machine
could call the service, through a host name that resolves to 127.0.0.1. A proxy could pass the
port on to a whole network, and nothing in a request proves that none did. So two rules hold:

- A request that a proxy has marked is refused.
- Administration, and everything that shows the queries of people, needs the token that the start
  printed, or a key.
"""

import asyncio
import contextlib
import hmac
import math
import secrets
import time
from functools import lru_cache
from urllib.parse import urlsplit

from limits import RateLimitItemPerMinute
from limits import parse as parse_rate
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from nextquery.errors import StoreUnavailable
from nextquery.service.http import responses
from nextquery.service.http.keys import FRESH_S, KeyRing
from nextquery.service.log.database import StoreCalls
from nextquery.service.settings import Settings, is_loopback

OF_ADDRESS = RateLimitItemPerMinute(100)
OF_ALL = RateLimitItemPerMinute(1000)
"""Failures per client address, and of all clients of a worker; above, the answer is 429."""


class FailedKeys:
    """Counts unknown keys by client address.

    >>> failed = FailedKeys()
    >>> [failed.count("10.0.0.1") for _ in range(100)] == [None] * 100
    True
    >>> 0 < failed.count("10.0.0.1") <= 60, failed.count("10.0.0.2")
    (True, None)
    """

    def __init__(self) -> None:
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    def count(self, address: str) -> int | None:
        """Count a failure; return the seconds to wait if there were too many, else None."""
        for rate, name in ((OF_ALL, "all"), (OF_ADDRESS, f"of {address}")):
            if not self._limiter.hit(rate, name):  # so at most `OF_ALL` addresses are kept
                reset = self._limiter.get_window_stats(rate, name).reset_time
                return max(1, math.ceil(reset - time.time()))
        return None


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


NO_OWNER = ""  #: the owner of requests without a key


class Access:
    """Passes a request on to `app`, or answers 400, 401, 403 or 429.

    Parameters
    ----------
    app : the application inside.
    settings : the allowed hosts, origins and rates.
    calls : runs what reads the store.
    keys : the API keys; None if paths below admin need none.
    watched : without `keys`, the keys that open admin paths; with ``keys=auto``, all paths need
        one as soon as one exists.
    token : without `keys`, opens admin paths too.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: Settings,
        calls: StoreCalls,
        keys: KeyRing | None,
        watched: KeyRing | None = None,
        token: str | None = None,
    ) -> None:
        self._app, self._settings, self._keys, self._token = app, settings, keys, token
        self._watched, self._looked_at = watched, -math.inf
        self._calls, self._failed = calls, FailedKeys()
        self._refreshing: asyncio.Task[None] | None = None
        limited = settings.rate_limit != "none"
        self._rate = parse_rate(settings.rate_limit) if limited else None
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer with an error."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        if (
            responses.needed(scope["path"]) != responses.PUBLIC
        ):  # those answer even if the store does not
            await self._watch_for_keys()
        error = self._wrong_address(scope) or await self._wrong_key(scope)
        await (error or self._app)(scope, receive, send)

    async def _watch_for_keys(self) -> None:
        """Require keys from the moment the first one is created."""
        automatic = self._settings.keys == "auto"
        if self._keys is None and self._watched is not None and automatic:
            if time.monotonic() - self._looked_at < FRESH_S:
                return
            self._looked_at = time.monotonic()
            with contextlib.suppress(StoreUnavailable):
                if await self._calls(self._watched.has_any):
                    self._keys = self._watched
                    responses.LOGGER.warning(
                        "the first API key was created: requests need keys from now on"
                    )

    async def _refresh(self, keys: KeyRing) -> None:
        """Read the keys again if they are stale, once for all requests that wait for it."""
        if not keys.stale():
            return
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._calls(keys.refresh))
            self._refreshing.add_done_callback(_seen)  # even if every waiting client has left
        await asyncio.shield(self._refreshing)

    def _wrong_address(self, scope: Scope) -> Response | None:
        headers, settings = Headers(scope=scope), self._settings
        host = headers.get("host", "")
        name = _name_of(f"//{host}")
        hosts = settings.allowed_hosts
        if (hosts or self._keys is None) and name not in hosts and not is_loopback(name):
            return _error(
                scope,
                400,
                f"Host: received {responses.quoted(host)}; "
                f"allowed: {', '.join(hosts) or 'localhost'}. Add hosts with the setting "
                "allowed_hosts.",
            )
        origin = headers.get("origin")
        if self._keys is not None:
            return None
        foreign = origin is not None and not same_origin(origin, host)
        if foreign and origin not in settings.cors_origins:
            return _error(
                scope,
                403,
                f"Origin: received {responses.quoted(origin)}; without API keys only pages of this "
                "service are allowed. Add origins with the setting cors_origins.",
            )
        proxied = forwarding_header(headers)
        if proxied is not None:
            return _error(
                scope,
                403,
                f"received the header {proxied}, so a proxy passed this request on. Without API "
                "keys only direct requests from this machine are allowed, because the proxy may "
                f"let everyone in. Create a key first: {CREATE_A_KEY}",
            )
        return None

    async def _wrong_key(self, scope: Scope) -> Response | None:
        required = responses.needed(scope["path"])
        scope["state"]["owner"] = scope["state"]["key"] = scope["state"]["key_name"] = NO_OWNER
        scope["state"]["trusted_users"] = False
        if required == responses.PUBLIC or (self._keys is None and required != responses.ADMIN):
            return None
        kind, _, text = Headers(scope=scope).get("authorization", "").partition(" ")
        bearer = kind.lower() == "bearer" and text != ""
        if self._keys is None and bearer and self._is_token(text):
            return None
        ring = self._keys or self._watched
        if not bearer or ring is None:
            return _error(scope, 401, self._how_to_enter(required))
        try:
            await self._refresh(ring)
        except StoreUnavailable as error:
            return _error(scope, 503, str(error), {"Retry-After": "1"})
        key = ring.known(text)
        if key is None:
            return self._unknown_key(scope, required, text)
        if not responses.allows(key.scope, required):
            return _error(
                scope, 403, f"this path needs a key with scope {required}; received {key.scope}."
            )
        scope["state"]["owner"], scope["state"]["key"] = key.owner, key.id
        scope["state"]["key_name"] = key.name
        scope["state"]["trusted_users"] = key.trusted_users
        if self._rate is None:
            return None
        times = responses.cost(scope["path"], self._rate.amount)
        if not self._limiter.hit(self._rate, key.id, cost=times):
            reset = self._limiter.get_window_stats(self._rate, key.id).reset_time
            wait = max(1, math.ceil(reset - time.time()))
            return _error(
                scope,
                429,
                f"this key is limited to {self._settings.rate_limit}, and this path counts as "
                f"{times}. Try again in {wait} s.",
                {"Retry-After": str(wait)},
            )
        return None

    def _unknown_key(self, scope: Scope, required: str, bearer: str) -> Response:
        wait = self._failed.count((scope.get("client") or ("",))[0])
        if wait is None:
            unknown = "the API key is unknown or revoked."
            if self._is_token(bearer):
                unknown = f"the token ended when keys were created. Use {CREATE_AN_ADMIN_KEY}"
            return _error(
                scope, 401, unknown if self._keys else f"{unknown} {self._how_to_enter(required)}"
            )
        return _error(
            scope,
            429,
            "the API key is unknown or revoked, and too many others were before it. Check the key "
            f"with nextquery keys list. Try again in {wait} s.",
            {"Retry-After": str(wait)},
        )

    def _is_token(self, text: str) -> bool:
        return self._token is not None and hmac.compare_digest(
            text.encode("utf-8", "replace"), self._token.encode()
        )

    def _how_to_enter(self, required: str) -> str:
        if self._keys is not None:
            return (
                f"this path needs a key with scope {required}. Send Authorization: Bearer KEY. "
                "Create a key with nextquery keys create."
            )
        return (
            "this path needs the token that nextquery serve printed when it started. Open the page "
            "with the link that it printed, or send Authorization: Bearer TOKEN."
        )


def _seen(task: "asyncio.Task[None]") -> None:
    if not task.cancelled():
        task.exception()


@lru_cache(maxsize=1024)
def _name_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _error(
    scope: Scope, status: int, detail: str, headers: dict[str, str] | None = None
) -> Response:
    if status == 401:
        headers = {"WWW-Authenticate": "Bearer"}
    return responses.problem(
        status, detail, request_id=scope["state"]["request_id"], headers=headers
    )
