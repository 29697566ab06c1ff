"""Protocol `stream`, what a live system meets: sessions in order of time, one model that learns on.

At each step the query now running is the anchor, m queries are recommended, and the session's real
next query is the answer. Accepted or typed, it runs next: the arm now playing moves by the paper's
rule. All arms may be recommended (``pool="all"``), or only queries that were asked in an earlier
session (``pool="seen"``), and never one that the session has asked already.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import one_of, whole_number
from nextquery.errors import InvalidInput
from nextquery.memory import SessionMemory, only_seen
from nextquery.replay.names import has_size, selector_named
from nextquery.replay.rankers import Step
from nextquery.replay.seeds import generator
from nextquery.replay.sessions import Ids
from nextquery.replay.stream_policies import (
    LEARNING_OFF,
    MEMORY,
    WEIGHTS_OFF,
    check_name,
    ranker_named,
)
from nextquery.replay.work import Piece, Progress, Run, Work, do, words_of
from nextquery.sessions import Sessions

POOLS = ("seen", "all")
LONGEST = 20  # how many recommendations are ranked at each step
_BATCH = 256  # steps selected for at once


STREAM_POLICIES = (
    "lin-ucb-memory",
    f"lin-ucb-memory@{LEARNING_OFF}",
    f"lin-ucb-memory@{WEIGHTS_OFF}",
    "lin-ucb-shared",
    f"lin-ucb-shared@{LEARNING_OFF}",
    "lin-ts",
    "most-similar",
    "popularity",
    "similarity-support",
    "n-gram",
)


@dataclass(frozen=True)
class StreamOptions:
    """A stream and the recommenders that run on it.

    Parameters
    ----------
    sessions : how many sessions, the last of the log, are scored; at least 1.
    warm : how many sessions just before them the bandits learn from without being scored. The
        rivals learn from all earlier sessions in any case: for them that is only counting.
    policies : names, see `nextquery.replay.stream_policies`.
    selection, k, epsilon, reading : how each step's candidates are selected.
    pool : ``seen``, only queries of earlier sessions; or ``all``.
    """

    sessions: int = 500
    warm: int = 500
    policies: Sequence[str] = STREAM_POLICIES
    selection: str = "max-utility"
    k: int = 250
    epsilon: float = 0.5
    reading: str = "example"
    pool: str = "seen"
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number(self.sessions, "sessions", at_least=1)
        whole_number(self.warm, "warm", at_least=0)
        one_of(self.pool, "pool", POOLS)
        for name in self.policies:
            check_name(name)
            if self.pool == "all" and name.partition("@")[0] == MEMORY:
                raise InvalidInput(
                    f"{name} cannot run with pool='all' (--arms all): it sees how often an arm was "
                    "asked, and an arm never asked before is one that is asked later. Use the arms "
                    "seen, or other policies."
                )
        selector_named(self.selection, k=self.k, epsilon=self.epsilon, reading=self.reading)
        if not has_size(self.selection):
            raise InvalidInput(
                f"the stream needs a selection of k candidates; {self.selection!r} selects by "
                "threshold. Use max-utility, random or sampled."
            )

    @property
    def selecting(self) -> tuple[Any, ...]:
        """All that decides the candidates."""
        wide = (self.sessions, self.warm, self.selection, self.k, self.epsilon, self.reading)
        return (*wide, self.pool, self.seed)


class Steps(NamedTuple):
    """The steps of a stream: where each stands in the row of sessions, and where it is scored."""

    past: Sessions
    session: Ids
    position: Ids
    scored_from: int  # the first session that is scored
    first_seen: Ids  # by arm: its first place in the row

    def history(self, step: int) -> list[int]:
        """The session up to the query now running."""
        start = self.past.offsets[self.session[step]]
        queries: list[int] = self.past.arms[start : self.position[step] + 1].tolist()
        return queries

    def before(self, step: int) -> int:
        """Up to where the log may be known."""
        return int(self.past.offsets[self.session[step]])

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Which steps count."""
        return self.session >= self.scored_from


def steps_of(work: Work, options: StreamOptions) -> Steps:
    """The steps of the last sessions, warm-up first."""
    past = work.sessions.in_order_of_time()
    count = past.size
    scored_from = max(0, count - options.sessions)
    begin = max(0, scored_from - options.warm)
    lengths = np.diff(past.offsets)
    session = np.repeat(np.arange(count), np.maximum(lengths - 1, 0))
    last = np.ones(len(past.arms), bool)
    last[past.offsets[1:][lengths > 0] - 1] = False
    position = np.flatnonzero(last)
    mine = session >= begin
    first_seen = np.full(work.pool.rows_in_all, len(past.arms))
    np.minimum.at(first_seen, past.arms, np.arange(len(past.arms)))
    return Steps(past, session[mine], position[mine], scored_from, first_seen)


