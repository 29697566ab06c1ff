"""The engine: recommends, learns and forecasts, whoever asks. Thread-safe, without a framework."""

from concurrent.futures import Future
from typing import Any, Literal

from nextquery.arms import ArmPool
from nextquery.service.answers import Decision, FeedbackResult, Forecast
from nextquery.service.options import EngineOptions
from nextquery.service.store import Store


class Engine:
    """All that answers from one event log."""

    @classmethod
    def start(
        cls,
        pool: ArmPool,
        store: Store,
        options: EngineOptions | None = None,
        *,
        progress: Any = None,
    ) -> "Engine":
        """Bring the store up to date, warm-start if it is new, read the log, start the threads."""
        raise NotImplementedError

    def recommend(
        self,
        *,
        session_id: str,
        query: str,
        m: int = 5,
        user_id: str | None = None,
        request_id: str | None = None,
        owner: str = "",
    ) -> Decision:
        """Wait for `submit_recommend`."""
        raise NotImplementedError

    def submit_recommend(
        self,
        *,
        session_id: str,
        query: str,
        m: int = 5,
        user_id: str | None = None,
        request_id: str | None = None,
        owner: str = "",
    ) -> "Future[Decision]":
        """A slate; the future holds it once it is durable."""
        raise NotImplementedError

    def delivered(self, decision_id: str) -> None:
        """The answer was really sent. Returns at once."""

    def feedback(
        self,
        *,
        decision_id: str,
        accepted: int | None,
        issued: str | None = None,
        user_id: str | None = None,
    ) -> FeedbackResult:
        """Wait for `submit_feedback`."""
        raise NotImplementedError

    def submit_feedback(
        self,
        *,
        decision_id: str,
        accepted: int | None,
        issued: str | None = None,
        user_id: str | None = None,
    ) -> "Future[FeedbackResult]":
        """Raises (in the future) UnknownDecision, NotInSlate, Conflict, StoreUnavailable."""
        raise NotImplementedError

    def forecast(self, *, session_id: str, query: str, m: int = 5) -> Forecast:
        """Wait for `submit_forecast`."""
        raise NotImplementedError

    def submit_forecast(self, *, session_id: str, query: str, m: int = 5) -> "Future[Forecast]":
        """The likeliest next queries; no impression is recorded."""
        raise NotImplementedError

    def stats(self, *, by: Literal["hour", "day"] = "hour") -> dict[str, Any]:
        """Acceptance, regret and coverage, by policy and time."""
        raise NotImplementedError

    def health(self) -> dict[str, Any]:
        """position, lag, store_ok, pool, arms, snapshots, waiting, …"""
        raise NotImplementedError

    def block(self, query: str) -> int:
        """Never answer with this query again; returns the position of the event."""
        raise NotImplementedError

    def unblock(self, query: str) -> int:
        """Take a block back."""
        raise NotImplementedError

    def switch(self, on: bool) -> int:
        """The kill switch: off answers with no recommendations."""
        raise NotImplementedError

    def close(self) -> None:
        """Finish what was accepted, snapshot, stop the threads; safe to call twice."""
