"""The array engine: the rounds of every anchor in compiled code, with the library's results.

A policy object is only *read* here: its class and parameters select the kernel. A policy without a
kernel plays round by round in Python. Each anchor has its own generator, made from (seed, policy,
anchor), so an anchor plays the same arms wherever it runs. The tests compare every kernel with
`Policy.choose`.
"""

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
from nextquery.replay.anchored import kernels
from nextquery.replay.anchored.candidates import CandidateSets
from nextquery.replay.seeds import generator
from nextquery.replay.sessions import Ids
from nextquery.selection import Candidates
from nextquery.selection.schedule import Schedule, Sizes
from nextquery.vectors import compiled

Floats = NDArray[np.float64]
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
            compiled(kernels.disjoint)(targets, allowed, draws, *options, played)
        case LinUCB(features="arm" | "interaction"):
            by_preference = policy.prior is not None
            draws = np.empty(0) if by_preference else rng.random(game.rounds)
            columns = _columns(game, i, policy.features)
            options = (policy.alpha, policy.ridge, TIE, by_preference)
            kernel = compiled(kernels.linear)
            kernel(columns, targets, allowed, draws, NO_NORMALS, *options, played)
        case FeedbackUCB():
            arms, anchor = game.sets.arms[own], game.pool.rows(game.anchors[i : i + 1])[0]
            similarities = game.pool.score(arms, anchor)
            strengths = (policy.alpha, policy.ridge, policy.feedback, TIE)
            kernel = compiled(kernels.feedback)
            kernel(_columns(game, i, "arm"), similarities, targets, allowed, *strengths, played)
        case LinTS(draws=1, features="arm" | "interaction"):
            columns = _columns(game, i, policy.features)
            normals = rng.standard_normal((game.rounds, len(columns)))
            options = (policy.width(len(columns)), policy.ridge, 0.0, True)
            kernel = compiled(kernels.linear)
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
