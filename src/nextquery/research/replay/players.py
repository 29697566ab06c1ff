"""Players of a stream: drive the recommender or a rival through past sessions by the clock.

A rival ranks; the recommender also learns. The clock decides what is known at the start, what is
played, and what is scored. The step results describe every player, and the log itself.

Contestants have names: the recommender with any registered policy, and the rivals. A suffix
changes a recommender:

- ``…@learning=off`` stops learning when the stream starts.
- ``…@weights=off`` keeps its model from then on, but still remembers the sessions it sees.
- ``…@personal=off`` does not use a person's own past.
- ``…@at_least=0.05`` recommends only queries with this calibrated probability or more.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms import ArmPool
from nextquery.catalogue.catalogue import Place
from nextquery.checks import number, one_of, whole_number
from nextquery.errors import InvalidInput
from nextquery.learning import OPEN, Answered, Learning, Typed, after_feedback
from nextquery.loop import HISTORY, Loop, SessionState, Slate, check_schedule
from nextquery.memory import KINDS, Memory, Moment, SessionMemory, kind_of
from nextquery.memory.memory import SESSIONS
from nextquery.policies import MostSimilar, Policy, RandomPolicy
from nextquery.policies.registry import POLICIES, SERVED, joined, live_policy, schedule_named, split
from nextquery.recommender import Recommender
from nextquery.research.neural.serve import MovedAnchor, selection_named
from nextquery.research.replay.work import Work
from nextquery.research.rivals.registry import RIVALS, TRAINED, rival_class, rival_named
from nextquery.research.rivals.rival import Step
from nextquery.selection import Candidates, Schedule, Selector
from nextquery.sessions import Ids, Sessions
from nextquery.warm_start import WARM_SESSIONS, OneByOne, Steps, places_with_next, warm_start


class StreamSpan(NamedTuple):
    """Which part of the log to use; see `StreamOptions`."""

    sessions: int
    since: str | None
    warm: int
    until: str | None = None


class Stream(NamedTuple):
    """The whole log, and the places of its queries that play a part.

    `live` is every query since the start, in order of time, and `scored` are the steps whose answer
    counts. `known` is the log before the start; the places of its queries in the whole log are
    `known_places`. `steps` are the steps of the warm start and of `live`, in order of time.
    """

    past: SessionMemory
    start: float
    known: Sessions
    known_places: Ids
    warm: int
    live: Ids
    scored: Ids
    steps: Steps

    @classmethod
    def of(cls, sessions: Sessions, span: StreamSpan, arms: int) -> "Stream":
        """Return the stream of a log."""
        check_timed(sessions)
        if span.until is not None:
            sessions = sessions.before(unix_time(span.until, "until"))
        merged = sessions.without_repeats()
        _check_order(merged)
        past = SessionMemory(merged.in_order_of_time())
        asked = past.sessions.asked
        scored = _scored(past, span)
        start = float(asked[scored].min())
        live = np.flatnonzero(asked >= start)
        live = live[np.argsort(past.positions[live])]
        places = np.flatnonzero(asked < start)
        known = past.sessions.before(start)
        # Only the newest sessions of a very long log are remembered, as served.
        cut = int(known.offsets[max(0, known.size - SESSIONS)])
        known, places = known.newest(SESSIONS), places[cut:]
        earlier = Steps.newest(SessionMemory(known), span.warm, arms, memory=False)
        has_next = live[np.isin(live, places_with_next(past))]
        steps = Steps.of(past, np.concatenate([places[earlier.places], has_next]), arms)
        return cls(past, start, known, places, span.warm, live, scored, steps)

    def warm_places(self, *, memory: bool) -> Ids:
        """Return the places of the steps that a policy's warm start uses, with or without memory.

        With one, the first steps of the log only fill it.
        """
        steps = Steps.newest(self.known_past, self.warm, self.past.arms, memory=memory)
        return self.known_places[steps.places]

    @property
    def live_steps(self) -> Steps:
        """The steps since the start."""
        first = int(np.searchsorted(self.past.sessions.asked[self.steps.places], self.start))
        return self.steps.take(slice(first, None))

    @property
    def scored_steps(self) -> Ids:
        """The scored steps in order of time."""
        return self.steps.places[np.isin(self.steps.places, self.scored)]

    def session_of(self, places: Ids) -> Ids:
        """Return the number of the session of each place."""
        return np.searchsorted(self.past.sessions.offsets, places, side="right") - 1

    def people_of(self, places: Ids) -> Ids:
        """Return the number of the person of each place; without people, of its session."""
        sessions, people = self.session_of(places), self.past.sessions.people
        if not len(people):
            return sessions
        return np.where(people[sessions] < 0, people.max() + 1 + sessions, people[sessions])

    @property
    def known_past(self) -> SessionMemory:
        """What is known at the start, as a memory."""
        return SessionMemory(self.known)


def check_timed(sessions: Sessions) -> None:
    """Raise an error unless the time of every query is known."""
    if not sessions.timed:
        raise InvalidInput(
            "the stream goes by the clock, and this pool does not have the time of every query: it "
            "was made from a log without times. Make it again with nextquery ingest (--time names "
            "the column), or leave the stream out (--protocol anchored; in reproduce, --stream 0)."
        )


def _scored(past: SessionMemory, span: StreamSpan) -> Ids:
    """Return the steps whose answer is dated at or after the time that scoring starts."""
    rows = past.sessions
    places = places_with_next(past)
    if not len(places):
        raise InvalidInput(
            "no session of this log has a next query"
            + ("" if span.until is None else f" dated before {span.until}")
            + ", so there is nothing to score. Use sessions of at least two queries."
        )
    if span.since is not None:
        since = unix_time(span.since, "since")
    else:
        begun = np.sort(rows.asked[rows.offsets[:-1][rows.lengths > 1]])
        since = float(begun[max(0, len(begun) - span.sessions)])
    scored = places[rows.asked[places + 1] >= since]
    if not len(scored):
        newest = datetime.fromtimestamp(float(rows.asked.max()), UTC).date()
        raise InvalidInput(
            f"no next query is dated {span.since} or later; the newest query of this log"
            + ("" if span.until is None else f" before {span.until}")
            + f" is of {newest}. Pass an earlier date."
        )
    return scored


def _check_order(sessions: Sessions) -> None:
    """Refuse a session that goes back in time: its next query would be known too early."""
    within = np.ones(len(sessions.arms), bool)
    within[sessions.offsets[:-1][sessions.lengths > 0]] = False
    back = np.flatnonzero(within[1:] & (np.diff(sessions.asked) < 0))
    if len(back):
        session = int(np.searchsorted(sessions.offsets, back[0], side="right")) - 1
        raise InvalidInput(
            f"session {session} goes back in time: {sessions.of_number(session).tolist()[:5]} was "
            "asked in another order. Pass the queries of a session in order of time, as ingest "
            "writes them."
        )


def unix_time(date: str, name: str) -> float:
    """Return the Unix time of a date, in UTC unless it names its own zone.

    >>> unix_time("1970-01-02", "since")
    86400.0
    """
    try:
        time = datetime.fromisoformat(date)
    except ValueError:
        raise InvalidInput(f"{name} must be a date like 2018-01-01; received {date!r}.") from None
    return (time.replace(tzinfo=UTC) if time.tzinfo is None else time).timestamp()


LEARNING_OFF, WEIGHTS_OFF, PERSONAL_OFF = "learning=off", "weights=off", "personal=off"


class Contestant(NamedTuple):
    """A rival, or a policy and what it may learn while it is scored."""

    rival: str | None
    policy: Policy | None = None
    weights: bool = True
    memory: bool = True
    personal: bool = True
    at_least: float = 0.0

    @property
    def uses_selection(self) -> bool:
        """Whether it depends on the selected candidates."""
        return self.rival is None or rival_class(self.rival).uses_selection

    @property
    def half_life(self) -> float | None:
        """The half-life of its policy, in days; its memory has the same."""
        return None if self.policy is None else self.policy.get_params().get("half_life")

    @property
    def learns(self) -> bool:
        """Whether its policy learns, so that exploration can help."""
        return self.policy is not None and not isinstance(self.policy, MostSimilar | RandomPolicy)


def contestant(name: str, seed: int = 0) -> Contestant:
    """Return the contestant with a name, or raise an error that lists the valid names.

    >>> contestant("lin-ucb-memory@weights=off").memory, contestant("n-gram").rival
    (True, 'n-gram')
    """
    plain, parameters = split(name)
    one_of(plain, "policy", (*POLICIES, *RIVALS, *TRAINED))
    if plain in RIVALS or plain in TRAINED:
        rival_named(name, Sessions.of([]))  # raises if it has no such variant
        return Contestant(name)
    switches = ("learning", "weights", "personal")
    off = [key for key in switches if parameters.get(key) == "off"]
    least = number(parameters.get("at_least", 0.0), f"at_least in {name!r}", low=0, high=1)
    kept = {key: value for key, value in parameters.items() if key not in (*off, "at_least")}
    policy = live_policy(joined(plain, kept), seed=seed)
    return Contestant(
        None,
        policy,
        weights="weights" not in off and "learning" not in off,
        memory="learning" not in off,
        personal="personal" not in off,
        at_least=least,
    )


class Played(NamedTuple):
    """A step: the place of its query in the row of sessions, what was ranked, and the forecast."""

    place: int
    slate: Slate
    likely: list[tuple[int, float]]


class _Open(NamedTuple):
    """A slate whose next query is not known yet."""

    slate: Slate
    time: float


class Driver:
    """Plays past sessions to a loop as live users would, in order of time.

    An answer that is in the slate counts as a click, any other as typed. The loop learns from it by
    the rule of `nextquery.learning`, exactly as in a library session or the service: before the
    next slate of the session. Sessions that ask at the same time do not know of each other: each
    knows only its own answer, until all have been ranked.

    Parameters
    ----------
    loop : recommends and learns; its memory knows the log up to the start.
    past : the sessions of the whole log.
    learning : the options of the rule.
    shown : number of entries of a ranking that users see, at least 1.
    ranked : number of entries to rank and to forecast, for scoring; at least `shown`.
    weights, memory : whether the policy learns from outcomes, and the memory from sessions.
    people : the names of the people of the log; empty if nobody has a past of their own.
    only : rank only at these places, because nothing depends on the other slates; None: at all.
    select : selects for the query at a place in a session, if its candidate set is kept or depends
        on what it was shown; without it, the candidates are known before.
    """

    def __init__(
        self,
        loop: Loop,
        past: SessionMemory,
        learning: Learning,
        *,
        shown: int,
        ranked: int,
        weights: bool = True,
        memory: bool = True,
        people: tuple[str, ...] = (),
        only: Ids | None = None,
        select: Callable[[int, SessionState], Candidates] | None = None,
    ) -> None:
        self.loop, self.past, self.learning = loop, past, learning
        self.shown, self.ranked = shown, max(shown, ranked)
        self.weights, self.memory, self.people = weights, memory, people
        self._only = None if only is None else frozenset(only.tolist())
        self._select = select
        self._states: dict[int, SessionState] = {}
        self._open: dict[int, _Open] = {}

    def play(self, places: Ids, selections: Iterator[Candidates]) -> Iterator[Played]:
        """Play the queries at these places, which are in order of time; yields every step.

        `selections` yields the candidates of each step that is ranked, unless `select` does.
        """
        times = self.past.sessions.asked[places]
        owners = np.searchsorted(self.past.sessions.offsets, places, side="right") - 1
        cuts = np.flatnonzero(np.diff(times)) + 1
        for group in np.split(np.arange(len(places)), cuts):
            at_once = zip(places[group].tolist(), owners[group].tolist(), strict=True)
            yield from self._play_at_once(list(at_once), selections)

    def _play_at_once(
        self, queries: list[tuple[int, int]], selections: Iterator[Candidates]
    ) -> Iterator[Played]:
        """Play queries of the same time, each a place and its session."""
        sessions = self.past.sessions
        alone = len({session for _, session in queries}) == 1
        models: dict[int, Policy] = {}  # of a session: the policy that has learnt its own answers
        answers: list[tuple[_Open, int]] = []
        asked: list[tuple[Place, SessionState]] = []
        for place, session in queries:
            time, last = float(sessions.asked[place]), place + 1 == sessions.offsets[session + 1]
            state = self._states.pop(session, None) or self._first_state(session, place)
            query = self.loop.catalogue.place_of(int(sessions.arms[place]))
            opened, shown = self._open.pop(session, None), list[int]()
            if opened is not None and alone:
                self._learn(opened, int(sessions.arms[place]))
            elif opened is not None:
                model = models.pop(session, None) or deepcopy(self.loop.policy)
                models[session] = model
                with self._using(model):
                    self._learn(opened, int(sessions.arms[place]))
                answers.append((opened, int(sessions.arms[place])))
            if last:
                pass
            elif self._only is not None and place not in self._only:
                self._states[session] = state.after(query.arm, ())
            else:
                selected = self._select(place, state) if self._select else next(selections)
                with self._using(models.get(session, self.loop.policy)):
                    slate = self._rank(query, state, selected, time)
                    likely = self.loop.model_state.likeliest(
                        slate.candidates, slate.context, self.ranked
                    )
                yield Played(place, slate, likely)
                seen = slate._replace(choices=slate.choices[: self.shown])
                shown = [choice.arm for choice in seen.choices]
                kept = self.loop.kept(query, state, selected)
                self._states[session] = state.after(query.arm, shown, kept=kept)
                if self.weights:
                    self._open[session] = _Open(seen, time)
            asked.append((query, state))
        for opened, arm in answers:
            self._learn(opened, arm)
        for query, state in asked if self.memory else ():
            self.loop.asked(query, state, time)

    @contextmanager
    def _using(self, policy: Policy) -> Iterator[None]:
        """Rank and learn with another policy."""
        model_state = self.loop.model_state
        usual, model_state.policy = model_state.policy, policy
        try:
            yield
        finally:
            model_state.policy = usual

    def _first_state(self, session: int, place: int) -> SessionState:
        """Return the state of a session that may have begun before the start."""
        sessions = self.past.sessions
        begin = int(sessions.offsets[session])
        history = tuple(sessions.arms[max(begin, place - HISTORY) : place].tolist())
        number = int(sessions.people[session]) if len(sessions.people) else -1
        person = self.people[number] if 0 <= number < len(self.people) else None
        previous = history[-1] if history else None
        return SessionState(history, (), place - begin, person, previous, str(session))

    def _rank(self, query: Place, state: SessionState, selected: Candidates, time: float) -> Slate:
        rng = self.loop.draws(state.session, state.trial + 1)
        return self.loop.rank(query, state, selected, self.ranked, rng, Moment(time))

    def _learn(self, opened: _Open, following: int) -> None:
        """Learn that this query came after a slate."""
        slate = opened.slate
        arms = [choice.arm for choice in slate.choices]
        _, outcome = after_feedback(
            OPEN,
            arms,
            accepted=following if following in arms else None,
            typed=Typed(following),
            learning=self.learning,
        )
        success = self.loop.success(following, slate.choices, slate.candidates, slate.context)
        new = Answered(outcome.rewards, outcome.full, success)
        old = Answered(OPEN.rewards)
        self.loop.model_state.learn(slate.choices, slate.failures, old, new, opened.time)


POOLS = ("seen", "all")
LONGEST = 20  # number of recommendations ranked at each step

STREAM_POLICIES = (
    SERVED,
    f"{SERVED}@{PERSONAL_OFF}",
    f"{SERVED}@{LEARNING_OFF}",
    f"{SERVED}@{WEIGHTS_OFF}",
    "lin-ucb-shared",
    "most-similar-first",
    *RIVALS,
)


@dataclass(frozen=True)
class StreamOptions:
    """A stream and the recommenders that run on it.

    Parameters
    ----------
    sessions : score the answers since the newest `sessions` sessions with a next query began.
    since : score the answers since this date (``2018-01-01``) instead.
    until : leave out everything dated at or after this date, as if the log ended there.
    warm : number of newest sessions before the start for the policies' warm start, as in
        `Recommender.warm_start`. The memory and the rivals know everything dated earlier.
    policies : registered names, rivals, or variants (`replay.stream.contestants`).
    selection, k, epsilon, reading : how each step's candidates are selected.
    schedule : ``none``, or how a session's candidate set grows (Algorithm 2), like ``bump`` or
        ``power@beta=1``: it is then kept from query to query. Rivals get k candidates anyway.
    pool : ``seen`` for only queries asked before, or ``all``.
    shown : number of recommendations that users see, and can click, at a step, 1 to 20.
    repeat : whether a session may be shown the same query again; as served by default.
    returns : whether a session's own earlier queries may be recommended; False, as served. Pass
        True to score what a forecast would contain.
    exploration : share of entries that a learning policy draws uniformly, as served.
    anchor : the content of the model that moves the anchors of the selection, since another model
        at the same path selects other candidates; always set by itself.
    """

    sessions: int = 500
    warm: int = WARM_SESSIONS
    policies: Sequence[str] = STREAM_POLICIES
    selection: str = "max-utility"
    k: int = 250
    epsilon: float = 0.5
    reading: str = "example"
    pool: str = "seen"
    seed: int = 0
    shown: int = 10
    repeat: bool = True
    returns: bool = False
    exploration: float = 0.02
    since: str | None = None
    schedule: str = "none"
    until: str | None = None
    anchor: str = ""

    def __post_init__(self) -> None:
        whole_number(self.sessions, "sessions", at_least=1)
        whole_number(self.warm, "warm", at_least=0)
        one_of(self.pool, "pool", POOLS)
        number(self.exploration, "exploration", low=0, high=1)
        if whole_number(self.shown, "shown", at_least=1) > LONGEST:
            raise InvalidInput(f"shown must be at most {LONGEST}; received {self.shown}.")
        for name in self.policies:
            policy = contestant(name).policy
            if self.pool == "all" and policy is not None and policy.needs_memory:
                raise InvalidInput(
                    f"{name} cannot run with pool='all' (--arms all): it sees how often an arm was "
                    "asked, and an arm never asked before must be one that is asked later. Use "
                    "--arms seen, or other policies."
                )
        selector = self.selector()
        check_schedule(selector, self.growth())
        if isinstance(selector, MovedAnchor):
            object.__setattr__(self, "anchor", selector.identity)

    def selector(self) -> Selector:
        """Return the selector of each step's candidates."""
        return selection_named(self.selection, k=self.k, epsilon=self.epsilon, reading=self.reading)

    def growth(self) -> Schedule | None:
        """Return how the candidate set of a session grows; None if each query has its own."""
        return schedule_named(self.schedule, k=self.k)

    @property
    def kept(self) -> bool:
        """Whether a session's candidates are kept, so that they depend on its earlier queries."""
        return self.growth() is not None

    @property
    def selecting(self) -> dict[str, Any]:
        """All options that determine the candidates."""
        names = ("selection", "k", "epsilon", "reading", "pool", "seed")
        anchor = {"anchor": self.anchor} if self.anchor else {}
        return {**self.span._asdict(), **{name: getattr(self, name) for name in names}, **anchor}

    @property
    def playing(self) -> dict[str, Any]:
        """All options that determine what a contestant does."""
        names = ("shown", "repeat", "returns", "exploration", "schedule")
        return {**self.selecting, **{name: getattr(self, name) for name in names}}

    @property
    def span(self) -> StreamSpan:
        """Which part of the log is played and scored."""
        return StreamSpan(self.sessions, self.since, self.warm, self.until)


