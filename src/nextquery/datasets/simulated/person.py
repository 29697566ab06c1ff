"""A simulated person: interests, habits, the session they are in, and their clock."""

import numpy as np
from numpy.typing import NDArray

from nextquery.datasets.simulated.community import Community, drawn

_INTERESTS = 4  # topics of a person, besides the first topic, which everybody has
_EVERYDAY = 0.3  # chance of the first topic
_FROM_HABIT = 0.5  # chance that a session begins with a query of the person's own past
_BY_TRANSITION = 0.6  # of own repetitions: what followed the running query before
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
            chances *= 1 - _BY_TRANSITION
            chances[again] += _BY_TRANSITION * often / often.sum()
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
