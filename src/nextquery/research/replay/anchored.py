"""The paper's protocol `anchored`: fixed anchors, fixed candidates, a new policy for each.

The anchor is the first query of a sampled session. Its candidate set is selected once and shared
by every policy. Then T rounds are played. The reward is 1 if the arm played is among the
session's next queries.

The array engine plays the rounds of every anchor in compiled code, with the library's results. It
only *reads* a policy object: its class and parameters select the kernel. A policy without a
kernel plays round by round in Python. Each anchor has its own generator, made from (seed, policy,
anchor), so an anchor plays the same arms wherever it runs. The tests compare every kernel with
`Policy.choose`.

A kernel plays all rounds of one anchor. It does what the policy does, in the same order and with
the same random numbers. `uniforms` and `normals` contain the draws of the anchor's generator.
`sizes[t]` is the number of candidates (best first) that may be played in round t, so a set can
grow (Algorithm 2). Kernels are compiled on first use: importing this module costs nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.pool import ArmPool
from nextquery.policies import (
    Context,
    FeedbackUCB,
    LinTS,
    LinUCB,
    MostSimilar,
    Policy,
    RandomPolicy,
)
from nextquery.policies.lin_ucb import TIE
from nextquery.policies.registry import policy_named
from nextquery.research.replay.cells import (
    Anchors,
    Cell,
    Ids,
    Setting,
    draw_anchors,
    generator,
    recorded_rounds,
)
from nextquery.research.replay.work import Piece, Progress, Run, Work, label_of, run_missing
from nextquery.selection import Candidates, Selector
from nextquery.selection.schedule import Schedule, Sizes
from nextquery.sessions import Sessions
from nextquery.vectors import compiled

_BATCH = 128  # anchors selected at once; fixed, because every batch has its own generator
_WIDE_BATCH = 8  # the same for thresholds, which may select half the pool with its vectors


class CandidateSets(NamedTuple):
    """Set i is ``arms[offsets[i]:offsets[i + 1]]``, best first by (−preference, id).

    `targets` marks the arms that earn a reward when recommended.
    """

    arms: Ids
    offsets: Ids
    targets: NDArray[np.bool_]

    def covered(self, at_most: int | None = None) -> NDArray[np.bool_]:
        """Which anchors have a target (among their first `at_most` arms).

        The others cost 1 in every round.
        """
        sizes = np.diff(self.offsets)
        index = np.arange(len(self.arms)) - np.repeat(self.offsets[:-1], sizes)
        within = self.targets if at_most is None else self.targets & (index < at_most)
        counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(within)])
        return np.diff(counts[self.offsets]) > 0

    def floor(self) -> float:
        """1 − coverage: the lowest per-round regret that any policy can reach."""
        return 1.0 - float(np.mean(self.covered()))


def select_sets(
    pool: ArmPool, sessions: Sessions, anchors: Anchors, selector: Selector, seed: int
) -> CandidateSets:
    """Select the candidate set of every anchor, without its own arm, in batches over the pool.

    >>> from nextquery import MaxUtility
    >>> pool = ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [3, 1], [0, 1]])
    >>> past = Sessions(np.array([0, 1]), np.array([0, 2]), np.zeros(1))
    >>> anchors = Anchors(np.array([0]), np.array([0]))
    >>> sets = select_sets(pool, past, anchors, MaxUtility(k=2), seed=0)
    >>> sets.arms.tolist(), sets.targets.tolist(), sets.floor()
    ([1, 2], [True, False], 0.0)
    """
    batch = _BATCH if selector.k is not None else _WIDE_BATCH
    chosen: list[Ids] = []
    for start in range(0, len(anchors.arms), batch):
        own = anchors.arms[start : start + batch]
        rng = generator(seed, "selection", start)
        batches = selector.select_many(pool, pool.rows(own), list(own[:, None]), rng)
        chosen += [_arms_of(candidates) for candidates in batches]
    sizes = [len(arms) for arms in chosen]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    arms = np.concatenate([np.empty(0, np.int64), *chosen])
    targets = [
        np.isin(arms_of_anchor, sessions.of_number(session))
        for arms_of_anchor, session in zip(chosen, anchors.sessions.tolist(), strict=True)
    ]
    return CandidateSets(arms, offsets, np.concatenate([np.empty(0, np.bool_), *targets]))


def _arms_of(candidates: Candidates) -> Ids:
    """Copy only the arms; the vectors of a wide set are looked up when they are needed."""
    return candidates.arms.copy()


Floats = NDArray[np.float64]


def disjoint(
    targets: NDArray[np.bool_],
    sizes: NDArray[np.int64],
    uniforms: Floats,
    alpha: float,
    ridge: float,
    tie: float,
    by_preference: bool,
    played: NDArray[np.int64],
) -> None:
    """LinUCB with a model per arm: mean r/(λ+n), width 1/√(λ+n). Writes indices to `played`."""
    scores = np.full(len(targets), alpha / np.sqrt(ridge))
    plays, rewards = np.zeros(len(targets)), np.zeros(len(targets))
    spent = 0
    for t in range(len(played)):
        best = scores[0]
        for j in range(sizes[t]):
            best = max(best, scores[j])
        first, ties = -1, 0
        for j in range(sizes[t]):
            if scores[j] >= best - tie:
                ties += 1
                if first < 0:
                    first = j
        place = first
        if ties > 1 and not by_preference:
            skip = int(uniforms[spent] * ties)
            spent += 1
            for j in range(first, sizes[t]):
                if scores[j] >= best - tie:
                    if skip == 0:
                        place = j
                        break
                    skip -= 1
        plays[place] += 1.0
        rewards[place] += 1.0 if targets[place] else 0.0
        weight = ridge + plays[place]
        scores[place] = rewards[place] / weight + alpha * (1.0 / np.sqrt(weight))
        played[t] = place


def feedback(
    columns: Floats,
    similarities: Floats,
    targets: NDArray[np.bool_],
    sizes: NDArray[np.int64],
    alpha: float,
    ridge: float,
    strength: float,
    tie: float,
    played: NDArray[np.int64],
) -> None:
    """FeedbackUCB: the disjoint model; ties are broken by similarity, corrected by feedback."""
    d, k = columns.shape
    scores = np.full(k, alpha / np.sqrt(ridge))
    plays, rewards = np.zeros(k), np.zeros(k)
    expected, along = similarities.copy(), np.empty(k)
    inverse, direction = np.eye(d) / strength, np.empty(d)
    for t in range(len(played)):
        best = scores[0]
        for j in range(sizes[t]):
            best = max(best, scores[j])
        likeliest = -np.inf
        for j in range(sizes[t]):
            if scores[j] >= best - tie:
                likeliest = max(likeliest, expected[j])
        place = -1
        for j in range(sizes[t]):
            if scores[j] >= best - tie and expected[j] >= likeliest - tie:
                place = j
                break
        played[t] = place
        reward = 1.0 if targets[place] else 0.0
        plays[place] += 1.0
        rewards[place] += reward
        weight = ridge + plays[place]
        scores[place] = rewards[place] / weight + alpha * (1.0 / np.sqrt(weight))
        direction[:] = 0.0
        for i in range(d):
            for j in range(d):
                direction[j] += inverse[i, j] * columns[i, place]
        scale = 1.0
        for i in range(d):
            scale += direction[i] * columns[i, place]
        along[:] = 0.0
        for i in range(d):
            for j in range(k):
                along[j] += columns[i, j] * direction[i]
        surprise = (reward - expected[place]) / scale
        for j in range(k):
            expected[j] += along[j] * surprise
        for i in range(d):
            for j in range(d):
                inverse[i, j] -= direction[i] * direction[j] / scale


def linear(
    columns: Floats,
    targets: NDArray[np.bool_],
    sizes: NDArray[np.int64],
    uniforms: Floats,
    normals: Floats,
    alpha: float,
    ridge: float,
    tie: float,
    by_preference: bool,
    played: NDArray[np.int64],
) -> None:
    """LinUCB and LinTS with one model for all arms; `columns` has one arm's features per column.

    With `normals` it is LinTS: the score is θᵀx + α·xᵀLz, A⁻¹ = LLᵀ. Without them it is LinUCB:
    θᵀx + α·√(xᵀA⁻¹x). Each round updates means and variances by Sherman–Morrison and L by a
    rank-one downdate, so a round costs d·k + d² instead of d²·k or d³.
    """
    d, k = columns.shape
    upper = np.zeros((d, d))  # Lᵀ: row j is column j of L, so that the inner loops run along memory
    means, variances = np.zeros(k), np.zeros(k)
    for i in range(d):
        upper[i, i] = 1.0 / np.sqrt(ridge)
        for j in range(k):
            variances[j] += columns[i, j] * columns[i, j] / ridge
    scores, along = np.empty(k), np.empty(k)
    lifted, direction = np.empty(d), np.empty(d)
    thompson = len(normals) > 0
    spent = 0
    for t in range(len(played)):
        if thompson:
            direction[:] = 0.0
            for i in range(d):
                for j in range(i, d):
                    direction[j] += upper[i, j] * normals[t, i]
            scores[:] = 0.0
            for i in range(d):
                for j in range(k):
                    scores[j] += columns[i, j] * direction[i]
            for j in range(k):
                scores[j] = means[j] + alpha * scores[j]
        else:
            for j in range(k):
                scores[j] = means[j] + alpha * np.sqrt(max(variances[j], 0.0))
        best = scores[0]
        for j in range(sizes[t]):
            best = max(best, scores[j])
        within = 0.0 if thompson else tie
        first, ties = -1, 0
        for j in range(sizes[t]):
            if scores[j] >= best - within:
                ties += 1
                if first < 0:
                    first = j
        place = first
        if ties > 1 and not by_preference and not thompson:
            skip = int(uniforms[spent] * ties)
            spent += 1
            for j in range(first, sizes[t]):
                if scores[j] >= best - within:
                    if skip == 0:
                        place = j
                        break
                    skip -= 1
        played[t] = place
        scale = 1.0
        for i in range(d):
            total = 0.0
            for j in range(i, d):
                total += upper[i, j] * columns[j, place]
            lifted[i] = total
            scale += total * total
        direction[:] = 0.0
        for i in range(d):
            for j in range(i, d):
                direction[j] += upper[i, j] * lifted[i]
        along[:] = 0.0
        for i in range(d):
            for j in range(k):
                along[j] += columns[i, j] * direction[i]
        surprise = ((1.0 if targets[place] else 0.0) - means[place]) / scale
        for j in range(k):
            means[j] += along[j] * surprise
            variances[j] -= along[j] * along[j] / scale
        root = np.sqrt(scale)
        for i in range(d):
            direction[i] /= root
        for i in range(d):
            old = upper[i, i]
            new = np.sqrt(old * old - direction[i] * direction[i])
            cosine, sine = new / old, direction[i] / old
            upper[i, i] = new
            for j in range(i + 1, d):
                upper[i, j] = (upper[i, j] - sine * direction[j]) / cosine
                direction[j] = cosine * direction[j] - sine * upper[i, j]


NO_NORMALS = np.empty((0, 0))


class Game(NamedTuple):
    """The candidate sets, the anchors' own arms, and the number of rounds."""

    pool: ArmPool
    anchors: Ids
    sets: CandidateSets
    rounds: int
    schedule: Schedule | None = None


