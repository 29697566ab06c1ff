"""Clients of the service, with and without asyncio: requests, responses and retries.

Every call is safe to repeat: a recommendation carries a request id, and feedback is idempotent.
So a client retries when the service is briefly unavailable, for no longer than its `deadline`.

Clients ignore response fields that they do not know.
"""

import asyncio
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NoReturn, TypeVar

from nextquery.checks import installed, number, whole_number
from nextquery.errors import Conflict, InvalidInput, StoreUnavailable, UnknownDecision
from nextquery.signing import sign_user

__all__ = ["URL", "AsyncClient", "Client", "Next", "Slate", "Suggestion", "sign_user"]


URL = "http://127.0.0.1:8000"
_RETRYABLE = {408, 429, 502, 503, 504}
_ERRORS: dict[int, type[Exception]] = {404: UnknownDecision, 409: Conflict}
_T = TypeVar("_T")


@dataclass(frozen=True)
class Suggestion:
    """One recommended query.

    >>> Suggestion(912, "graph attention networks", 0.41, 0.98, False, "selection").text
    'graph attention networks'
    """

    arm_id: int
    text: str
    score: float
    propensity: float
    propensity_estimated: bool
    source: str  #: ``selection``, ``memory`` or ``pinned``


@dataclass(frozen=True)
class Slate:
    """Recommendations, best first, with the decision id to send feedback for.

    >>> slate = Slate("d-1", [], "lin-ucb-memory", model_version=1841, fallback=False)
    >>> slate.decision_id, slate.recommendations  # send feedback on an empty one too
    ('d-1', [])
    """

    decision_id: str
    recommendations: list[Suggestion]
    policy: str
    model_version: int
    fallback: bool
    partial: bool = False
    not_searched: int = 0


@dataclass(frozen=True)
class Next:
    """A query and the probability that it comes next.

    >>> likely = [Next(3, "dogs", 0.5), Next(4, "cats", 0.02)]
    >>> [one.text for one in likely if one.probability >= 0.05]  # worth fetching ahead
    ['dogs']
    """

    arm_id: int
    text: str
    probability: float


class Calls:
    """Requests and responses shared by both clients."""

    def __init__(
        self,
        url: str = URL,
        *,
        key: str | None = None,
        timeout: float = 5.0,
        retries: int = 5,
        deadline: float = 30.0,
    ) -> None:
        installed("client", "httpx2")
        self._retries = whole_number(retries, "retries", at_least=0)
        self._timeout = number(timeout, "timeout", low=0, above_low=True)
        self._deadline = number(deadline, "deadline", low=0, above_low=True)
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._options: dict[str, Any] = {"base_url": url, "headers": headers}

    @staticmethod
    def _recommend(
        query: str,
        session_id: str,
        m: int,
        user_id: str | None,
        user_signature: str | None,
        request_id: str | None,
        at_least: float | None,
    ) -> dict[str, Any]:
        body = {"query": query, "session_id": session_id, "m": m, **_who(user_id, user_signature)}
        if at_least is not None:  # else it is the service's setting
            body["at_least"] = at_least
        return {**body, "request_id": request_id or uuid.uuid4().hex}

    @staticmethod
    def _feedback(
        decision_id: str,
        accepted: int | None,
        issued: str | None,
        user_id: str | None,
        user_signature: str | None,
    ) -> dict[str, Any]:
        body = {"decision_id": decision_id, "accepted": accepted, "issued": issued}
        return {**body, **_who(user_id, user_signature)}

    @staticmethod
    def _forecast(
        query: str,
        session_id: str,
        m: int,
        user_id: str | None,
        user_signature: str | None,
        returns: bool,
        at_least: float,
    ) -> dict[str, Any]:
        body: dict[str, Any] = {"query": query, "session_id": session_id, "m": m}
        body |= {"returns": returns, "at_least": at_least}
        return {**body, **_who(user_id, user_signature)}

    @staticmethod
    def _slate(answer: Mapping[str, Any]) -> Slate:
        entries = [known(Suggestion, entry) for entry in answer["recommendations"]]
        return known(Slate, {**answer, "recommendations": entries})

    def _seconds_for(self, end: float) -> float:
        """Return the time-out of an attempt, so that it does not outlast the deadline."""
        return max(0.001, min(self._timeout, end - time.monotonic()))

    def _wait(self, attempt: int, response: Any, end: float) -> float | None:
        """Return the seconds until the next attempt, or None to stop."""
        if attempt >= self._retries or (
            response is not None and response.status_code not in _RETRYABLE
        ):
            return None
        asked = None if response is None else _retry_after(response)
        wait = min(2.0, 0.05 * 2 ** min(attempt, 6)) if asked is None else asked
        return wait if time.monotonic() + wait < end else None


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that have a value.

    >>> given(hits=0, user_id=None)
    {'hits': 0}
    """
    return {name: value for name, value in fields.items() if value is not None}


def _who(user_id: str | None, user_signature: str | None) -> dict[str, str]:
    """Return the fields about the user that are known."""
    return given(user_id=user_id, user_signature=user_signature)


def known(record: type[_T], answer: Mapping[str, Any]) -> _T:
    """Make a record of a response, without fields that we do not know.

    >>> known(Next, {"arm_id": 3, "text": "dogs", "probability": 0.5, "since": "2031"})
    Next(arm_id=3, text='dogs', probability=0.5)
    """
    names = {field.name for field in fields(record)}  # type: ignore[arg-type]
    return record(**{name: value for name, value in answer.items() if name in names})


def _retry_after(response: Any) -> float | None:
    """Return the seconds that a response asks us to wait, if it does."""
    asked = response.headers.get("retry-after", "")
    return float(asked) if asked.isdecimal() else None


def read(response: Any) -> Any:
    """Return the JSON of a response, or raise its error."""
    return response.json() if response.is_success else _raise_for(response)


def _raise_for(response: Any) -> NoReturn:
    try:
        detail = str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"the service answered {response.status_code}."
    asked = _retry_after(response)
    if asked is not None:
        detail += f" Try again in {asked:g} s."
    unavailable = response.status_code in _RETRYABLE or response.status_code >= 500
    default = StoreUnavailable if unavailable else InvalidInput
    raise _ERRORS.get(response.status_code, default)(detail)


def unreachable(error: Exception) -> StoreUnavailable:
    """Return the error of a service that does not answer."""
    return StoreUnavailable(
        f"the service cannot be reached: {error!r}. Check that it is running at this URL."
    )


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
