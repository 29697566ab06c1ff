"""A simulated population with the habits of web search, for tests and closed loops.

Nothing here was measured on a person. The shares of the four kinds of next queries are those of
real web search; everything else is drawn from a seed.

A population shares its queries, their popularity, and which query follows which. Each person has
interests, habits, a current session and a clock. Every topic has one word that all its queries
contain, and a few words of its own. So an encoder sees the texts of a topic as similar.
"""

import csv
import heapq
import os
from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import number, whole_number
from nextquery.errors import InvalidInput

__all__ = [
    "KINDS",
    "WEB",
    "Kind",
    "Person",
    "Population",
    "Shares",
    "SimulatedQuery",
    "Wish",
    "kinds",
    "shares",
    "write",
]


Kind = Literal["new", "own", "returned", "others"]
KINDS: tuple[Kind, ...] = ("new", "own", "returned", "others")


class Row(Protocol):
    """A query of a log, with its session and its user."""

    @property
    def session_id(self) -> str:
        """The session; its id is not used again by another user."""

    @property
    def user_id(self) -> str:
        """The user."""

    @property
    def query(self) -> str:
        """The text."""


class Shares(NamedTuple):
    """How much of all next queries is of each kind; together 1.

    >>> Shares(0.5, 0.3, 0.1, 0.2).checked()
    Traceback (most recent call last):
    nextquery.errors.InvalidInput: the shares must add up to 1; received 0.5 + 0.3 + 0.1 + 0.2. ...
    """

    new: float  #: nobody asked it before
    own: float  #: the same user asked it in an earlier session
    returned: float  #: asked earlier in this session, and never by this user in another one
    others: float  #: only other users asked it before

    def checked(self) -> "Shares":
        """Return the shares, if they are some."""
        shares = Shares(*(number(value, name, low=0, high=1) for name, value in self.by_name()))
        if abs(sum(shares) - 1) > 1e-9:
            raise InvalidInput(
                f"the shares must add up to 1; received {' + '.join(map(str, shares))}. "
                "Change one of them."
            )
        return shares

    def by_name(self) -> Iterator[tuple[Kind, float]]:
        """Yield every kind with its share."""
        return zip(KINDS, self, strict=True)


def kinds(rows: Iterable[Row]) -> Iterator[Kind | None]:
    """Yield the kind of every row, as known from the rows above it.

    The first query of a session has no kind, nor has a query equal to the one before it. Rows must
    be in order of time.
    """
    asked: set[str] = set()
    past: dict[str, dict[str, set[str]]] = {}  # user -> query -> sessions
    last: dict[str, str] = {}  # session -> its last query
    for row in rows:
        before, last[row.session_id] = last.get(row.session_id), row.query
        own = past.setdefault(row.user_id, {})
        kind: Kind | None = None
        if before is not None and before != row.query:
            if row.query in own:
                kind = "returned" if own[row.query] == {row.session_id} else "own"
            else:
                kind = "others" if row.query in asked else "new"
        yield kind
        own.setdefault(row.query, set()).add(row.session_id)
        asked.add(row.query)


def shares(rows: Iterable[Row]) -> Shares:
    """Measure the shares of a log whose rows are in order of time.

    >>> from nextquery.datasets.simulated import SimulatedQuery as Q
    >>> log = [Q("1", "ann", "", "a"), Q("1", "ann", "", "b"), Q("1", "ann", "", "b")]
    >>> log += [Q("1", "ann", "", "a"), Q("2", "bob", "", "c"), Q("2", "bob", "", "a")]
    >>> log += [Q("3", "ann", "", "d"), Q("3", "ann", "", "b")]
    >>> shares(log)
    Shares(new=0.25, own=0.25, returned=0.25, others=0.25)
    """
    counts = dict.fromkeys(KINDS, 0)
    for kind in kinds(rows):
        if kind is not None:
            counts[kind] += 1
    steps = sum(counts.values())
    if not steps:
        raise InvalidInput(
            "no session of this log has two different queries, so there is no next query to "
            "count. Pass rows with session ids, in order of time."
        )
    return Shares(*(counts[kind] / steps for kind in KINDS))


