"""Clients of the service, with and without asyncio.

Every call is safe to repeat (a recommendation carries a request id, feedback is idempotent), so a
client retries when the service is briefly unavailable.
"""

import asyncio
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from nextquery.checks import installed, number, whole_number
from nextquery.errors import Conflict, InvalidInput, StoreUnavailable, UnknownDecision

URL = "http://127.0.0.1:8000"
_RETRYABLE = {408, 429, 502, 503, 504}
_ERRORS: dict[int, type[Exception]] = {404: UnknownDecision, 409: Conflict}


@dataclass(frozen=True)
class Suggestion:
    """One recommended query."""

    arm_id: int
    text: str
    score: float
    propensity: float
    propensity_estimated: bool


@dataclass(frozen=True)
class Slate:
    """Recommendations, best first, with the decision id to send feedback for."""

    decision_id: str
    recommendations: list[Suggestion]
    policy: str
    model_version: int
    fallback: bool
    partial: bool = False
    not_searched: int = 0


@dataclass(frozen=True)
class Next:
    """A query and the probability that it comes next."""

    arm_id: int
    text: str
    probability: float


class _Calls:
    """Requests and responses shared by both clients."""

    def __init__(
        self, url: str = URL, *, key: str | None = None, timeout: float = 5.0, retries: int = 5
    ) -> None:
        installed("client", "httpx2")
        self._retries = whole_number(retries, "retries", at_least=0)
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        seconds = number(timeout, "timeout", low=0, above_low=True)
        self._options: dict[str, Any] = {"base_url": url, "headers": headers, "timeout": seconds}

    @staticmethod
    def _recommend(
        query: str, session_id: str, m: int, user_id: str | None, request_id: str | None
    ) -> dict[str, Any]:
        body = {"query": query, "session_id": session_id, "m": m, "user_id": user_id}
        return {**body, "request_id": request_id or uuid.uuid4().hex}

    @staticmethod
    def _slate(answer: Mapping[str, Any]) -> Slate:
        entries = [Suggestion(**entry) for entry in answer["recommendations"]]
        return Slate(**{**answer, "recommendations": entries})

    def _wait(self, attempt: int, response: Any) -> float | None:
        """Return the seconds until the next attempt, or None to stop."""
        if attempt >= self._retries or (
            response is not None and response.status_code not in _RETRYABLE
        ):
            return None
        retry_after = "" if response is None else response.headers.get("retry-after", "")
        return float(retry_after) if retry_after.isdecimal() else min(2.0, 0.05 * 2**attempt)


def _read(response: Any) -> Any:
    return response.json() if response.is_success else _raise_for(response)


def _raise_for(response: Any) -> NoReturn:
    try:
        detail = str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"the service answered {response.status_code}."
    unavailable = response.status_code in _RETRYABLE or response.status_code >= 500
    default = StoreUnavailable if unavailable else InvalidInput
    raise _ERRORS.get(response.status_code, default)(detail)


def _unreachable(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(
        f"the service cannot be reached: {error!r}. Check that it is running at this URL."
    )


class Client(_Calls):
    """A client of the service.

    Parameters
    ----------
    url : the address of the service.
    key : an API key, if the service needs one.
    timeout : seconds to wait for one response.
    retries : further attempts while the service is unavailable or overloaded, at least 0.

    ::

        with nextquery.Client("http://127.0.0.1:8000") as client:
            slate = client.recommend("graph neural networks", session_id="s-17")
            client.feedback(slate.decision_id, accepted=slate.recommendations[0].arm_id)
    """

    def __init__(self, url: str = URL, **options: Any) -> None:
        super().__init__(url, **options)
        import httpx2

        self._http = httpx2.Client(**self._options)

    def recommend(
        self,
        query: str,
        *,
        session_id: str,
        m: int = 5,
        user_id: str | None = None,
        request_id: str | None = None,
    ) -> Slate:
        """Recommend up to `m` next queries."""
        body = self._recommend(query, session_id, m, user_id, request_id)
        return self._slate(self._ask("POST", "/v1/recommend", body))

    def feedback(self, decision_id: str, *, accepted: int | None, issued: str | None = None) -> str:
        """Report what was clicked or typed. Returns recorded, repeated, corrected or ignored."""
        body = {"decision_id": decision_id, "accepted": accepted, "issued": issued}
        return str(self._ask("POST", "/v1/feedback", body)["status"])

    def forecast(self, query: str, *, session_id: str, m: int = 5) -> list[Next]:
        """Return the likeliest next queries, for prefetching. Nothing is recorded."""
        body = {"query": query, "session_id": session_id, "m": m}
        return [Next(**e) for e in self._ask("POST", "/v1/forecast", body)["forecast"]]

    def stats(self) -> dict[str, Any]:
        """Return acceptance, regret and coverage."""
        return dict(self._ask("GET", "/v1/stats"))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        import httpx2

        attempt = 0
        while True:
            response, failed = None, None
            try:
                response = self._http.request(method, path, json=body)
            except httpx2.TransportError as error:
                failed = error
            wait = self._wait(attempt, response)
            if wait is None and failed is not None:
                raise _unreachable(failed)
            if wait is None:
                return _read(response)
            time.sleep(wait)
            attempt += 1


class AsyncClient(_Calls):
    """The asyncio version of `Client`: use ``async with`` and ``await``."""

    def __init__(self, url: str = URL, **options: Any) -> None:
        super().__init__(url, **options)
        import httpx2

        self._http = httpx2.AsyncClient(**self._options)

    async def recommend(
        self,
        query: str,
        *,
        session_id: str,
        m: int = 5,
        user_id: str | None = None,
        request_id: str | None = None,
    ) -> Slate:
        """Recommend up to `m` next queries."""
        body = self._recommend(query, session_id, m, user_id, request_id)
        return self._slate(await self._ask("POST", "/v1/recommend", body))

    async def feedback(
        self, decision_id: str, *, accepted: int | None, issued: str | None = None
    ) -> str:
        """Report what was clicked or typed. Returns recorded, repeated, corrected or ignored."""
        body = {"decision_id": decision_id, "accepted": accepted, "issued": issued}
        return str((await self._ask("POST", "/v1/feedback", body))["status"])

    async def forecast(self, query: str, *, session_id: str, m: int = 5) -> list[Next]:
        """Return the likeliest next queries, for prefetching. Nothing is recorded."""
        body = {"query": query, "session_id": session_id, "m": m}
        return [Next(**e) for e in (await self._ask("POST", "/v1/forecast", body))["forecast"]]

    async def stats(self) -> dict[str, Any]:
        """Return acceptance, regret and coverage."""
        return dict(await self._ask("GET", "/v1/stats"))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        import httpx2

        attempt = 0
        while True:
            response, failed = None, None
            try:
                response = await self._http.request(method, path, json=body)
            except httpx2.TransportError as error:
                failed = error
            wait = self._wait(attempt, response)
            if wait is None and failed is not None:
                raise _unreachable(failed)
            if wait is None:
                return _read(response)
            await asyncio.sleep(wait)
            attempt += 1