def play(game: Game, policy: Policy, name: str, seed: int) -> NDArray[np.int64]:
    """Return the index in its candidate set that each anchor plays in each round; −1 if C is empty.

    `name` is the policy's name in the results. With the seed and the anchor's number it determines
    the anchor's generator.
    """
    played = np.full((len(game.anchors), game.rounds), -1, np.int64)
    sizes = np.diff(game.sets.offsets)
    for i in np.flatnonzero(sizes).tolist():
        allowed = allowed_sizes(int(sizes[i]), game)
        _play_anchor(game, i, policy, generator(seed, name, i), allowed, played[i])
    return played


def draws(policy: Policy) -> bool:
    """Whether a policy may draw at random; if not, every seed plays the same.

    >>> draws(LinUCB(prior=None)), draws(LinUCB(prior="preference"))
    (True, False)
    """
    match policy:
        case FeedbackUCB():
            return False
        case LinUCB():
            return policy.prior is None
        case _:
            return True


def rewards_at(game: Game, played: NDArray[np.int64], recorded: Ids) -> NDArray[np.int32]:
    """Return the sum of rewards of each anchor after each recorded round."""
    flat = game.sets.offsets[:-1, None] + played
    last = max(len(game.sets.targets) - 1, 0)
    hits = (played >= 0) & np.append(game.sets.targets, False)[np.minimum(flat, last)]
    return np.cumsum(hits, axis=1, dtype=np.int32)[:, recorded - 1]