_TOPICS = """
weather tomorrow weekend radar hourly rain snow storm warnings
recipe chicken pasta vegetarian soup dessert oven salad curry
football scores fixtures league transfer highlights stadium tickets goals
flights airline airport luggage departures layover refund upgrade boarding
mortgage rates calculator refinance lender deposit fixed approval insurance
laptop battery screen charger keyboard gaming memory repair reviews
guitar chords strings lessons acoustic amplifier tabs tuner pedals
garden tomatoes soil compost roses fence weeds greenhouse pruning
dog puppy training leash vaccine breeds kennel grooming biscuits
headache migraine pills causes pregnancy dizziness relief sleep neck
movie trailer cast streaming sequel soundtrack showtimes director awards
hotel spa breakfast booking beach suite parking rooftop discount
car tyres brakes engine dealer lease hybrid towing wiper
wedding dress venue invitations flowers cake rings photographer speech
running shoes marathon knee treadmill intervals socks injury pace
camera lens tripod mirrorless portrait shutter filters drone flash
knitting patterns yarn needles sweater scarf crochet blanket mittens
chess openings endgame puzzles tournament grandmaster clock board notation
tax deadline deduction form bracket receipts audit allowance return
coffee espresso beans grinder filter latte decaf machine roast
bicycle helmet gears saddle mountain pump chain electric panniers
python tutorial list dictionary pandas error decorator install async
history roman medieval empire revolution timeline museum castle treaty
yoga poses mat beginner breathing stretching retreat hips morning
kitchen sink cabinets tiles worktop island lighting faucet remodel
astronomy telescope planets eclipse comet galaxy moon meteor constellations
fishing rod bait trout license river lures boat knots
piano sheet keys teacher pedal jazz scales digital sonata
phone contract unlock case camera backup android cracked signal
camping tent stove sleeping campsite lantern hammock backpack firewood
baby stroller names formula crib nappies teething carrier monitor
university tuition admission dormitory scholarship campus degree ranking exams
jobs nursing warehouse salary interview remote apprentice resume vacancies
cat litter kitten scratching allergies whiskers indoor vet food
bread sourdough flour yeast kneading rye crust starter baguette
tennis racket serve court grass doubles umpire backhand seeds
skiing slopes boots resort helmet lift goggles lessons avalanche
election polls candidates ballot turnout debate results district recount
solar panels inverter roof grant battery savings installation kilowatt
train timetable delays railcard platform sleeper strike carriage seat
painting watercolor canvas brushes acrylic oil easel frames landscape
novel author thriller chapter paperback review sequel bestseller library
sofa leather corner fabric delivery recliner cushions cleaning bed
aquarium tropical filter pump algae shrimp tank heater plants
insurance claim premium travel pet broker excess quote policy
vaccination travel clinic booster malaria schedule flu measles record
bank transfer branch overdraft savings interest fees account closure
birthday balloons gift cake party invitation games card candles
"""
TOPICS = tuple((line.split()[0], tuple(line.split()[1:])) for line in _TOPICS.strip().splitlines())

_MODIFIERS = """
best cheap free online near local used new easy quick small large modern simple vintage
guide ideas tips price cost compare shop store buy rent sale offers forum video pictures pdf
beginners experts children adults seniors students teachers families summer winter spring autumn
today tonight monthly yearly safe healthy popular famous rare custom handmade wooden plastic
metal blue red green black white bright quiet heavy light portable wireless automatic manual
london paris berlin madrid chicago boston dublin toronto sydney oslo vienna lisbon problems
alternatives difference explained checklist template examples mistakes advice questions answers
"""
MODIFIERS = tuple(_MODIFIERS.split())
_LONGEST = 3  # words that rewording usually adds to a common query
_OWN_WORDS = 0.6  # share of words that are the topic's own


