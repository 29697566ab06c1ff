"""The formulas once more, written out with loops over what is known."""

import math
from collections import Counter, defaultdict

import numpy as np

from tests.research.rivals.worlds import World, known_rows

Scores = dict[int, float]


def popularity(world: World) -> Scores:
    """Count every query."""
    counts = Counter(arm for row in known_rows(world) for arm, _ in row)
    return {arm: float(count) for arm, count in counts.items()}


def n_gram(world: World, *, longest: int = 3) -> Scores:
    """Score by (length of the end, count), as one number."""
    scores: Scores = {}
    for length in range(1, longest + 1):
        counts: Counter[int] = Counter()
        for row in known_rows(world):
            arms = [arm for arm, _ in row]
            for end in range(length, len(arms)):
                counts[arms[end]] += arms[end - length : end] == world.history[-length:]
        scores |= {arm: 1000.0 * length + count for arm, count in counts.items() if count}
    return scores


def sr(world: World, *, steps: int = 10, places: int = 10_000) -> Scores:
    """Add up the rules of the current query."""
    scores: Scores = defaultdict(float)
    rows = known_rows(world)
    allowed = newest_places(world, world.history[-1], places)
    for number, row in enumerate(rows):
        for place in range(len(row)):
            if (number, place) in allowed:
                for i in range(1, min(steps, len(row) - 1 - place) + 1):
                    scores[row[place + i][0]] += 1 / i
    return dict(scores)


def vs_knn(world: World, *, neighbours: int = 500, sample: int = 1000) -> Scores | None:
    """Score by whole sessions; None if the last neighbour is a matter of rounding."""
    history, length = world.history, len(world.history)
    weight = {arm: i / length for i, arm in enumerate(history, 1)}
    similar = {}
    for number in sampled(world, sample):
        arms = {arm for arm, _ in known_rows(world)[number]}
        similar[number] = sum(weight[arm] for arm in arms & set(history)) / len(set(history))
    scores: Scores = defaultdict(float)
    best = nearest(similar, neighbours)
    for number in best or []:
        arms = {arm for arm, _ in known_rows(world)[number]}
        step = next(i for i, arm in enumerate(reversed(history), 1) if arm in arms)
        for arm in arms:
            scores[arm] += similar[number] / step
    return None if best is None else dict(scores)


def stan(
    world: World,
    *,
    session_days: float | None = 5.0,
    neighbours: int = 500,
    sample: int = 5000,
) -> Scores | None:
    """Score by whole sessions, their age and distances; None: the last neighbour is unsure."""
    history, length = world.history, len(world.history)
    weight = {arm: math.exp((i - length) / 1.02) for i, arm in enumerate(history, 1)}
    norm = math.sqrt(sum(w**2 for w in weight.values()))
    similar = {}
    for number in sampled(world, sample):
        row = known_rows(world)[number]
        arms = {arm for arm, _ in row}
        cosine = sum(weight[arm] for arm in arms & set(history)) / (norm * math.sqrt(len(arms)))
        age = world.now - max(day for _, day in row)
        similar[number] = cosine * (math.exp(-age / session_days) if session_days else 1.0)
    scores: Scores = defaultdict(float)
    best = nearest(similar, neighbours)
    for number in best or []:
        queries = [arm for arm, _ in known_rows(world)[number]]
        centre = max(place for place, arm in enumerate(queries) if arm in weight)
        for arm, last in {arm: place for place, arm in enumerate(queries)}.items():
            distance = abs(last - centre)
            scores[arm] += similar[number] * math.exp(-distance / 2.05)
    return None if best is None else dict(scores)


def newest_places(world: World, arm: int, most: int) -> list[tuple[int, int]]:
    """Return the newest places of an arm as (session, place), oldest first."""
    found = [
        (day, number, place)
        for number, row in enumerate(known_rows(world))
        for place, (a, day) in enumerate(row)
        if a == arm
    ]
    return [(number, place) for _, number, place in sorted(found)][-most:]


