"""Algorithm 1 of the paper: the closed loop of recommending, being accepted or not, and learning.

A `Recommender` holds what all sessions share: the pool, the selector, the policy, and what was
learnt. A `Session` (in `nextquery.session`) is one person's way through it.
"""

import os
from collections.abc import Iterable

from nextquery import recommender_folder
from nextquery.arms.pool import ArmPool
from nextquery.catalogue import Catalogue, EncodesTexts, Place
from nextquery.checks import number, whole_number
from nextquery.errors import InvalidInput
from nextquery.loop import Learnt, Loop
from nextquery.memory import Memory, SessionMemory
from nextquery.outcomes import Learning
from nextquery.policies.base import Policy
from nextquery.select.base import Selector
from nextquery.select.schedule import Schedule
from nextquery.session import Session
from nextquery.sessions import Sessions
from nextquery.warm_start import WARM_EXAMPLES, WARM_SESSIONS, warm_start


class Recommender(Loop):
    """Recommends the next query and learns from what becomes of it.

    Parameters
    ----------
    pool : the arms.
    selector : how the candidates are selected.
    policy : how one of them is chosen; by name with `nextquery.policy`.
    encoder : gives queries that are not arms a vector; by default the pool's own. Without any,
        only arms can be queries.
    schedule : how the candidate set grows with the trials (Algorithm 2); without one it has the
        selector's k arms from the start.
    exploration : share of recommendations drawn uniformly from the candidates, in [0, 1].
    seed : of every random draw; a draw depends on it, on the session's id and on the trial.
    memory : of earlier sessions, for a policy that ranks by it (``lin-ucb-memory``). What it
        recalls joins the selected candidates.
    reselect : whether the candidate set is built anew when the query now running changes. By
        default it is without a schedule; with one it is kept and grows, as in the paper.
    repeat : whether a session may be recommended a query that it was shown before. The queries it
        ran itself are never recommended.
    add_arms : whether a query never seen before becomes a new arm.
    learning : what slates teach that were ignored, or where something else was typed.

    >>> from nextquery import ArmPool, LinUCB, MaxUtility
    >>> pool = ArmPool.from_vectors(["cats", "kittens", "stocks"], [[1, 0], [3, 1], [0, 1]])
    >>> session = Recommender(pool, MaxUtility(k=2), LinUCB(model="disjoint")).start("cats")
    >>> session.recommend().text
    'kittens'
    """

    def __init__(
        self,
        pool: ArmPool,
        selector: Selector,
        policy: Policy,
        encoder: EncodesTexts | None = None,
        schedule: Schedule | None = None,
        exploration: float = 0.0,
        seed: int = 0,
        memory: Memory | None = None,
        *,
        reselect: bool | None = None,
        repeat: bool = False,
        add_arms: bool = False,
        learning: Learning | None = None,
    ) -> None:
        for thing, kind, name in ((selector, Selector, "selector"), (policy, Policy, "policy")):
            if not isinstance(thing, kind):
                raise InvalidInput(f"{name} must be a {kind.__name__} object; received {thing!r}.")
        encodes = callable(getattr(encoder, "encode", None)) and not isinstance(encoder, str)
        if encoder is not None and not encodes:
            raise InvalidInput(f"encoder must have a method encode(texts); received {encoder!r}.")
        if schedule is not None and selector.k is None:
            raise InvalidInput(
                f"a schedule sets the number of candidates, and {type(selector).__name__} has "
                "none to set. Use a selector with k, or no schedule."
            )
        for name, given, wanted in (("memory", memory, Memory), ("learning", learning, Learning)):
            if given is not None and not isinstance(given, wanted):
                raise InvalidInput(
                    f"{name} must be a {wanted.__name__} object; received {given!r}."
                )
        if memory is not None and memory.past.arms > pool.rows_in_all:
            raise InvalidInput(
                f"the memory's sessions name arm {memory.past.arms - 1}; this pool has ids up to "
                f"{pool.rows_in_all - 1}. Give the pool that the sessions were made with."
            )
        if (memory is not None) != policy.needs_memory:
            raise InvalidInput(
                f"{policy!r} ranks by a memory of sessions. Give one: "
                "memory=nq.Memory.of_pool(pool), or nq.Memory() for an empty one."
                if memory is None
                else f"{policy!r} would make no use of a memory. Leave memory out, or use a policy "
                'that ranks by it, such as nq.policy("lin-ucb-memory").'
            )
        remembers = Memory() if memory is None else memory
        super().__init__(
            Catalogue(pool, encoder),
            selector,
            Learnt(policy, live=remembers.live),
            remembers,
            exploration=number(exploration, "exploration", low=0, high=1),
            repeat=repeat,
            seed=whole_number(seed, "seed", at_least=0),
        )
        self.schedule, self.reselect, self.add_arms = schedule, reselect, add_arms
        self.learning = Learning() if learning is None else learning
        self.looks_further = schedule is None  # a growing set is all there is
        self.sessions_started = 0

    @property
    def encoder(self) -> EncodesTexts | None:
        """What gives a query that is no arm its vector."""
        return self.catalogue.encoder

    @property
    def reselects(self) -> bool:
        """Whether a new anchor gets a new candidate set."""
        return self.schedule is None if self.reselect is None else self.reselect

    def start(self, query: str, session_id: str | None = None) -> Session:
        """Begin a session with its initial query; without an id it gets one."""
        place = self.place(query)
        if session_id is not None and not (isinstance(session_id, str) and session_id):
            raise InvalidInput(f"session_id must be a text; received {session_id!r}.")
        self.sessions_started += 1
        return Session(self, session_id or f"s{self.sessions_started}", place)

    def place(self, query: str) -> Place:
        """Where a query stands: an arm, or a text the encoder gives a vector."""
        if not isinstance(query, str) or not query.strip():
            raise InvalidInput(f"a query must be a text that is not empty; received {query!r}.")
        place = self.catalogue.place(query)
        if place.arm is None and self.encoder is None:
            raise InvalidInput(
                f"{query[:80]!r} is not an arm of the pool, and this recommender has no encoder "
                "to give it a vector. Pass encoder=, or ask with the text of an arm."
            )
        if place.arm is None and self.add_arms and place.vector.any():
            return place._replace(arm=self.catalogue.add(place.text, place.vector, place.shown))
        return place

    def add(self, query: str) -> int:
        """Make a query an arm; its id, also where it is one already."""
        place = self.place(query)
        if place.arm is not None:
            return place.arm
        if not place.vector.any():
            raise InvalidInput(
                f"{query[:80]!r} cannot become an arm: the encoder knows none of its words."
            )
        return self.catalogue.add(place.text, place.vector, place.shown)

    def remove(self, query: str) -> None:
        """Take an arm out for ever."""
        arm = self.catalogue.find(query)
        if arm is None:
            raise InvalidInput(f"{query[:80]!r} is no arm, so there is nothing to remove.")
        self.catalogue.remove(arm)

    def block(self, query: str) -> None:
        """Never recommend this query again, in any session."""
        self.catalogue.block(query)

    def unblock(self, query: str) -> None:
        """Take a block back."""
        self.catalogue.unblock(query)

    def warm_start(
        self,
        sessions: Sessions | Iterable[Iterable[str | int]] | None = None,
        *,
        newest: int = WARM_SESSIONS,
        examples: int = WARM_EXAMPLES,
    ) -> int:
        """Learn from past sessions before the first user comes; how many successes were learnt.

        At every step the query that really came next is a success of that arm, if it was among
        the candidates, and what the policy would have shown above it is a failure. A fifth of the
        sessions, the newest, calibrate the forecasts instead.

        Parameters
        ----------
        sessions : in order of time, each as texts or arm ids; a memory then remembers these. By
            default the memory's own sessions, or those of the log that the pool was made from.
        newest : weights are learnt from so many of them, at least 0.
        examples : how many examples of feedback all of this weighs at most, at least 0: the fewer,
            the sooner clicks outweigh it.
        """
        whole_number(newest, "newest", at_least=0)
        whole_number(examples, "examples", at_least=0)
        if sessions is not None:
            past = self._as_sessions(sessions).in_order_of_time()
            self.memory.past = SessionMemory(past)
        elif self.policy.needs_memory:
            past = self.memory.past.sessions
        elif self.pool.origin is not None:
            past = self.pool.origin.sessions.in_order_of_time()
        else:
            raise InvalidInput(
                f"{self.pool!r} was not made from a log, so it has no sessions to learn from. Pass "
                "them: warm_start(sessions)."
            )
        return warm_start(self, past, newest=newest, examples=examples).successes

    def _as_sessions(self, sessions: Sessions | Iterable[Iterable[str | int]]) -> Sessions:
        """Sessions as ids of arms; a query that is none, and cannot be, ends its session."""
        if isinstance(sessions, Sessions):
            return Sessions.of(sessions, self.pool.rows_in_all)
        parts: list[list[int]] = []
        for session in sessions:
            if isinstance(session, str) or not isinstance(session, Iterable):
                raise InvalidInput(
                    f"a session is a list of queries, texts or arm ids; received {session!r}."
                )
            parts.append([])
            for query in session:
                arm = self._past_arm(query)
                if arm is None:
                    parts.append([])
                else:
                    parts[-1].append(arm)
        return Sessions.of([part for part in parts if part], self.pool.rows_in_all)

    def _past_arm(self, query: str | int) -> int | None:
        if not isinstance(query, str):
            return whole_number(query, "a query's arm id", at_least=0)
        if self.add_arms and self.encoder is not None:
            return self.place(query).arm
        return self.catalogue.find(query)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything but the open sessions to a folder, from which `open` goes on exactly."""
        recommender_folder.write(self, path)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, encoder: EncodesTexts | None = None
    ) -> "Recommender":
        """Go on where `save` left off. An encoder of your own is not saved: pass it again."""
        return recommender_folder.read(cls, path, encoder)