ANSWERS = ("own", "return", "others", "new")
"""Where an answer was before, by the clock; a new one cannot be foreseen."""


class StepResult(NamedTuple):
    """What a contestant did at the step at a place; see `StepResults`."""

    place: int
    rank: int
    covered: bool
    kind: int
    offered: int
    forecast_rank: int
    probabilities: Sequence[float]


class StepResults(NamedTuple):
    """One contestant at every scored step.

    Parameters
    ----------
    ranks : rank of the answer among the queries offered; 0: not among the first 20.
    covered : whether it was a candidate.
    kinds : of which kind (-1: none; see `memory.KINDS`).
    offered : how many queries were offered, at most 20.
    forecast_ranks : rank of the answer in the forecast; 0: not among the 20 likeliest.
    probabilities : of each query of the forecast, one step after the other. A rival forecasts what
        it offers, and its shares stand in for probabilities.
    forecast_sizes : how many queries the forecast of each step has.
    """

    ranks: Ids
    covered: NDArray[np.bool_]
    kinds: Ids
    offered: Ids
    forecast_ranks: Ids
    probabilities: NDArray[np.float32]
    forecast_sizes: Ids

    @classmethod
    def of(cls, rows: Iterable[StepResult]) -> "StepResults":
        """Collect the steps."""
        steps = list(rows)
        table = np.array([step[1:6] for step in steps], np.int64).reshape(-1, 5)
        likely = [step.probabilities for step in steps]
        return cls(
            table[:, 0],
            table[:, 1] > 0,
            table[:, 2],
            table[:, 3],
            table[:, 4],
            np.array([value for row in likely for value in row], np.float32),
            np.array([len(row) for row in likely], np.int64),
        )


