"""Algorithm 1 of the paper: the closed loop of recommending, observing and learning.

A `Recommender` contains what all sessions share: the pool, the selector, the policy and the
learned state. It can be saved to a folder and opened again. A `Session` (in `nextquery.session`)
belongs to one user.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nextquery import folders
from nextquery.arms.pool import ArmPool
from nextquery.catalogue.catalogue import Catalogue, EncodesTexts, Place
from nextquery.catalogue.rules import MIN_HITS
from nextquery.checks import class_named, number, path_of, whole_number
from nextquery.encode.encoder import Encoder
from nextquery.errors import InvalidInput
from nextquery.learning import Learning, ModelState
from nextquery.loop import Loop
from nextquery.memory import LiveMemory, Memory, People, SessionMemory
from nextquery.policies.policy import Policy
from nextquery.policies.registry import POLICIES, SCHEDULES, SELECTIONS, name_of, policy_class
from nextquery.segments import check_segment
from nextquery.selection.schedule import Schedule
from nextquery.selection.selector import Selector
from nextquery.session import Session
from nextquery.sessions import Sessions
from nextquery.warm_start import WARM_EXAMPLES, WARM_SESSIONS, warm_start

KIND, VERSION = "nextquery recommender", 2
_OPTIONS = (
    *("exploration", "seed", "reselect", "repeat", "returns", "recommend_at_least", "add_arms"),
    *("min_letters", "min_hits", "fold_similar"),
)


def write(rec: "Recommender", path: str | os.PathLike[str]) -> None:
    """Write everything except open sessions."""
    encoder = rec.encoder if isinstance(rec.encoder, Encoder) else None
    parts = {**rec.pool.parts(), "policy.npz": rec.policy.state()}
    if encoder is not rec.pool.encoder:
        others = {name: part for name, part in parts.items() if name[:8] != "encoder_"}
        parts = {**others, **({} if encoder is None else encoder.parts())}
    if rec.model_state.calibration:
        parts["calibration.npz"] = rec.model_state.calibration
    if rec.policy.needs_memory:
        parts["memory.npz"] = rec.memory.live.state()
        parts["memory_sessions.npz"] = rec.memory.past.sessions._asdict()
        parts["memory_people.npz"] = rec.memory.people.state()
    meta: dict[str, Any] = {
        **rec.pool.meta(),
        "selector": _described(rec.selector, Selector, SELECTIONS),
        "policy": name_of(rec.policy) or path_of(type(rec.policy)),
        "schedule": None if rec.schedule is None else _described(rec.schedule, Schedule, SCHEDULES),
        "options": {name: getattr(rec, name) for name in _OPTIONS},
        "learning": vars(rec.learning),
        "blocked": sorted(rec.catalogue.excluded.texts),
        "patterns": list(rec.catalogue.excluded.patterns),
        "pins": [list(pin) for pin in rec.catalogue.pins],
        "shown": rec.catalogue.spellings(),
        "sessions_started": rec.sessions_started,
        "memory": {"names": list(rec.memory.names), "half_life": rec.memory.half_life},
        "encoder": None if encoder is None else encoder.meta(),
        "needs_encoder": rec.encoder is not None and encoder is None,
    }
    folders.write(path, kind=KIND, version=VERSION, parts=parts, meta=meta)


def read(
    kind: type["Recommender"], path: str | os.PathLike[str], encoder: EncodesTexts | None
) -> "Recommender":
    """Read a recommender."""
    folder = folders.read(path, kind=KIND, version=VERSION)
    meta = folder.meta
    if encoder is None and meta["needs_encoder"]:
        raise InvalidInput(
            f"{path} was saved with a custom encoder, which is not stored in the folder. "
            "Pass it again: Recommender.open(path, encoder=...)."
        )
    selector = _created(meta["selector"], Selector, SELECTIONS)
    schedule = None
    if meta["schedule"] is not None:
        schedule = _created(meta["schedule"], Schedule, SCHEDULES)
    name = meta["policy"]
    learner = policy_class(name) if name in POLICIES else _own(name, Policy, POLICIES)
    policy = learner.from_state(folder.arrays("policy.npz"))
    memory = None
    if policy.needs_memory:
        live = LiveMemory.from_state(folder.arrays("memory.npz"))
        people = People.from_state(folder.arrays("memory_people.npz"))
        sessions = Sessions(**folder.arrays("memory_sessions.npz"))
        memory = Memory(sessions, live, people=people, **meta["memory"])
    options = {**meta["options"], "memory": memory, "learning": Learning(**meta["learning"])}
    rec = kind(ArmPool.of(folder), selector, policy, encoder, schedule, **options)
    for text in meta["blocked"]:
        rec.catalogue.block_text(text)
    for pattern in meta["patterns"]:
        rec.catalogue.block_pattern(pattern)
    for after, text in meta["pins"]:
        rec.catalogue.pins.pin(text, after)
    rec.catalogue.show({int(arm): text for arm, text in meta["shown"].items()})
    if "calibration.npz" in folder:
        rec.model_state.calibration = folder.arrays("calibration.npz")
    rec.sessions_started = meta["sessions_started"]
    return rec


def _described(thing: Any, base: type[Any], known: Mapping[str, Any]) -> dict[str, Any]:
    kind = type(thing)
    names = [name for name, registered in known.items() if registered is kind]
    if not names and base not in kind.__mro__:
        raise InvalidInput(
            f"{kind.__name__} is not a {base.__name__}, so the saved folder could not be opened. "
            f"Derive the class from {base.__name__}."
        )
    return {"name": names[0] if names else path_of(kind), "params": thing.get_params()}


def _created(described: Mapping[str, Any], base: type[Any], known: Mapping[str, Any]) -> Any:
    name = described["name"]
    kind = known[name] if name in known else _own(name, base, known)
    return kind(**described["params"])


def _own(name: str, base: type[Any], known: Mapping[str, Any]) -> Any:
    """Return a class of the user's own by its path, which needs to be imported."""
    if ":" in name:
        return class_named(base, name)
    raise InvalidInput(
        f"there is no {base.__name__} registered as {name!r} among {', '.join(known)}. If it is "
        "yours, register it before you open the folder."
    )


