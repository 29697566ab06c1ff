"""Algorithm 1 of the paper: the closed loop of recommending, being accepted or not, and learning.

A `Recommender` holds what all sessions share: the pool, the selector, the policy and the
generator. A `Session` (in `nextquery.session`) is one person's way through it.
"""

import os
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from nextquery import folders
from nextquery.arms.pool import ArmPool
from nextquery.checks import number, whole_number
from nextquery.encode.base import Encoder
from nextquery.errors import InvalidInput
from nextquery.params import class_named, generator_from, generator_state
from nextquery.policies.base import Context, Policy
from nextquery.select.base import Selector, refuse_partial
from nextquery.select.schedule import Bump, Power, Schedule
from nextquery.session import Place, Session
from nextquery.vectors import unit_rows

KIND, VERSION = "nextquery recommender", 1
_STEPS = 256  # steps of past sessions selected for at once


class EncodesTexts(Protocol):
    """Anything that turns texts into vectors."""

    def encode(self, texts: Sequence[str], /) -> ArrayLike:
        """One row per text."""


class _Step(NamedTuple):
    """A step of a past session: what ran, what came next, what came before."""

    now: Place
    following: int | None
    history: tuple[int, ...]
    trial: int


class Recommender:
    """Recommends the next query and learns from what becomes of it.

    Parameters
    ----------
    pool : the arms.
    selector : how the candidates are selected.
    policy : how one of them is chosen.
    encoder : gives queries that are not arms a vector; by default the pool's own. Without any,
        only arms can be queries.
    schedule : how the candidate set grows with the trials (Algorithm 2); without one it has the
        selector's k arms from the start.
    exploration : share of recommendations drawn uniformly from the candidates, in [0, 1].
    seed : of every random draw.
    reselect : whether the candidate set is built anew when the query now running changes. By
        default it is without a schedule; with one it is kept and grows, as in the paper.
    repeat : whether a session may be recommended a query that it was shown or ran before.
    add_arms : whether a query never seen before becomes a new arm.

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
        *,
        reselect: bool | None = None,
        repeat: bool = False,
        add_arms: bool = False,
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
        self.pool, self.selector, self.policy = pool, selector, policy
        self.encoder = pool.encoder if encoder is None else encoder
        self.schedule = schedule
        self.exploration = number(exploration, "exploration", low=0, high=1)
        self.seed = whole_number(seed, "seed", at_least=0)
        self.reselect, self.repeat, self.add_arms = reselect, repeat, add_arms
        self.rng = np.random.default_rng(self.seed)
        self.sessions_started = 0

    @property
    def reselects(self) -> bool:
        """Whether a new anchor gets a new candidate set."""
        return self.schedule is None if self.reselect is None else self.reselect

    def start(self, query: str) -> "Session":
        """Begin a session with its initial query."""
        place = self.place(query)
        self.sessions_started += 1
        return Session(self, f"s{self.sessions_started}", place)

    def place(self, query: str) -> Place:
        """Where a query stands: an arm, or a text the encoder gives a vector."""
        if not isinstance(query, str) or not query.strip():
            raise InvalidInput(f"a query must be a text that is not empty; received {query!r}.")
        arm = self.pool.find(query)
        if arm is not None:
            return Place(query, arm, self.pool.rows([arm])[0])
        origin = self.pool.origin
        text = query if origin is None else origin.clean(query).text
        if self.encoder is None:
            raise InvalidInput(
                f"{query[:80]!r} is not an arm of the pool, and this recommender has no encoder "
                "to give it a vector. Pass encoder=, or ask with the text of an arm."
            )
        rows = unit_rows(
            self.encoder.encode([text]), what="encoded query", dim=self.pool.dim, allow_zero=True
        )
        if self.add_arms and rows.any():
            arm = int(self.pool.add([text], rows)[0])
        return Place(query, arm, rows[0])

    def warm_start(self, sessions: Iterable[Iterable[str | int]]) -> int:
        """Learn from past sessions, given as texts or arm ids, before the first user comes.

        At every step the query that really came next is a success of that arm, if it was among
        the candidates, and what the policy would have shown instead is a failure. Returns how
        many successes were learnt.
        """
        successes, steps = 0, list[_Step]()
        for session in sessions:
            steps.extend(self._steps(session))
            while len(steps) >= _STEPS:
                successes += self._learn_steps(steps[:_STEPS])
                del steps[:_STEPS]
        return successes + self._learn_steps(steps)

    def _steps(self, session: Iterable[str | int]) -> list["_Step"]:
        places = [self._past_place(query) for query in session]
        steps = []
        for trial, (now, following) in enumerate(pairwise(places), start=1):
            history = tuple(p.arm for p in places[: trial - 1] if p and p.arm is not None)
            if now is not None and following is not None:
                steps.append(_Step(now, following.arm, history, trial))
        return steps

    def _past_place(self, query: str | int) -> Place | None:
        """Where a query of the log stands; None if it is no arm and nothing can encode it."""
        if not isinstance(query, str):
            return Place("", int(query), self.pool.rows([query])[0])
        if self.encoder is None and self.pool.find(query) is None:
            return None
        return self.place(query)

    def _learn_steps(self, steps: Sequence["_Step"]) -> int:
        if not steps:
            return 0
        matrix = np.stack([step.now.vector for step in steps])
        hidden = [self.hidden(step.now, step.history) for step in steps]
        successes = 0
        many = self.selector.select_many(self.pool, matrix, hidden, self.rng)
        refuse_partial(max((one.missing for one in many), default=0))  # it stays in the policy
        for candidates, step in zip(many, steps, strict=True):
            context = Context(step.now.vector, step.history, step.trial)
            shown = self.policy.choose(candidates, context, self.rng)
            if shown is not None and shown.arm != step.following:
                self.policy.update(shown, 0.0)
            real = self.policy.as_choice(candidates, context, step.following)
            if real is not None:
                self.policy.update(real, 1.0)
                successes += 1
        return successes

    def hidden(self, anchor: Place, seen: Iterable[int]) -> list[int]:
        """The arms not to be recommended now: the query running, and what was seen before."""
        now = [] if anchor.arm is None else [anchor.arm]
        return now if self.repeat else sorted({*now, *seen})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything but the open sessions to a folder, from which `open` goes on exactly."""
        encoder = self.encoder if isinstance(self.encoder, Encoder) else None
        parts = {**self.pool.parts(), "policy.npz": self.policy.state()}
        if encoder is not self.pool.encoder:
            others = {name: part for name, part in parts.items() if name[:8] != "encoder_"}
            parts = {**others, **({} if encoder is None else encoder.parts())}
        meta: dict[str, Any] = {
            **self.pool.meta(),
            "selector": _described(self.selector),
            "selector_generator": generator_state(self.selector.generator),
            "policy": type(self.policy).__name__,
            "schedule": None if self.schedule is None else _described(self.schedule),
            "options": {name: getattr(self, name) for name in _OPTIONS},
            "generator": generator_state(self.rng),
            "sessions_started": self.sessions_started,
            "encoder": None if encoder is None else encoder.meta(),
            "needs_encoder": self.encoder is not None and encoder is None,
        }
        folders.write(path, kind=KIND, version=VERSION, parts=parts, meta=meta)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, encoder: EncodesTexts | None = None
    ) -> "Recommender":
        """Go on where `save` left off. An encoder of your own is not saved: pass it again."""
        folder = folders.read(path, kind=KIND, version=VERSION)
        meta = folder.meta
        if encoder is None and meta["needs_encoder"]:
            raise InvalidInput(
                f"{path} was saved with an encoder that is not nextquery's own and so is not in "
                "the folder. Pass it again: Recommender.open(path, encoder=...)."
            )
        selector = class_named(Selector, meta["selector"]["class"])(**meta["selector"]["params"])
        selector.generator = generator_from(meta["selector_generator"])
        schedule = None if meta["schedule"] is None else _schedule(meta["schedule"])
        policy = class_named(Policy, meta["policy"]).from_state(folder.arrays("policy.npz"))
        options = meta["options"]
        self = cls(ArmPool.of(folder), selector, policy, encoder, schedule, **options)
        self.rng = generator_from(meta["generator"])
        self.sessions_started = meta["sessions_started"]
        return self


_OPTIONS = ("exploration", "seed", "reselect", "repeat", "add_arms")


def _described(thing: Any) -> dict[str, Any]:
    return {"class": type(thing).__name__, "params": thing.get_params()}


def _schedule(described: dict[str, Any]) -> Schedule:
    known: dict[str, type[Bump] | type[Power]] = {"Bump": Bump, "Power": Power}
    return known[described["class"]](**described["params"])
