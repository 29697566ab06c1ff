"""What both clients share: requests, responses, and when to try again.

Fields of a response that this client does not know are left out: answers may have new ones.
"""

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NoReturn, TypeVar

from nextquery.checks import installed, number, whole_number
from nextquery.errors import Conflict, InvalidInput, StoreUnavailable, UnknownDecision

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