def follow(
    work: Work,
    options: StreamOptions,
    run: Run,
    progress: Progress | None = None,
) -> tuple[Steps, dict[str, Ids]]:
    """The rank that each recommender gave the real next query at every scored step; 0: none.

    Selection does not depend on what is learnt, so it is done first, for many steps at once.
    """
    steps = steps_of(work, options)
    if not steps.scored.any():
        raise InvalidInput(
            f"none of the last {options.sessions} sessions has a next query. Give sessions of at "
            "least two queries, or ask for more of them."
        )
    do(work, _batches(steps, options), _select, run, progress)
    pieces = {name: _policy_piece(options, name) for name in options.policies}
    do(work, list(pieces.values()), _follow, run, progress)
    return steps, {name: work.load(piece)["ranks"] for name, piece in pieces.items()}


def _batches(steps: Steps, options: StreamOptions) -> list[Piece]:
    count = -(-len(steps.position) // _BATCH)
    return [_batch_piece(options, number) for number in range(count)]


def _batch_piece(options: StreamOptions, number: int) -> Piece:
    words = words_of(["stream select", number])
    return Piece("stream", words, [*options.selecting, number])


def _policy_piece(options: StreamOptions, name: str) -> Piece:
    return Piece("stream", words_of(["stream", name]), [*options.selecting, name])


def _options_of(piece: Piece) -> tuple[StreamOptions, Any]:
    sessions, warm, selection, k, epsilon, reading, pool, seed, what = piece.options
    chosen = {"selection": selection, "k": k, "epsilon": epsilon, "reading": reading}
    whom = {"sessions": sessions, "warm": warm, "policies": (), "pool": pool, "seed": seed}
    return StreamOptions(**whom, **chosen), what


def _select(work: Work, piece: Piece) -> None:
    options, number = _options_of(piece)
    steps = steps_of(work, options)
    mine = range(number * _BATCH, min((number + 1) * _BATCH, len(steps.position)))
    selector = selector_named(
        options.selection, k=options.k, epsilon=options.epsilon, reading=options.reading
    )
    now = steps.past.arms[steps.position[mine.start : mine.stop]]
    pool, hidden = work.pool, [np.array(steps.history(step), np.int64) for step in mine]
    if options.pool == "seen":
        pool, unseen = only_seen(pool, steps.first_seen, [steps.before(step) for step in mine])
        hidden = [np.union1d(own, new) for own, new in zip(hidden, unseen, strict=True)]
    rng = generator(options.seed, "stream selection", number)
    found = selector.select_many(pool, pool.rows(now), hidden, rng)
    sizes = np.array([len(candidates) for candidates in found])
    work.keep(
        piece,
        {
            "arms": np.concatenate([candidates.arms for candidates in found]),
            "similarities": np.concatenate([candidates.similarities for candidates in found]),
            "sizes": sizes,
        },
    )


def _follow(work: Work, piece: Piece) -> None:
    """Let one recommender go through the stream."""
    options, name = _options_of(piece)
    steps = steps_of(work, options)
    memory = SessionMemory(steps.past, work.pool.rows_in_all)
    frozen_at = int(steps.past.offsets[steps.scored_from])
    rng = generator(options.seed, name)
    ranker = ranker_named(name, work.pool, memory, frozen_at=frozen_at, rng=rng)
    scored, ranks = steps.scored, []
    for step in _steps(work, steps, options):
        slate = ranker.rank(step, LONGEST)
        if scored[step.number]:
            place = np.flatnonzero(slate == step.following)
            ranks.append(int(place[0]) + 1 if len(place) else 0)
        ranker.learn(step, slate)
    work.keep(piece, {"ranks": np.array(ranks, np.int64)})


def _steps(work: Work, steps: Steps, options: StreamOptions) -> Iterator[Step]:
    live = np.ones(work.pool.rows_in_all, bool)
    live[work.pool.removed] = False
    everything = options.pool == "all"
    for number, piece in enumerate(_batches(steps, options)):
        found = work.load(piece)
        ends = np.cumsum(found["sizes"])
        for at, end in enumerate(ends.tolist()):
            step = number * _BATCH + at
            own = slice(end - int(found["sizes"][at]), end)
            before = steps.before(step)
            yield Step(
                step,
                before,
                steps.history(step),
                int(steps.past.arms[steps.position[step] + 1]),
                found["arms"][own],
                found["similarities"][own],
                live if everything else live & (steps.first_seen < before),
            )