def allowed_sizes(size: int, game: Game) -> Ids:
    """Return how many of the candidates may be played in each round."""
    if game.schedule is None:
        return np.full(game.rounds, size)
    sizes = Sizes(game.schedule)
    return np.array([min(sizes.at(trial), size) for trial in range(1, game.rounds + 1)])


def _play_anchor(
    game: Game,
    i: int,
    policy: Policy,
    rng: np.random.Generator,
    allowed: Ids,
    played: NDArray[np.int64],
) -> None:
    own = slice(int(game.sets.offsets[i]), int(game.sets.offsets[i + 1]))
    targets = game.sets.targets[own]
    match policy:
        case MostSimilar():
            played[:] = _uniform(np.minimum(allowed, policy.top), rng)
        case RandomPolicy():
            played[:] = _uniform(allowed, rng)
        case LinUCB(model="disjoint"):
            by_preference = policy.prior is not None
            draws = np.empty(0) if by_preference else rng.random(game.rounds)
            options = (policy.alpha, policy.ridge, TIE, by_preference)
            compiled(disjoint)(targets, allowed, draws, *options, played)
        case LinUCB(features="arm" | "interaction"):
            by_preference = policy.prior is not None
            draws = np.empty(0) if by_preference else rng.random(game.rounds)
            columns = _columns(game, i, policy.features)
            options = (policy.alpha, policy.ridge, TIE, by_preference)
            kernel = compiled(linear)
            kernel(columns, targets, allowed, draws, NO_NORMALS, *options, played)
        case FeedbackUCB():
            arms, anchor = game.sets.arms[own], game.pool.rows(game.anchors[i : i + 1])[0]
            similarities = game.pool.score(arms, anchor)
            strengths = (policy.alpha, policy.ridge, policy.feedback, TIE)
            kernel = compiled(feedback)
            kernel(_columns(game, i, "arm"), similarities, targets, allowed, *strengths, played)
        case LinTS(draws=1, features="arm" | "interaction"):
            columns = _columns(game, i, policy.features)
            normals = rng.standard_normal((game.rounds, len(columns)))
            options = (policy.width(len(columns)), policy.ridge, 0.0, True)
            kernel = compiled(linear)
            kernel(columns, targets, allowed, np.empty(0), normals, *options, played)
        case _:
            _play_in_python(game, i, policy, rng, allowed, played)


