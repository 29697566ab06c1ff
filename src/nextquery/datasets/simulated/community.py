"""What a simulated population has in common: queries, their popularity, and what follows what."""

import numpy as np
from numpy.typing import NDArray

from nextquery.datasets.simulated.words import TOPICS, common_texts, reworded

_COMMON = 20  # common queries of a topic
_SUCCESSORS = (0.40, 0.22, 0.15, 0.10, 0.08, 0.05)  # chances of what follows a common query
_ELSEWHERE = 1  # of them in another topic
_BY_TRANSITION = 0.95  # the rest is by popularity


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
        chances = (1 - _BY_TRANSITION) * self.popularity
        chances[self.successors[self.base[text]]] += _BY_TRANSITION * np.array(_SUCCESSORS)
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
