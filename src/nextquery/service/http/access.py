"""The gate: who may ask, from where, and how often.

With keys, every path but the public ones needs a key of enough scope, and each key has its rate.
Without keys (this machine's own address alone) the Host and Origin headers must name this machine:
otherwise any web page that somebody here looks at could ask too, through a name that it lets point
to 127.0.0.1.
"""

import contextlib
import math
import time
from urllib.parse import urlsplit

from limits import parse as parse_rate
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from nextquery.errors import StoreUnavailable
from nextquery.service.http.error_responses import problem, quoted
from nextquery.service.http.keys import FRESH_S, KeyRing
from nextquery.service.http.scopes import PUBLIC, allows, needed
from nextquery.service.settings.settings import Settings, is_loopback

ANYBODY = ""  #: the owner of requests without a key


class Gate:
    """Lets a request through to `app`, or answers 400, 401, 403 or 429.

    Parameters
    ----------
    app : what lies behind.
    settings : which hosts, origins and rates are allowed.
    keys : the keys; None: everybody on this machine may do everything.
    watched : without `keys`, those that are needed from the moment on that there are any.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: Settings,
        keys: KeyRing | None,
        watched: KeyRing | None = None,
    ) -> None:
        self._app, self._settings, self._keys = app, settings, keys
        self._watched, self._looked = watched, -math.inf
        limited = settings.rate_limit != "none"
        self._rate = parse_rate(settings.rate_limit) if limited else None
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on or refuse."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        await self._look_for_keys()
        refused = self._misdirected(scope) or await self._unknown(scope)
        await (refused or self._app)(scope, receive, send)

    async def _look_for_keys(self) -> None:
        """Whoever makes a first key means it: from then on, keys are needed here too."""
        if self._keys is None and self._watched is not None:
            if time.monotonic() - self._looked < FRESH_S:
                return
            self._looked = time.monotonic()
            with contextlib.suppress(StoreUnavailable):
                if await run_in_threadpool(self._watched.has_any):
                    self._keys = self._watched

    def _misdirected(self, scope: Scope) -> Response | None:
        headers, settings = Headers(scope=scope), self._settings
        host = headers.get("host", "")
        name = _name_of(f"//{host}")
        hosts = settings.allowed_hosts
        if (hosts or self._keys is None) and name not in hosts and not is_loopback(name):
            return _refuse(
                scope,
                400,
                f"Host: received {quoted(host)}; allowed: {', '.join(hosts) or 'localhost'}. "
                "The setting allowed_hosts names others.",
            )
        origin = headers.get("origin")
        if self._keys is None and origin is not None and origin not in settings.cors_origins:
            same = urlsplit(origin).netloc == host and origin.startswith(("http://", "https://"))
            if not same:
                return _refuse(
                    scope,
                    403,
                    f"Origin: received {quoted(origin)}; without API keys only pages of this "
                    "service may ask. The setting cors_origins names others.",
                )
        return None

    async def _unknown(self, scope: Scope) -> Response | None:
        wanted = needed(scope["path"])
        scope["state"]["owner"] = ANYBODY
        if self._keys is None or wanted == PUBLIC:
            return None
        kind, _, text = Headers(scope=scope).get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not text:
            return _refuse(
                scope,
                401,
                f"this needs an API key of scope {wanted}: send Authorization: Bearer KEY. "
                "nextquery keys create makes one.",
            )
        find = self._keys.find
        try:
            key = await run_in_threadpool(find, text) if self._keys.stale() else find(text)
        except StoreUnavailable as error:
            return _refuse(scope, 503, str(error), {"Retry-After": "1"})
        if key is None:
            return _refuse(scope, 401, "the API key is not known or was revoked.")
        if not allows(key.scope, wanted):
            return _refuse(
                scope, 403, f"this needs an API key of scope {wanted}; received one of {key.scope}."
            )
        scope["state"]["owner"] = key.id
        if self._rate is not None and not self._limiter.hit(self._rate, key.id):
            reset = self._limiter.get_window_stats(self._rate, key.id).reset_time
            wait = max(1, math.ceil(reset - time.time()))
            return _refuse(
                scope,
                429,
                f"more requests than {self._settings.rate_limit} with this key; try again in "
                f"{wait} s.",
                {"Retry-After": str(wait)},
            )
        return None


def _name_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _refuse(
    scope: Scope, status: int, detail: str, headers: dict[str, str] | None = None
) -> Response:
    if status == 401:
        headers = {"WWW-Authenticate": "Bearer"}
    return problem(status, detail, request_id=scope["state"]["request_id"], headers=headers)