def _play_in_python(
    game: Game,
    i: int,
    policy: Policy,
    rng: np.random.Generator,
    allowed: Ids,
    played: NDArray[np.int64],
) -> None:
    """Play the rounds of one anchor with a new policy object that has learnt nothing."""
    new = fresh(policy, rng)
    own = slice(int(game.sets.offsets[i]), int(game.sets.offsets[i + 1]))
    arms, targets = game.sets.arms[own], game.sets.targets[own]
    anchor = game.pool.rows(game.anchors[i : i + 1])[0]
    in_order = np.arange(len(arms), 0, -1).astype(np.float64)
    similarities = game.pool.score(arms, anchor)
    whole = Candidates(arms, game.pool.rows(arms), similarities, in_order)
    for t in range(game.rounds):
        candidates = whole.take(np.arange(allowed[t]))
        choice = new.choose(candidates, Context(anchor, trial=t + 1), rng)
        assert choice is not None
        played[t] = int(np.flatnonzero(arms == choice.arm)[0])
        new.update(choice, float(targets[played[t]]))


def fresh(policy: Policy, rng: np.random.Generator) -> Policy:
    """Return an equal policy that has learnt nothing, with a seed made from the anchor's generator.

    So policies that draw arms by their seed draw others for each anchor. The generator goes on as
    if it had not been asked.
    """
    params = policy.get_params()
    if "seed" in params:
        params["seed"] = int(rng.spawn(1)[0].integers(2**32))
    return type(policy)(**params)