def word(topic: int, rng: np.random.Generator) -> str:
    """Draw a word that people add to queries of a topic."""
    words = TOPICS[topic][1] if rng.random() < _OWN_WORDS else MODIFIERS
    return words[int(rng.integers(len(words)))]


def common_texts(topic: int, count: int, rng: np.random.Generator) -> list[str]:
    """Return distinct short texts of a topic; the first is the topic's word alone.

    >>> common_texts(0, 4, np.random.default_rng(0))
    ['weather', 'weather radar', 'weather online yearly', 'weather rain']
    """
    texts = {TOPICS[topic][0]: None}
    while len(texts) < count:
        added = [word(topic, rng) for _ in range(1 + int(rng.random() < 0.3))]
        texts.setdefault(" ".join(dict.fromkeys([TOPICS[topic][0], *added])))
    return list(texts)


def reworded(
    base: str,
    added: Sequence[str],
    topic: int,
    used: Container[str],
    rng: np.random.Generator,
) -> tuple[str, tuple[str, ...]]:
    """Return a text that is not in `used`, and the words that it adds to `base`.

    One of the words that the running query adds (`added`) is replaced, or one more is added. If
    such texts are used up, the new text grows longer: the supply never ends.

    >>> reworded("weather", ["radar"], 0, {"weather"}, np.random.default_rng(1))
    ('weather radar online', ('radar', 'online'))
    """
    words, tries = list(added), 0
    while True:
        if len(words) >= _LONGEST + tries // 8 or (words and rng.random() < 0.4):
            words.pop(int(rng.integers(len(words))))
        words.append(word(topic, rng))
        words = list(dict.fromkeys(words))
        text = " ".join([base, *words])
        if text not in used:
            return text, tuple(words)
        tries += 1


_COMMON = 20  # common queries of a topic
_SUCCESSORS = (0.40, 0.22, 0.15, 0.10, 0.08, 0.05)  # chances of what follows a common query
_ELSEWHERE = 1  # of them in another topic
_BY_SUCCESSOR = 0.95  # the rest is by popularity


class Community:
    """The common queries, and every text that was made from them.

    A text is known by its number. The numbers of common queries come first. Every other text is a
    rewording of one of them, its base; what follows the base follows the rewording too.

    >>> community = Community(np.random.default_rng(0))
    >>> community.texts[0], len(community.texts)
    ('weather', 960)
    >>> new = community.reword(0, np.random.default_rng(0))
    >>> community.texts[new], community.base[new]
    ('weather safe', 0)
    """

    def __init__(self, rng: np.random.Generator) -> None:
        topics = range(len(TOPICS))
        self.texts = [text for topic in topics for text in common_texts(topic, _COMMON, rng)]
        self.common = len(self.texts)
        self.base = list(range(self.common))
        self._added: list[tuple[str, ...]] = [()] * self.common
        self._used = set(self.texts)
        ranks = 1.0 / np.arange(1, _COMMON + 1)
        self._within: NDArray[np.float64] = ranks / ranks.sum()
        of_topics = np.arange(1, len(TOPICS) + 1) ** -0.8
        self.topics: NDArray[np.float64] = of_topics / of_topics.sum()
        self.popularity = np.outer(self.topics, self._within).ravel()
        self.successors = np.array([self._draw_successors(q, rng) for q in range(self.common)])
        self.asked = np.zeros(self.common, bool)  # by anybody

    def topic(self, text: int) -> int:
        """Return the topic of a text."""
        return self.base[text] // _COMMON

    def draw(self, topic: int, rng: np.random.Generator) -> int:
        """Draw a common query of a topic by its popularity."""
        return topic * _COMMON + drawn(self._within, rng)

    def reword(self, text: int, rng: np.random.Generator) -> int:
        """Make a text that nobody ever used, which shares words with this one."""
        base, topic = self.base[text], self.topic(text)
        new, added = reworded(self.texts[base], self._added[text], topic, self._used, rng)
        self._used.add(new)
        self.texts.append(new)
        self.base.append(base)
        self._added.append(added)
        return len(self.texts) - 1

    def follows(self, text: int, free: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the chances of the common queries marked `free` to be asked after a text.

        Some must be free. The chances add up to 1.
        """
        chances = (1 - _BY_SUCCESSOR) * self.popularity
        chances[self.successors[self.base[text]]] += _BY_SUCCESSOR * np.array(_SUCCESSORS)
        chances *= free
        chances /= chances.sum()
        return chances

    def _draw_successors(self, query: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw what follows a common query; similarity reveals its topic, but no more.

        Popular queries are drawn more often, but less than by their popularity: most people have
        already asked those of their interests.
        """
        same = np.arange(self.common) // _COMMON == query // _COMMON
        weights = np.sqrt(self.popularity)
        near, far = same * weights, ~same * weights
        near[query] = 0
        inside = len(_SUCCESSORS) - _ELSEWHERE
        chosen = [
            rng.choice(self.common, inside, replace=False, p=near / near.sum()),
            rng.choice(self.common, _ELSEWHERE, replace=False, p=far / far.sum()),
        ]
        order: NDArray[np.int64] = rng.permutation(np.concatenate(chosen))
        return order


def drawn(chances: NDArray[np.float64], rng: np.random.Generator) -> int:
    """Draw a position by its chances, which add up to 1.

    >>> drawn(np.array([0.0, 1.0, 0.0]), np.random.default_rng(0))
    1
    """
    sums = np.cumsum(chances)
    # Scaled by the last sum, which is not exactly 1; a chance of 0 is never drawn.
    return int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))


