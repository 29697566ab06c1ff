"""Protocol `stream`, as in a live system: sessions in order of time, one model that keeps learning.

The recommender is the served one, with the registered policies: warm-started on earlier sessions,
then driven by the scored ones. At each step the current query is the anchor, queries are
recommended, and the session's real next query is the answer. Accepted or typed, it runs next: the
current arm moves by the paper's rule. Either all arms may be recommended (``pool="all"``), or only
queries of earlier sessions (``pool="seen"``), but never a query that the session already ran.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import number, one_of, whole_number
from nextquery.errors import InvalidInput
from nextquery.loop import Visit
from nextquery.memory import Memory, SessionMemory
from nextquery.memory.memory import SESSIONS
from nextquery.outcomes import Learning
from nextquery.policies import RandomPolicy
from nextquery.policies.names import SERVED, has_size, selector_named
from nextquery.recommender import Recommender
from nextquery.replay.seeds import generator
from nextquery.replay.stream.contestants import LEARNING_OFF, WEIGHTS_OFF, Contestant, contestant
from nextquery.replay.stream.drive import Driver
from nextquery.replay.stream.session_rivals import RIVALS, Step
from nextquery.replay.work import Piece, Progress, Run, Work, label_of, run_missing
from nextquery.select import Candidates, Selector
from nextquery.sessions import Ids, Sessions
from nextquery.warm_start import WARM_SESSIONS, Span, Steps, warm_start

POOLS = ("seen", "all")
LONGEST = 20  # number of recommendations ranked at each step

STREAM_POLICIES = (
    SERVED,
    f"{SERVED}@{LEARNING_OFF}",
    f"{SERVED}@{WEIGHTS_OFF}",
    "lin-ucb-shared",
    f"lin-ucb-shared@{LEARNING_OFF}",
    "lin-ts",
    "most-similar-first",
    *RIVALS,
)


@dataclass(frozen=True)
class StreamOptions:
    """A stream and the recommenders that run on it.

    Parameters
    ----------
    sessions : number of sessions at the end of the log to score, at least 1.
    warm : number of sessions just before them for the policies' warm start, as in
        `Recommender.warm_start`. The memory and the rivals know all earlier sessions.
    policies : registered names, rivals, or variants (`replay.stream.contestants`).
    selection, k, epsilon, reading : how each step's candidates are selected.
    pool : ``seen`` for only queries of earlier sessions, or ``all``.
    shown : number of recommendations that users see, and can click, at a step, 1 to 20.
    repeat : whether a session may be shown the same query again; False, as served.
    exploration : share of entries that a learning policy draws uniformly, as served.
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
    repeat: bool = False
    exploration: float = 0.02

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
        self.selector()
        if not has_size(self.selection):
            raise InvalidInput(
                f"the stream needs a selection of k candidates; {self.selection!r} selects by "
                "threshold. Use max-utility, random or sampled."
            )

    def selector(self) -> Selector:
        """Return the selector of each step's candidates."""
        return selector_named(self.selection, k=self.k, epsilon=self.epsilon, reading=self.reading)

    @property
    def selecting(self) -> tuple[Any, ...]:
        """All options that determine the candidates."""
        first = (self.sessions, self.warm, self.selection, self.k, self.epsilon, self.reading)
        return (*first, self.pool, self.seed)