def answers_by_kind(past: SessionMemory, places: Ids) -> Ids:
    """Return where the answer of each step was before, as a number of `ANSWERS`.

    ``return``: earlier in the same session; else ``own``: in another session of the same person;
    else ``others``: in any session; else ``new``. All dated before the current query.
    """
    sessions, known = past.sessions, past.known_at(places)
    arms, answers = sessions.arms, places + 1
    session = np.repeat(np.arange(sessions.size), sessions.lengths)
    people = sessions.people[session] if len(sessions.people) else np.full(len(arms), -1)
    place = np.arange(len(arms))
    returned = _first(session, arms, place)[answers] <= places
    own = (people[answers] >= 0) & (_first(people, arms, past.positions)[answers] < known)
    asked = _first(np.zeros_like(arms), arms, past.positions)[answers] < known
    kinds = [ANSWERS.index(kind) for kind in ("return", "own", "others")]
    return np.select([returned, own, asked], kinds, ANSWERS.index("new"))


def _first(groups: Ids, arms: Ids, when: Ids) -> Ids:
    """Return, for every query, when its arm was first asked in its group.

    >>> _first(np.array([0, 0, 1]), np.array([7, 7, 7]), np.array([5, 3, 4])).tolist()
    [3, 3, 4]
    """
    order = np.lexsort((when, arms, groups))
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(groups[order]) != 0) | (np.diff(arms[order]) != 0)
    first = np.empty_like(when)
    first[order] = when[order][new][np.cumsum(new) - 1]
    return first