def _uniform(sizes: Ids, rng: np.random.Generator) -> Ids:
    """Draw an index below each size; sizes of 1 use no random number."""
    draws = rng.random(int(np.count_nonzero(sizes > 1)))
    places = np.zeros(len(sizes), np.int64)
    places[sizes > 1] = (draws * sizes[sizes > 1]).astype(np.int64)
    return places


def _columns(game: Game, i: int, features: str) -> Floats:
    """Return the features of anchor i's candidates for a shared model, one column each."""
    arms = game.sets.arms[game.sets.offsets[i] : game.sets.offsets[i + 1]]
    rows = game.pool.rows(arms).astype(np.float64)
    if features == "interaction":
        rows *= game.pool.rows(game.anchors[i : i + 1]).astype(np.float64)
    return np.ascontiguousarray(rows.T)


class Finished(NamedTuple):
    """A cell's result: each anchor's number of candidates and reward up to each recorded round."""

    cell: Cell
    sessions: NDArray[np.int64]
    sizes: NDArray[np.int64]
    covered: NDArray[np.bool_]
    recorded: NDArray[np.int64]
    rewards: NDArray[np.int32]

    @property
    def regrets(self) -> NDArray[np.float64]:
        """R(t) of each anchor at the recorded rounds."""
        return (self.recorded - self.rewards).astype(np.float64)


def run_cells(
    work: Work,
    cells: Sequence[Cell],
    run: Run,
    progress: Progress | None = None,
) -> list[Finished]:
    """Return every cell's result: select candidates once, then play all policies on them.

    Cells that draw nothing at random are played once for all seeds.
    """
    pieces = [cell_piece(cell) for cell in cells]
    missing = [cell for cell in cells if not work.is_done(cell_piece(cell))]
    settings = dict.fromkeys(_setting_piece(cell.setting) for cell in missing)
    run_missing(work, list(settings), _select, run, progress)
    # Slowest first, so that no process is still busy with one when the others are done.
    slowest_first = sorted(dict.fromkeys(pieces), key=lambda piece: "lin-" not in piece.label)
    run_missing(work, slowest_first, _play, run, progress)
    return [Finished(cell, **work.load(piece)) for cell, piece in zip(cells, pieces, strict=True)]


def cell_piece(cell: Cell) -> Piece:
    """Return the piece of a cell; cells that differ only by an unused seed share one."""
    setting = cell.setting
    if not draws(policy_named(cell.policy)):
        cell = cell._replace(setting=setting.without_seed())
    return Piece("cells", label_of([setting.selection, setting.k, cell.policy]), cell)


def _setting_piece(setting: Setting) -> Piece:
    label = label_of(["select", setting.selection, setting.k])
    return Piece("candidates", label, setting.without_seed())


def _select(work: Work, piece: Piece) -> None:
    setting: Setting = piece.options
    anchors = _anchors(work, setting)
    sets = select_sets(work.pool, work.sessions, anchors, setting.selector(), setting.seed)
    work.keep(piece, sets._asdict())


def _play(work: Work, piece: Piece) -> None:
    cell: Cell = piece.options
    setting = cell.setting
    sets = CandidateSets(**work.load(_setting_piece(setting)))
    anchors = _anchors(work, setting)
    game = Game(work.pool, anchors.arms, sets, cell.rounds, cell.growth())
    recorded = np.array(recorded_rounds(cell.rounds))
    played = play(game, policy_named(cell.policy), cell.policy, setting.seed)
    rewards = rewards_at(game, played, recorded)
    largest = int(np.diff(sets.offsets).max(initial=0))
    reached = int(allowed_sizes(largest, game)[-1])  # a growing set may not reach k
    sizes = np.minimum(np.diff(sets.offsets), reached)
    result = Finished(cell, anchors.sessions, sizes, sets.covered(reached), recorded, rewards)
    work.keep(piece, {name: getattr(result, name) for name in Finished._fields[1:]})


def _anchors(work: Work, setting: Setting) -> Anchors:
    return draw_anchors(work.sessions, setting.anchors, setting.anchor_seed, setting.held_out)