class Stream(NamedTuple):
    """The sessions in order of time, the first one scored, and the steps."""

    past: Sessions
    scored_from: int  # the first session that is scored
    steps: Steps

    @classmethod
    def of(cls, work: Work, options: StreamOptions) -> "Stream":
        """Return the last sessions of the data, starting with those of the warm start."""
        past = work.sessions.in_order_of_time()
        scored_from = max(0, past.size - options.sessions)
        start = max(0, scored_from - options.warm)
        return cls(past, scored_from, Steps.of(past, start, past.size, work.pool.rows_in_all))

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Which steps are scored."""
        return self.steps.owner >= self.scored_from

    @property
    def known(self) -> Sessions:
        """The sessions known when scoring starts; only the newest of a very long log, as served."""
        return self.past.take(np.arange(max(0, self.scored_from - SESSIONS), self.scored_from))

    def queries(self, session: int) -> list[int]:
        """Return the queries of a session."""
        queries: list[int] = self.past.of_number(session).tolist()
        return queries


def follow(
    work: Work,
    options: StreamOptions,
    run: Run,
    progress: Progress | None = None,
) -> tuple[Stream, dict[str, Ids]]:
    """Return the rank that each recommender gave the real next query at every scored step; 0: none.

    Selection does not depend on learning, so it runs first, for many steps at once.
    """
    stream = Stream.of(work, options)
    if not stream.scored.any():
        raise InvalidInput(
            f"none of the last {options.sessions} sessions has a next query. Use sessions of at "
            "least two queries, or score more of them."
        )
    batches = [_batch_piece(options, number) for number in stream.steps.batches()]
    run_missing(work, batches, _select, run, progress)
    pieces = {name: _policy_piece(options, name) for name in options.policies}
    run_missing(work, list(pieces.values()), _follow, run, progress)
    return stream, {name: work.load(piece)["ranks"] for name, piece in pieces.items()}


def _batch_piece(options: StreamOptions, number: int) -> Piece:
    label = label_of(["stream select", number])
    return Piece("stream", label, [*options.selecting, number])


def _policy_piece(options: StreamOptions, name: str) -> Piece:
    playing = (options.shown, options.repeat, options.exploration)
    return Piece("stream", label_of(["stream", name]), [*options.selecting, *playing, name])


def _options_of(values: Sequence[Any], **more: Any) -> StreamOptions:
    names = ("sessions", "warm", "selection", "k", "epsilon", "reading", "pool", "seed")
    return StreamOptions(policies=(), **dict(zip(names, values, strict=True)), **more)


def _select(work: Work, piece: Piece) -> None:
    *values, number = piece.options
    options = _options_of(values)
    recommender = Recommender(work.pool, options.selector(), RandomPolicy())
    rng = generator(options.seed, "stream selection", number)
    steps = Stream.of(work, options).steps
    selected = steps.select(recommender, number, seen=options.pool == "seen", rng=rng)
    work.keep(
        piece,
        {
            "arms": np.concatenate([candidates.arms for candidates in selected]),
            "similarities": np.concatenate([candidates.similarities for candidates in selected]),
            "sizes": np.array([len(candidates) for candidates in selected]),
        },
    )


def _follow(work: Work, piece: Piece) -> None:
    """Run one contestant through the stream."""
    *values, shown, repeat, exploration, name = piece.options
    options = _options_of(values, shown=shown, repeat=repeat, exploration=exploration)
    stream, entrant = Stream.of(work, options), contestant(name, options.seed)
    if entrant.rival:
        ranking = _rival(work, stream, options, entrant)
    else:
        ranking = _recommender(stream, *driver_of(work, stream, options, entrant))
    answers = stream.past.arms[stream.steps.places[stream.scored] + 1].tolist()
    ranks = [_rank_of(answer, slate) for answer, slate in zip(answers, ranking, strict=True)]
    work.keep(piece, {"ranks": np.array(ranks, np.int64)})


def _rival(
    work: Work, stream: Stream, options: StreamOptions, entrant: Contestant
) -> Iterator[Ids]:
    """Yield a rival's recommendations at every scored step."""
    assert entrant.rival is not None
    rival = RIVALS[entrant.rival](SessionMemory(stream.past))
    selections = _selections(work, stream, options, since=stream.scored_from)
    for session in range(stream.scored_from, stream.past.size):
        queries, before = stream.queries(session), int(stream.past.offsets[session])
        visit = Visit()
        for end in range(1, len(queries)):
            seen = () if options.repeat else visit.seen
            ranking = rival.rank(Step(before, queries[:end], next(selections), seen), LONGEST)
            yield ranking
            visit = visit.after(queries[end - 1], ranking[: options.shown].tolist())


def _recommender(stream: Stream, driver: Driver, selections: Iterator[Candidates]) -> Iterator[Ids]:
    """Yield the recommender's recommendations at every scored step; it learns as it goes."""
    for session in range(stream.scored_from, stream.past.size):
        for slate in driver.session(str(session), stream.queries(session), selections):
            yield np.array([choice.arm for choice in slate.choices], np.int64)


def driver_of(
    work: Work, stream: Stream, options: StreamOptions, entrant: Contestant
) -> tuple[Driver, Iterator[Candidates]]:
    """Return the warm-started recommender and an iterator over the scored steps' candidates."""
    assert entrant.policy is not None
    memory = Memory(stream.known) if entrant.policy.needs_memory else None
    rec = Recommender(
        work.pool,
        options.selector(),
        entrant.policy,
        exploration=options.exploration if entrant.explores else 0.0,
        seed=options.seed,
        memory=memory,
        repeat=options.repeat,
    )
    known = stream.known
    span = Span.of(known.size, newest=options.warm, memory=memory is not None)
    since = stream.scored_from - (span.end - span.first)
    past = _selections(work, stream, options, since=since)
    warm_start(rec, known, newest=options.warm, selections=past)
    driver = Driver(
        rec,
        Learning(),
        shown=options.shown,
        ranked=LONGEST,
        weights=entrant.weights,
        memory=entrant.memory,
    )
    return driver, past


def _selections(
    work: Work, stream: Stream, options: StreamOptions, *, since: int
) -> Iterator[Candidates]:
    """Yield the candidates of every step from session `since` on; the loop adds vectors if needed.

    The preferences are not those of the selection, but keep its order.
    """
    skip = int(np.count_nonzero(stream.steps.owner < since))
    for batch in stream.steps.batches():
        arrays = work.load(_batch_piece(options, batch))
        ends = np.cumsum(arrays["sizes"])
        for own in np.split(np.arange(ends[-1]), ends[:-1]):
            if skip:
                skip -= 1
                continue
            arms = arrays["arms"][own]
            no_vectors = np.empty((len(arms), 0), np.float32)
            in_order = np.arange(len(arms), 0, -1).astype(np.float64)
            yield Candidates(arms, no_vectors, arrays["similarities"][own], in_order)


def _rank_of(answer: int, slate: Ids) -> int:
    """Return the rank of the answer, from 1; 0 if it is not in the slate."""
    place = np.flatnonzero(slate == answer)
    return int(place[0]) + 1 if len(place) else 0