Selections = Iterator[Candidates]


def ranked_steps(stream: Stream, options: StreamOptions, entrant: Contestant) -> Steps:
    """Return the steps at which a contestant must rank: those whose slates matter.

    All, if it learns from them, does not show a query again or keeps the candidates of a session;
    otherwise only the scored ones.
    """
    steps = stream.live_steps
    goes_on = not options.repeat or options.kept
    if goes_on or (entrant.weights and entrant.learns):
        return steps
    wanted = np.isin(steps.places, stream.scored)
    return steps._replace(places=steps.places[wanted], known=steps.known[wanted])


def play_rival(
    stream: Stream,
    options: StreamOptions,
    entrant: Contestant,
    selections: Selections,
    *,
    pool: ArmPool | None = None,
) -> Iterator[StepResult]:
    """Yield what a rival did at `ranked_steps`; `selections` are their candidates.

    `pool` is for rivals that need one.
    """
    assert entrant.rival is not None
    rival, past = rival_named(entrant.rival, stream.past, pool=pool), stream.past
    row, offsets = past.sessions.arms, past.sessions.offsets
    states: dict[int, SessionState] = {}
    accepted: dict[int, list[int]] = {}
    steps = ranked_steps(stream, options, entrant)
    for at, place in enumerate(steps.places.tolist()):
        session = int(np.searchsorted(offsets, place, side="right")) - 1
        begin, state = int(offsets[session]), states.get(session, SessionState())
        moment, history = steps.moment(at), row[begin : place + 1].tolist()
        seen = [] if options.repeat else [arm for arm in state.seen if arm not in history]
        step = Step(
            before=moment.before or 0,
            time=moment.time,
            history=history,
            selected=next(selections),
            hidden=seen,
            returns=options.returns,
            session=session,
            unseen=options.pool == "all",
            accepted=accepted.get(session, ()),
        )
        arms, shares, candidates = rival.ranking(step, LONGEST)
        ranking, answer = arms.tolist(), int(row[place + 1])
        rank, covered = _rank_of(answer, ranking), bool((candidates == answer).any())
        yield StepResult(place, rank, covered, -1, len(ranking), rank, shares.tolist())
        states[session] = state.after(history[-1], ranking[: options.shown])
        if answer in ranking[: options.shown]:
            accepted.setdefault(session, []).append(answer)


