"""Access control: API keys and their scopes, rates, and the Host and Origin headers.

With keys, every path except the public ones needs a key with the right scope, and each key has a
rate limit. Without keys (only on localhost) the Host and Origin headers must name this machine.
Otherwise any web page opened on this machine could call the service, through a host name that
resolves to 127.0.0.1.
"""

import asyncio
import contextlib
import math
import time
from urllib.parse import urlsplit

from limits import parse as parse_rate
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from nextquery.errors import StoreUnavailable
from nextquery.service.http.error_responses import problem, quoted
from nextquery.service.http.failed_keys import FailedKeys
from nextquery.service.http.keys import FRESH_S, KeyRing
from nextquery.service.http.scopes import PUBLIC, allows, needed
from nextquery.service.log.database.calls import StoreCalls
from nextquery.service.settings.settings import Settings, is_loopback

NO_OWNER = ""  #: the owner of requests without a key


class Access:
    """Passes a request on to `app`, or answers 400, 401, 403 or 429.

    Parameters
    ----------
    app : the application inside.
    settings : the allowed hosts, origins and rates.
    calls : runs what reads the store.
    keys : the API keys; None if everyone on this machine may do everything.
    watched : without `keys`, the keys that are required as soon as one exists.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: Settings,
        calls: StoreCalls,
        keys: KeyRing | None,
        watched: KeyRing | None = None,
    ) -> None:
        self._app, self._settings, self._keys = app, settings, keys
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
        if needed(scope["path"]) != PUBLIC:  # those answer even if the store does not
            await self._watch_for_keys()
        error = self._wrong_address(scope) or await self._wrong_key(scope)
        await (error or self._app)(scope, receive, send)

    async def _watch_for_keys(self) -> None:
        """Require keys from the moment the first one is created."""
        if self._keys is None and self._watched is not None:
            if time.monotonic() - self._looked_at < FRESH_S:
                return
            self._looked_at = time.monotonic()
            with contextlib.suppress(StoreUnavailable):
                if await self._calls(self._watched.has_any):
                    self._keys = self._watched

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
                f"Host: received {quoted(host)}; allowed: {', '.join(hosts) or 'localhost'}. "
                "Add hosts with the setting allowed_hosts.",
            )
        origin = headers.get("origin")
        if self._keys is None and origin is not None and origin not in settings.cors_origins:
            same = urlsplit(origin).netloc == host and origin.startswith(("http://", "https://"))
            if not same:
                return _error(
                    scope,
                    403,
                    f"Origin: received {quoted(origin)}; without API keys only pages of this "
                    "service are allowed. Add origins with the setting cors_origins.",
                )
        return None

    async def _wrong_key(self, scope: Scope) -> Response | None:
        required = needed(scope["path"])
        scope["state"]["owner"] = NO_OWNER
        if self._keys is None or required == PUBLIC:
            return None
        kind, _, text = Headers(scope=scope).get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not text:
            return _error(
                scope,
                401,
                f"this path needs a key with scope {required}. Send Authorization: Bearer KEY. "
                "Create a key with nextquery keys create.",
            )
        try:
            await self._refresh(self._keys)
        except StoreUnavailable as error:
            return _error(scope, 503, str(error), {"Retry-After": "1"})
        key = self._keys.known(text)
        if key is None:
            return self._unknown_key(scope)
        if not allows(key.scope, required):
            return _error(
                scope, 403, f"this path needs a key with scope {required}; received {key.scope}."
            )
        scope["state"]["owner"] = key.id
        if self._rate is not None and not self._limiter.hit(self._rate, key.id):
            reset = self._limiter.get_window_stats(self._rate, key.id).reset_time
            wait = max(1, math.ceil(reset - time.time()))
            return _error(
                scope,
                429,
                f"this key is limited to {self._settings.rate_limit}. Try again in {wait} s.",
                {"Retry-After": str(wait)},
            )
        return None

    def _unknown_key(self, scope: Scope) -> Response:
        wait = self._failed.count((scope.get("client") or ("",))[0])
        if wait is None:
            return _error(scope, 401, "the API key is unknown or revoked.")
        return _error(
            scope,
            429,
            "the API key is unknown or revoked, and too many others were before it. Check the key "
            f"with nextquery keys list. Try again in {wait} s.",
            {"Retry-After": str(wait)},
        )


def _seen(task: "asyncio.Task[None]") -> None:
    if not task.cancelled():
        task.exception()


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
    return problem(status, detail, request_id=scope["state"]["request_id"], headers=headers)