def sampled(world: World, sample: int) -> list[int]:
    """Return other sessions that share a query, the one with the newest first."""
    rows = known_rows(world)
    newest: dict[int, tuple[int, int, int]] = {}
    for arm in set(world.history):
        for number, place in newest_places(world, arm, sample):
            if number != world.session:
                when = (rows[number][place][1], number, place)
                newest[number] = max(newest.get(number, when), when)
    return sorted(newest, key=lambda number: newest[number], reverse=True)[:sample]


def nearest(similar: dict[int, float], most: int) -> list[int] | None:
    """Return the most similar sessions; None if rounding could decide which is the last."""
    best = sorted(similar, key=lambda number: -similar[number])
    if len(best) > most and np.isclose(similar[best[most - 1]], similar[best[most]]):
        return None
    return best[:most]


def ar(world: World, *, places: int = 10_000) -> Scores:
    """Count the pairs of the current query and another place of its session."""
    scores: Scores = defaultdict(float)
    rows = known_rows(world)
    for number, place in newest_places(world, world.history[-1], places):
        for other, (arm, _) in enumerate(rows[number]):
            scores[arm] += other != place
    return {arm: score for arm, score in scores.items() if score}


def s_knn(
    world: World, *, neighbours: int = 500, sample: int = 1000, jaccard: bool = False
) -> Scores | None:
    """Score by sets of queries; None if the last neighbour is a matter of rounding."""
    own, similar = set(world.history), {}
    for number in sampled(world, sample):
        arms = {arm for arm, _ in known_rows(world)[number]}
        size = len(own | arms) if jaccard else math.sqrt(len(own) * len(arms))
        similar[number] = len(own & arms) / size
    scores: Scores = defaultdict(float)
    best = nearest(similar, neighbours)
    for number in best or []:
        for arm in {arm for arm, _ in known_rows(world)[number]}:
            scores[arm] += similar[number]
    return None if best is None else dict(scores)


def vstan(world: World, *, match_decay: float = 1.02, rarity: float = 5.0) -> Scores:
    """Multiply what each neighbour gives to STAN."""
    rows, history = known_rows(world), world.history
    asked = Counter(arm for row in rows for arm, _ in row)
    begun = sum(bool(row) for row in rows)
    scores: Scores = defaultdict(float)
    for number in sampled(world, 5000):
        others = [row if at in (number, world.session) else [] for at, row in enumerate(world.rows)]
        alone = stan(world._replace(rows=others))
        assert alone is not None
        latest = max(i for i, arm in enumerate(history, 1) if arm in {a for a, _ in rows[number]})
        for arm, score in alone.items():
            idf = max(0.0, math.log(begun / asked[arm]))
            factor = math.exp((latest - len(history)) / match_decay)
            scores[arm] += score * factor * (1 + rarity * idf)
    return dict(scores)


def vmm(world: World, *, longest: int = 5, growth: float = 0.05) -> Scores:
    """Build the whole tree; score by (length of the context, count), as one number."""
    after: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    rows = [[arm for arm, _ in row] for row in known_rows(world)]
    for arms in rows:
        for end in range(1, len(arms)):
            for length in range(1, min(longest, end) + 1):
                after[tuple(arms[end - length : end])][arms[end]] += 1
    unseen = 1 / max(1, len({arm for arms in rows for arm in arms}))
    tree: set[tuple[int, ...]] = {context for context in after if len(context) == 1}
    for context in after:
        if len(context) > 1 and _kl(after[context[1:]], after[context], unseen) > growth:
            tree |= {context[at:] for at in range(len(context))}
    scores: Scores = {}
    for length in range(1, len(world.history) + 1):
        context = tuple(world.history[-length:])
        if context in tree:
            scores |= {arm: 1000.0 * length + n for arm, n in after[context].items()}
    return scores


def _kl(parent: Counter[int], child: Counter[int], unseen: float) -> float:
    """Return how far what follows a context is from what follows its end."""
    kl = 0.0
    for arm, count in parent.items():
        share = count / parent.total()
        kl += share * math.log(share / (child[arm] / child.total() if child[arm] else unseen))
    return kl