class Recommender(Loop):
    """Recommends the next query and learns from the feedback.

    Parameters
    ----------
    pool : the arms.
    selector : selects the candidates.
    policy : chooses among the candidates; get one by name with `nextquery.policy`.
    encoder : encodes queries that are not arms; by default the pool's encoder. Without an encoder,
        queries must be arms.
    schedule : how the candidate set grows with the trials (Algorithm 2); by default it has the
        selector's k arms from the start.
    exploration : share of recommendations drawn uniformly from the candidates, in [0, 1].
    seed : seed of every random draw; a draw also depends on the session's id and on the trial.
    memory : memory of earlier sessions, for a policy that ranks by it (``lin-ucb-memory``). The
        arms it recalls join the selected candidates.
    reselect : whether each query gets candidates of its own. The default is True without a
        schedule; with one, the set is kept and grows, as in the paper.
    repeat : whether a session may be recommended a query that it was shown before.
    returns : whether a session may be recommended its own earlier queries. Forecasts always
        contain them.
    fold_similar : whether a slate or a forecast shows only one of several queries that say the
        same in another form; see `nextquery.selection.duplicates`.
    recommend_at_least : recommend nothing less probable than this, in [0, 1], by the calibrated
        probability that a forecast has. Slates may be shorter then, or empty. 0: no limit.
    min_letters : letters and digits that a recommendation must have; 0 for no minimum.
    min_hits : results that a recommendation must have had in the log, if the log knows; 0 for no
        minimum.
    add_arms : whether an unknown query becomes a new arm.
    learning : how to learn from slates that were ignored or replaced by a typed query.
    clock : returns the Unix time, for a person's own past.

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
        returns: bool = False,
        fold_similar: bool = False,
        recommend_at_least: float = 0.0,
        min_letters: int = 0,
        min_hits: int = MIN_HITS,
        add_arms: bool = False,
        learning: Learning | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        for thing, kind, name in ((selector, Selector, "selector"), (policy, Policy, "policy")):
            if not isinstance(thing, kind):
                raise InvalidInput(f"{name} must be a {kind.__name__} object; received {thing!r}.")
        encodes = callable(getattr(encoder, "encode", None)) and not isinstance(encoder, str)
        if encoder is not None and not encodes:
            raise InvalidInput(f"encoder must have a method encode(texts); received {encoder!r}.")
        for name, given, type_ in (("memory", memory, Memory), ("learning", learning, Learning)):
            if given is not None and not isinstance(given, type_):
                raise InvalidInput(f"{name} must be a {type_.__name__} object; received {given!r}.")
        if memory is not None and memory.past.arms > pool.rows_in_all:
            raise InvalidInput(
                f"the memory's sessions contain arm {memory.past.arms - 1}; this pool has ids up "
                f"to {pool.rows_in_all - 1}. Pass the pool that the sessions were made with."
            )
        if (memory is not None) != policy.needs_memory:
            raise InvalidInput(
                f"{policy!r} ranks by a memory of sessions. Pass "
                "memory=nq.Memory.of_pool(pool), or nq.Memory() for an empty one."
                if memory is None
                else f"{policy!r} does not use a memory. Omit memory, or use a policy "
                'that ranks by it, such as nq.policy("lin-ucb-memory").'
            )
        session_memory = Memory() if memory is None else memory
        super().__init__(
            Catalogue(
                pool,
                encoder,
                min_letters=whole_number(min_letters, "min_letters", at_least=0),
                min_hits=whole_number(min_hits, "min_hits", at_least=0),
            ),
            selector,
            ModelState(policy, live=session_memory.live, people=session_memory.people),
            session_memory,
            exploration=number(exploration, "exploration", low=0, high=1),
            repeat=repeat,
            returns=returns,
            fold_similar=fold_similar,
            recommend_at_least=number(recommend_at_least, "recommend_at_least", low=0, high=1),
            schedule=schedule,
            reselect=reselect,
            seed=whole_number(seed, "seed", at_least=0),
        )
        self.clock, self.add_arms = clock, add_arms
        self.learning = Learning() if learning is None else learning
        self.sessions_started = 0

    @property
    def min_letters(self) -> int:
        """Letters and digits that a recommendation must have."""
        return self.catalogue.excluded.min_letters

    @property
    def min_hits(self) -> int:
        """Results that a recommendation must have had in the log, if the log knows."""
        return self.catalogue.excluded.min_hits

    @property
    def encoder(self) -> EncodesTexts | None:
        """The encoder of queries that are not arms."""
        return self.catalogue.encoder

    def start(
        self,
        query: str,
        session_id: str | None = None,
        *,
        person: str | None = None,
        segment: str = "",
    ) -> Session:
        """Start a session with its first query. Without `session_id`, an id is assigned.

        `person` names whose session it is: their own past queries join the candidates, and what
        they ask is remembered for them alone. In a pool made with `ingest(personal=…)` people have
        the names that `nextquery.Personal.hash` returns. `segment` names the part of the log that
        the session is in: it is recommended nothing of another one (see `nextquery.segments`).
        """
        place = self.place(query, segment)
        for name, given in (("session_id", session_id), ("person", person)):
            if given is not None and not (isinstance(given, str) and given):
                raise InvalidInput(f"{name} must be a non-empty string; received {given!r}.")
        self.sessions_started += 1
        return Session(self, session_id or f"s{self.sessions_started}", place, person)

    def place(self, query: str, segment: str = "") -> Place:
        """Look a query up: as an arm of its segment, or else with the encoder's vector."""
        if not isinstance(query, str) or not query.strip():
            raise InvalidInput(f"a query must be a non-empty string; received {query!r}.")
        place = self.catalogue.place(query, check_segment(segment))
        if place.arm is None and self.encoder is None:
            raise InvalidInput(
                f"{query[:80]!r} is not an arm of the pool, and this recommender has no encoder "
                "to give it a vector. Pass encoder=, or use the text of an arm."
            )
        if place.arm is None and self.add_arms and place.vector.any():
            return place._replace(arm=self.catalogue.add(place.text, place.vector, place.shown))
        return place

    def add(self, query: str, segment: str = "") -> int:
        """Make a query an arm of a segment, if it is not one already. Returns its id."""
        place = self.place(query, segment)
        if place.arm is not None:
            return place.arm
        if not place.vector.any():
            raise InvalidInput(
                f"{query[:80]!r} cannot become an arm: the encoder knows none of its words."
            )
        return self.catalogue.add(place.text, place.vector, place.shown)

    def remove(self, query: str, segment: str = "") -> None:
        """Remove an arm of a segment permanently."""
        arm = self.catalogue.find_exactly(query, check_segment(segment))
        if arm is None:
            raise InvalidInput(f"{query[:80]!r} is not an arm, so there is nothing to remove.")
        self.catalogue.remove(arm)

    def block(self, query: str) -> None:
        """Never recommend this query again, in any session of any segment."""
        self.catalogue.block(query)

    def unblock(self, query: str) -> None:
        """Allow a blocked query again."""
        self.catalogue.unblock(query)

    def block_pattern(self, pattern: str) -> None:
        """Never recommend a query with these words again; see `nextquery.catalogue.rules`.

        >>> from nextquery import ArmPool, LinUCB, MaxUtility
        >>> pool = ArmPool.from_vectors(["cats", "free spins"], [[1, 0], [1, 1]])
        >>> rec = Recommender(pool, MaxUtility(k=1), LinUCB(model="disjoint"))
        >>> rec.block_pattern("*spin*")
        >>> rec.start("cats").recommend() is None
        True
        """
        self.catalogue.block_pattern(pattern)

    def unblock_pattern(self, pattern: str) -> None:
        """Allow again what a blocked pattern matches."""
        self.catalogue.unblock_pattern(pattern)

    def pin(self, query: str, after: str | None = None, *, segment: str = "") -> None:
        """Always show an arm at the top after a query, or without `after` after every query.

        A pin has propensity 1 and teaches nothing. A block wins over it.

        >>> from nextquery import ArmPool, LinUCB, MaxUtility
        >>> pool = ArmPool.from_vectors(["tea", "milk", "pots"], [[1, 0], [1, 1], [0, 1]])
        >>> rec = Recommender(pool, MaxUtility(k=2), LinUCB(model="disjoint"))
        >>> rec.pin("pots", after="tea")
        >>> [choice.text for choice in rec.start("tea").recommend(m=2)]
        ['pots', 'milk']
        """
        self.catalogue.pin(query, after, segment)

    def unpin(self, query: str, after: str | None = None, *, segment: str = "") -> None:
        """Remove a pin."""
        self.catalogue.unpin(query, after, segment)

    def warm_start(
        self,
        sessions: Sessions | Iterable[Iterable[str | int]] | None = None,
        *,
        newest: int = WARM_SESSIONS,
        examples: int = WARM_EXAMPLES,
    ) -> int:
        """Learn from past sessions before serving users. Returns the number of successes.

        At every step, the query that came next counts as a success if it was a candidate, and all
        other candidates count as failures. The newest fifth of the steps calibrates the forecasts
        instead.

        Parameters
        ----------
        sessions : sessions in order of time, each as texts or arm ids; they replace the memory's
            sessions. By default the memory's sessions, or those of the log that the pool was made
            from.
        newest : learn weights from this many of the newest sessions of two queries or more.
        examples : the total weight of what is learnt, in steps, at least 0. With fewer, clicks
            outweigh it sooner.
        """
        whole_number(newest, "newest", at_least=0)
        whole_number(examples, "examples", at_least=0)
        if sessions is not None:
            self.memory.use(self._as_sessions(sessions).in_order_of_time())
            past = self.memory.past
        elif self.policy.needs_memory:
            past = self.memory.past
        elif self.pool.origin is not None:
            past = SessionMemory(self.pool.origin.sessions.in_order_of_time().without_repeats())
        else:
            raise InvalidInput(
                f"{self.pool!r} was not made from a log, so it has no sessions to learn from. "
                "Pass them: warm_start(sessions)."
            )
        return warm_start(self, past, newest=newest, examples=examples).successes

    def _as_sessions(self, sessions: Sessions | Iterable[Iterable[str | int]]) -> Sessions:
        """Convert sessions to arm ids. A query that is not an arm splits its session."""
        if isinstance(sessions, Sessions):
            return Sessions.of(sessions, self.pool.rows_in_all)
        parts: list[list[int]] = []
        for session in sessions:
            if isinstance(session, str) or not isinstance(session, Iterable):
                raise InvalidInput(
                    f"a session must be a list of texts or arm ids; received {session!r}."
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
        """Save everything except open sessions to a folder. `open` restores the exact state."""
        write(self, path)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, encoder: EncodesTexts | None = None
    ) -> "Recommender":
        """Open a saved recommender. A custom encoder is not saved: pass it again."""
        return read(cls, path, encoder)