def play_recommender(
    work: Work,
    stream: Stream,
    options: StreamOptions,
    entrant: Contestant,
    warm: Selections,
    live: Selections,
) -> Iterator[StepResult]:
    """Yield what the recommender did at `ranked_steps`; it learns as it goes.

    `warm` and `live` are the candidates of `Stream.warm_places` and of those steps, unless they
    depend on the session (`StreamOptions.kept`).
    """
    driver = driver_of(work, stream, options, entrant, warm)
    row = stream.past.sessions.arms
    for place, slate, likely in driver.play(stream.live, live):
        answer, arms = int(row[place + 1]), [choice.arm for choice in slate.choices]
        found = np.flatnonzero(slate.candidates.arms == answer)
        kind = -1
        if len(found):
            features = slate.candidates.features
            known = "similar" if features is None else kind_of(features[found[0]])
            kind = KINDS.index(known)
        forecast = [arm for arm, _ in likely]
        yield StepResult(
            place,
            _rank_of(answer, arms),
            bool(len(found)),
            kind,
            len(arms),
            _rank_of(answer, forecast),
            [probability for _, probability in likely],
        )


def driver_of(
    work: Work,
    stream: Stream,
    options: StreamOptions,
    entrant: Contestant,
    warm: Selections | None,
) -> Driver:
    """Return the recommender, warm-started on the stream's steps before the start.

    `warm` are the candidates of `Stream.warm_places`, unless they are kept; None: it selects them.
    """
    assert entrant.policy is not None
    people = work.people if entrant.personal else ()
    memory = None
    if entrant.policy.needs_memory:
        memory = Memory(stream.known, names=people, half_life=entrant.half_life)
    rec = Recommender(
        work.pool,
        options.selector(),
        entrant.policy,
        exploration=options.exploration if entrant.learns else 0.0,
        seed=options.seed,
        memory=memory,
        repeat=options.repeat,
        returns=options.returns,
        recommend_at_least=entrant.at_least,
        schedule=options.growth(),
    )
    past, seen = stream.known_past if memory is None else memory.past, options.pool == "seen"
    known = None if options.kept else warm
    warm_start(rec, past, newest=options.warm, selections=known, seen=seen)
    rec.looks_further &= not seen  # the whole pool has arms that are asked later
    steps = ranked_steps(stream, options, entrant)
    one_by_one = OneByOne(rec, steps, seen=seen)
    number = {place: at for at, place in enumerate(steps.places.tolist())}

    def select(place: int, state: SessionState) -> Candidates:
        return one_by_one(number[place], state)

    return Driver(
        rec,
        stream.past,
        Learning(),
        shown=options.shown,
        ranked=LONGEST,
        weights=entrant.weights,
        memory=entrant.memory,
        people=people,
        only=steps.places,
        select=select if options.kept else None,
    )


def _rank_of(answer: int, ranking: Sequence[int]) -> int:
    """Return the rank of the answer, from 1; 0 if it is not in the ranking."""
    return list(ranking).index(answer) + 1 if answer in ranking else 0