_INTERESTS = 4  # topics of a person, besides the first topic, which everybody has
_EVERYDAY = 0.3  # chance of the first topic
_FROM_HABIT = 0.5  # chance that a session begins with a query of the person's own past
_BY_OWN_SUCCESSOR = 0.6  # of own repetitions: what followed the running query before
_LIKING = 1.2  # spread (log) of how much a person likes a query; the more, the fewer favourites
_COMMON_LIKED = 4.0  # how much more common queries are liked than a person's own wordings
_STALE = 0.05  # weight of a query that was last asked long ago
_BACK = 0.6  # each query further back in the session is returned to less often by this factor
_LENGTHS = np.array([0.22, 0.20, 0.17, 0.14, 0.11, 0.09, 0.07])  # of 2 to 8 queries

SECOND = 1_000  # times are in milliseconds
HOUR, DAY = 3_600 * SECOND, 86_400 * SECOND
_WEEK = 7 * DAY  # after it, a query has lost half of its weight


class Person:
    """One person. Their own queries are numbered in the order in which they first asked them.

    >>> rng = np.random.default_rng(0)
    >>> person = Person("ann", Community(rng), rng)
    >>> person.begin("s1", rng)
    >>> person.left, person.query
    (6, 'weather online yearly')
    """

    def __init__(self, user_id: str, community: Community, rng: np.random.Generator) -> None:
        self.user_id = user_id
        self.session_id = ""
        self.left = 0  #: queries that this session still has
        self.next = int(rng.uniform(0, 2 * DAY))  #: time of the next query
        self.time = 0  #: time of the last query
        self.asked = np.zeros(community.common, bool)  #: common queries that this person asked
        self._community = community
        self._pace = float(np.exp(0.5 * rng.normal()))
        topics = community.topics.copy()
        topics[0] = 0
        chosen = rng.choice(len(topics), _INTERESTS, replace=False, p=topics / topics.sum())
        weights = 1.0 / np.arange(1, _INTERESTS + 1)
        self._topics = [0, *chosen.tolist()]
        rest = (1 - _EVERYDAY) * weights / weights.sum()
        self._interest = np.concatenate([[_EVERYDAY], rest])
        self._ids: list[int] = []  # own number -> number in the community
        self._number: dict[int, int] = {}  # and back
        self._habits = np.zeros((3, 16))  # liking, times asked, last time asked
        self._after: dict[int, dict[int, int]] = {}  # own number -> what followed, how often
        self._before = 0  # own queries of earlier sessions
        self._session: list[int] = []  # own numbers, in order

    @property
    def now(self) -> int:
        """The running query, by its number in the community."""
        return self._ids[self._session[-1]]

    @property
    def query(self) -> str:
        """The text of the running query."""
        return self._community.texts[self.now]

    @property
    def session(self) -> list[str]:
        """The texts of this session so far."""
        return [self._community.texts[self._ids[number]] for number in self._session]

    def begin(self, session_id: str, rng: np.random.Generator) -> None:
        """Begin a session with a habit or with a common query of an interest."""
        self.session_id, self._session, self._before = session_id, [], len(self._ids)
        self.left = 2 + drawn(_LENGTHS, rng)
        numbers, chances = self.own()
        if len(numbers) and rng.random() < _FROM_HABIT:
            first = int(numbers[drawn(chances, rng)])
        else:
            first = self.interest(rng)
        self.ask(first, rng)

    def interest(self, rng: np.random.Generator) -> int:
        """Draw a common query of one of the person's topics."""
        return self._community.draw(self._topics[drawn(self._interest, rng)], rng)

    def own(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the queries of earlier sessions that are not in this one, with their chances."""
        weights = self._weights()
        weights[[number for number in self._session if number < self._before]] = 0
        total = weights.sum()
        if not total:
            return np.empty(0, np.int64), np.empty(0)
        chances = weights / total
        after = self._after.get(self._session[-1], {}) if self._session else {}
        again = [number for number in after if number < self._before and weights[number]]
        if again:
            often = np.array([after[number] for number in again]) * self._habits[0, again]
            chances *= 1 - _BY_OWN_SUCCESSOR
            chances[again] += _BY_OWN_SUCCESSOR * often / often.sum()
        return np.array(self._ids[: self._before]), chances

    def returns(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the earlier queries that are new in this session, with their chances."""
        back = dict.fromkeys(reversed(self._session[:-1]))  # the last place of each
        usable = [n for n in back if n >= self._before and n != self._session[-1]]
        chances = _BACK ** np.arange(len(usable), dtype=float)
        ids = np.array([self._ids[number] for number in usable], np.int64)
        return ids, chances / chances.sum() if usable else chances

    def others(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the common queries that only others asked, with their chances."""
        free = self._community.asked & ~self.asked
        if not free.any():
            return np.empty(0, np.int64), np.empty(0)
        chances = self._community.follows(self.now, free)
        numbers = np.flatnonzero(chances)
        return numbers, chances[numbers]

    def ask(self, text: int, rng: np.random.Generator) -> None:
        """Ask a query now, and set the time of the next one."""
        number = self._number.setdefault(text, len(self._ids))
        if number == len(self._ids):
            self._ids.append(text)
            if number == self._habits.shape[1]:
                self._habits = np.concatenate([self._habits, np.zeros((3, number))], axis=1)
            is_common = text < self._community.common
            liking = np.exp(_LIKING * rng.normal()) * (_COMMON_LIKED if is_common else 1.0)
            self._habits[0, number] = liking
        if self._session:
            after = self._after.setdefault(self._session[-1], {})
            after[number] = after.get(number, 0) + 1
        if text < self._community.common:
            self.asked[text] = self._community.asked[text] = True
        self._session.append(number)
        self.time = self.next
        self._habits[1, number] += 1
        self._habits[2, number] = self.time
        self.left -= 1
        self.next = self.time + (self._think(rng) if self.left else self._pause(rng))

    def _weights(self) -> NDArray[np.float64]:
        """Return how much each query of earlier sessions is a habit: often asked, and lately."""
        liking, times, last = self._habits[:, : self._before]
        weights: NDArray[np.float64] = (
            liking * times * (_STALE + np.exp2((last - self.time) / _WEEK))
        )
        return weights

    def _think(self, rng: np.random.Generator) -> int:
        """Draw the time between two queries: seconds to minutes."""
        return int(np.clip(40 * SECOND * np.exp(rng.normal()), 3 * SECOND, 1_200 * SECOND))

    def _pause(self, rng: np.random.Generator) -> int:
        """Draw the time between two sessions: hours to days."""
        hours = 18 * self._pace * np.exp(rng.normal())
        return int(np.clip(hours * HOUR, HOUR, 30 * DAY))


WEB = Shares(new=0.64, own=0.25, returned=0.04, others=0.07)
_SWITCH = 0.12  # chance that a new query is about another interest
_MOST_CORRECTION = 0.1  # added to the chance of a kind that was not possible often enough
_START = datetime(2025, 1, 6, tzinfo=UTC)


class SimulatedQuery(NamedTuple):
    """One row of a simulated log."""

    session_id: str
    user_id: str
    time: str
    query: str


def write(rows: Iterable[SimulatedQuery], path: str | os.PathLike[str]) -> None:
    """Write a log as a TSV file, which `nextquery.build.ingest` reads as it is."""
    with open(path, "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
        writer.writerow(SimulatedQuery._fields)
        writer.writerows(rows)


class Wish(NamedTuple):
    """What a person wants to ask next."""

    text: str
    kind: Kind
    number: int  #: of the text, in the community
    chances: Shares  #: of the kinds, at that moment


class Population:
    """Simulated people who ask new queries, repeat their own, return, and ask what others asked.

    Everything is a function of the seed and of the order of the calls. People have interests,
    habits and a clock (`Person`). What they ask that only others asked before follows known
    transitions (`Community`). Not every kind of query is always possible: in their first
    session, people have no past to repeat. What is missed then is made up for later, so that a log
    has the shares that you asked for.

    `log` lets the people live by the clock. For a closed loop, `begin` a person's session; then,
    while ``person.left``, show a slate for ``person.query``, draw the `wish` and let the person
    `move` to it, whether you showed it or not. There the known queries are those of the moves
    before, in the order of your calls.

    Parameters
    ----------
    seed : at least 0.
    people : how many, at least 2. With fewer than about 4 sessions each, `own` falls short.
    shares : how much of all next queries is of each kind; by default as measured in web search.
        Sessions are short, so more than about 0.08 of `returned` is not reached.

    >>> population = Population(0, people=50)
    >>> for row in population.log(sessions=1_000)[-2:]:
    ...     print(*row, sep=" | ")
    s0001000 | user-00032 | 2025-01-25T22:58:48.221+00:00 | hotel breakfast booking
    s0001000 | user-00032 | 2025-01-25T22:59:44.178+00:00 | hotel breakfast booking discount
    >>> person = population.people[0]
    >>> population.begin(person)
    'weather radar'
    >>> wish = population.wish(person)
    >>> wish.text, wish.kind
    ('recipe soup curry wooden online', 'own')
    >>> [(text, round(chance, 3)) for text, chance in population.likely(person, 2)]
    [('recipe soup curry wooden online', 0.184), ('weather snow', 0.039)]
    >>> population.move(person, wish)
    """

    def __init__(self, seed: int = 0, *, people: int = 200, shares: Shares = WEB) -> None:
        self._rng = np.random.default_rng(whole_number(seed, "seed", at_least=0))
        count = whole_number(people, "people", at_least=2)
        self.shares = Shares(*shares).checked()
        self.community = Community(self._rng)
        self.people = [
            Person(f"user-{number:05d}", self.community, self._rng) for number in range(count)
        ]
        self._sessions = 0
        self._deficit = np.zeros(len(KINDS))

    def log(self, *, sessions: int) -> list[SimulatedQuery]:
        """Let the people begin so many sessions; returns all their queries in order of time.

        Sessions that have begun are finished. Calling it again continues the same log.
        """
        stop = self._sessions + whole_number(sessions, "sessions", at_least=1)
        rows: list[SimulatedQuery] = []
        queue = [(person.next, at) for at, person in enumerate(self.people)]
        heapq.heapify(queue)
        clock = -1
        while queue:
            _, at = heapq.heappop(queue)
            person = self.people[at]
            person.next = clock = max(person.next, clock + 1)  # no two queries at the same time
            if person.left:
                self.move(person, self.wish(person))
            elif self._sessions < stop:
                self.begin(person)
            else:
                continue
            rows.append(self._row(person))
            heapq.heappush(queue, (person.next, at))
        return rows

    def begin(self, person: Person) -> str:
        """Let a person begin a session; returns its first query, which has no kind."""
        self._sessions += 1
        person.begin(f"s{self._sessions:07d}", self._rng)
        return person.query

    def now(self) -> datetime:
        """Return the time of the newest query."""
        return _START + timedelta(milliseconds=max(person.time for person in self.people))

    def wish(self, person: Person) -> Wish:
        """Draw what a person wants to ask next. It changes nothing until you call `move`.

        Only a new text is used up: nobody will ever wish for it again.
        """
        chances = self.chances(person)
        kind = KINDS[drawn(np.array(chances), self._rng)]
        if kind == "new":
            switch = self._rng.random() < _SWITCH
            start = person.interest(self._rng) if switch else person.now
            wanted = self.community.reword(start, self._rng)
        else:
            numbers, within = _choices(person, kind)
            wanted = int(numbers[drawn(within, self._rng)])
        return Wish(self.community.texts[wanted], kind, wanted, chances)

    def move(self, person: Person, wish: Wish) -> None:
        """Let a person ask what they wished for, whether they clicked it or typed it."""
        self._deficit += np.array(self.shares) - np.array(wish.chances)
        person.ask(wish.number, self._rng)

    def chances(self, person: Person) -> Shares:
        """Return the exact chances of the four kinds for a person's next query."""
        possible = [kind != "new" and len(_choices(person, kind)[0]) > 0 for kind in KINDS]
        correction = np.clip(self._deficit, -_MOST_CORRECTION, _MOST_CORRECTION)
        known = np.clip(np.array(self.shares) + correction, 0, 1) * possible
        known /= max(1.0, known.sum())
        return Shares(max(0.0, 1 - float(known.sum())), *known[1:].tolist())

    def likely(
        self, person: Person, m: int, *, among: Container[str] | None = None
    ) -> list[tuple[str, float]]:
        """Return the m known queries that a person asks next with the greatest chances.

        The chances are exact. Nobody who does not know a new query can show a better slate of m:
        their sum is the best possible acceptance.

        Parameters
        ----------
        person : someone in a session.
        m : at least 1.
        among : leave out the texts that are not in here.
        """
        whole_number(m, "m", at_least=1)
        chances = self.chances(person)
        found: list[tuple[float, int]] = []
        for kind, share in chances.by_name():
            if kind != "new" and share:
                numbers, within = _choices(person, kind)
                found += zip((-share * within).tolist(), numbers.tolist(), strict=True)
        texts = self.community.texts
        best = ((texts[at], -chance) for chance, at in sorted(found) if chance)
        return list(islice((one for one in best if among is None or one[0] in among), m))

    def time(self, person: Person) -> datetime:
        """Return when a person asked their running query."""
        return _START + timedelta(milliseconds=person.time)

    def _row(self, person: Person) -> SimulatedQuery:
        time = self.time(person).isoformat(timespec="milliseconds")
        return SimulatedQuery(person.session_id, person.user_id, time, person.query)


def _choices(person: Person, kind: Kind) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the texts of a kind that a person may ask next, by number, with their chances."""
    known = {"own": person.own, "returned": person.returns, "others": person.others}
    return known[kind]()
