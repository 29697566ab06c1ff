"""Clients of the service, with and without asyncio.

Every call is safe to repeat (a recommendation carries a request id, feedback is idempotent), so a
client retries when the service is briefly unavailable, for no longer than its `deadline`.
"""

import asyncio
import time
from typing import Any

from nextquery.client_calls import (
    URL,
    Calls,
    Next,
    Slate,
    Suggestion,
    given,
    known,
    read,
    unreachable,
)
from nextquery.signing import sign_user

__all__ = ["URL", "AsyncClient", "Client", "Next", "Slate", "Suggestion", "sign_user"]


class Client(Calls):
    """A client of the service.

    Parameters
    ----------
    url : the address of the service.
    key : an API key, if the service needs one.
    timeout : seconds to wait for one response.
    retries : further attempts while the service is unavailable or overloaded, at least 0.
    deadline : seconds for a call with all its attempts. If the service asks to wait longer than
        that, the call fails at once and says so.

    >>> import tempfile
    >>> import nextquery as nq
    >>> from nextquery.service.process import ServiceProcess
    >>> pool = nq.ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [2, 1], [0, 1]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pool.save(f"{folder}/pool")
    ...     service = ServiceProcess(f"{folder}/pool", f"sqlite:///{folder}/events.db")
    ...     with service, nq.Client(service.url) as client:
    ...         slate = client.recommend("a", session_id="s-17", m=2)
    ...         arm_id = slate.recommendations[0].arm_id
    ...         client.feedback(slate.decision_id, accepted=arm_id)
    'recorded'
    >>> len(slate.recommendations)
    2
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
        user_signature: str | None = None,
        request_id: str | None = None,
        at_least: float | None = None,
        hits: int | None = None,
        segment: str | None = None,
    ) -> Slate:
        """Recommend up to `m` next queries; `user_signature` is that of `sign_user`.

        Nothing less probable than `at_least` is recommended; by default the service's setting.
        `hits` is how many results the query had: with too few it never becomes an arm. Nothing of
        another `segment` is recommended.
        """
        body = self._recommend(query, session_id, m, user_id, user_signature, request_id, at_least)
        body |= given(hits=hits, segment=segment)
        return self._slate(self._ask("POST", "/v1/recommend", body))

    def feedback(
        self,
        decision_id: str,
        *,
        accepted: int | None,
        issued: str | None = None,
        user_id: str | None = None,
        user_signature: str | None = None,
        hits: int | None = None,
    ) -> str:
        """Report what was clicked or typed. Returns recorded, repeated, corrected or ignored."""
        body = self._feedback(decision_id, accepted, issued, user_id, user_signature)
        body |= given(hits=hits)
        return str(self._ask("POST", "/v1/feedback", body)["status"])

    def forecast(
        self,
        query: str,
        *,
        session_id: str,
        m: int = 5,
        user_id: str | None = None,
        user_signature: str | None = None,
        returns: bool = True,
        at_least: float = 0.0,
        segment: str | None = None,
    ) -> list[Next]:
        """Return the likeliest next queries, for prefetching. Nothing is recorded.

        With `returns`, the session's own earlier queries are among them. Queries less probable than
        `at_least` are not.
        """
        body = self._forecast(query, session_id, m, user_id, user_signature, returns, at_least)
        body |= given(segment=segment)
        answer = self._ask("POST", "/v1/forecast", body)
        return [known(Next, entry) for entry in answer["forecast"]]

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

        attempt, end = 0, time.monotonic() + self._deadline
        while True:
            response, failed = None, None
            try:
                response = self._http.request(
                    method, path, json=body, timeout=self._seconds_for(end)
                )
            except httpx2.TransportError as error:
                failed = error
            wait = self._wait(attempt, response, end)
            if wait is None and failed is not None:
                raise unreachable(failed)
            if wait is None:
                return read(response)
            time.sleep(wait)
            attempt += 1


class AsyncClient(Calls):
    """The asyncio version of `Client`: use ``async with`` and ``await``.

    >>> import asyncio
    >>> from nextquery.errors import NextqueryError
    >>> async def queries_after(query: str) -> list[str]:
    ...     async with AsyncClient("http://127.0.0.1:1", retries=0) as client:
    ...         try:
    ...             slate = await client.recommend(query, session_id="s-17")
    ...         except NextqueryError:  # the search page also works without recommendations
    ...             return []
    ...         return [entry.text for entry in slate.recommendations]
    >>> asyncio.run(queries_after("graphs"))  # no service runs there
    []
    """

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
        user_signature: str | None = None,
        request_id: str | None = None,
        at_least: float | None = None,
        hits: int | None = None,
        segment: str | None = None,
    ) -> Slate:
        """Recommend up to `m` next queries."""
        body = self._recommend(query, session_id, m, user_id, user_signature, request_id, at_least)
        body |= given(hits=hits, segment=segment)
        return self._slate(await self._ask("POST", "/v1/recommend", body))

    async def feedback(
        self,
        decision_id: str,
        *,
        accepted: int | None,
        issued: str | None = None,
        user_id: str | None = None,
        user_signature: str | None = None,
        hits: int | None = None,
    ) -> str:
        """Report what was clicked or typed. Returns recorded, repeated, corrected or ignored."""
        body = self._feedback(decision_id, accepted, issued, user_id, user_signature)
        body |= given(hits=hits)
        return str((await self._ask("POST", "/v1/feedback", body))["status"])

    async def forecast(
        self,
        query: str,
        *,
        session_id: str,
        m: int = 5,
        user_id: str | None = None,
        user_signature: str | None = None,
        returns: bool = True,
        at_least: float = 0.0,
        segment: str | None = None,
    ) -> list[Next]:
        """Return the likeliest next queries, for prefetching. Nothing is recorded.

        With `returns`, the session's own earlier queries are among them. Queries less probable than
        `at_least` are not.
        """
        body = self._forecast(query, session_id, m, user_id, user_signature, returns, at_least)
        body |= given(segment=segment)
        return [known(Next, e) for e in (await self._ask("POST", "/v1/forecast", body))["forecast"]]

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

        attempt, end = 0, time.monotonic() + self._deadline
        while True:
            response, failed = None, None
            try:
                response = await self._http.request(
                    method, path, json=body, timeout=self._seconds_for(end)
                )
            except httpx2.TransportError as error:
                failed = error
            wait = self._wait(attempt, response, end)
            if wait is None and failed is not None:
                raise unreachable(failed)
            if wait is None:
                return read(response)
            await asyncio.sleep(wait)
            attempt += 1
