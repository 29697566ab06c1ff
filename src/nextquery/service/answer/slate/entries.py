"""The entries of a slate: from a policy, from two, pinned ones, or from similarity alone."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nextquery.catalogue.catalogue import Place
from nextquery.experiments.assignment import team_draft
from nextquery.loop import Loop, Slate, Visit
from nextquery.memory import without
from nextquery.policies import Choice, Context, MostSimilar
from nextquery.selection import Candidates
from nextquery.service.answer.requests.kinds import RecommendRequest
from nextquery.service.log.events import (
    MEMORY,
    PINNED,
    SELECTION,
    OwnAsked,
    SlateEntry,
    vector_text,
)


class ToAnswer(NamedTuple):
    """A slate that is asked for."""

    request: RecommendRequest
    place: Place
    visit: Visit
    selected: Candidates


class Entries:
    """Describes what was chosen, as events and answers have it."""

    def __init__(self, loop: Loop, *, repeat: bool) -> None:
        self.loop, self.repeat = loop, repeat

    def by_policy(self, loop: Loop, slate: Slate, asked: ToAnswer) -> tuple[SlateEntry, ...]:
        """Return the entries that the policy of a loop chose, best first."""
        chosen = slate._replace(choices=[one for one in slate.choices if not one.pinned])
        entries = self._described(chosen, asked.selected, loop, explain=asked.request.explain)
        if loop is not self.loop and isinstance(loop.policy, MostSimilar):  # in the same order
            return tuple(replace(one, score=one.similarity) for one in entries)
        return entries

    def similar(self, asked: ToAnswer) -> tuple[tuple[SlateEntry, ...], int]:
        """Return the entries of similarity alone, and out of how many they come."""
        request, place, visit, selected = asked
        of_session = {place.arm, *visit.history, *([] if self.repeat else visit.seen)}
        arms = np.array([arm for arm in of_session if arm is not None], np.int64)
        gone = (self.loop.catalogue.hidden_arms(), self.loop.catalogue.pool.removed)
        left = without(selected, np.concatenate([arms, *gone]))
        if request.at_least > 0:  # similarity alone has no probability
            left = left.take(np.arange(0))
        pinned = self.pinned(self.loop.catalogue.pinned(place)[: request.m], place)
        left = without(left, [entry.arm for entry in pinned])
        most = max(1, request.m - len(pinned))
        similar = MostSimilar(top=1).rank(self.loop.folded(left), Context(place.vector), most)
        alike = dict(zip(left.arms.tolist(), left.similarities.tolist(), strict=True))
        entries = tuple(
            self._entry(
                replace(choice, score=alike[choice.arm]),
                left,
                selected,
                None,
                explain=request.explain,
            )
            for choice in similar
        )
        return (*pinned, *entries)[: request.m], len(left)

    def pinned(self, arms: Sequence[int], place: Place) -> tuple[SlateEntry, ...]:
        """Return the entries of pinned arms, without features: they teach nothing."""
        return tuple(
            SlateEntry(
                arm=choice.arm,
                text=self.loop.catalogue.shown(choice.arm),
                score=choice.score,
                propensity=choice.propensity,
                propensity_estimated=False,
                similarity=choice.score,
                uncertainty=None,
                features=(),
                source=PINNED,
            )
            for choice in self.loop.pinned(place, arms)
        )

    def _described(
        self, slate: Slate, selected: Candidates, loop: Loop, *, explain: bool
    ) -> tuple[SlateEntry, ...]:
        choices, candidates = slate.choices, slate.candidates
        if not np.isfinite([choice.score for choice in choices]).all():
            raise FloatingPointError("the model's scores are not finite")
        arms = candidates.arms.tolist()
        places = sorted(arms.index(choice.arm) for choice in choices)
        shown = candidates.take(np.array(places, np.int64))
        estimates = loop.policy.estimates(shown, slate.context)
        widths: dict[int, float] = {}
        if estimates is not None:
            widths = dict(zip(shown.arms.tolist(), estimates[1].tolist(), strict=True))
        entries = (
            self._entry(choice, shown, selected, widths.get(choice.arm), explain=explain)
            for choice in choices
        )
        learnt = loop.learnt
        if not explain or not learnt.calibration:
            return tuple(entries)
        chances = learnt.probabilities(candidates, slate.context)  # of all, since they share 1
        chance = dict(zip(arms, chances.tolist(), strict=True))
        return tuple(replace(entry, probability=chance[entry.arm]) for entry in entries)

    def _entry(
        self,
        choice: Choice,
        candidates: Candidates,
        selected: Candidates,
        width: float | None,
        *,
        explain: bool,
    ) -> SlateEntry:
        at, preference = candidates.arms.tolist().index(choice.arm), None
        if explain and selected.normalised:
            of_arms = zip(selected.arms.tolist(), selected.preferences.tolist(), strict=True)
            preference = dict(of_arms).get(choice.arm)
        return SlateEntry(
            arm=choice.arm,
            text=self.loop.text_of(choice.arm, candidates),
            score=choice.score,
            propensity=choice.propensity,
            propensity_estimated=choice.propensity_estimated,
            similarity=float(candidates.similarities[at]),
            uncertainty=width,
            features=tuple(choice.features.tolist()),
            asked_at=candidates.own_asked.get(choice.arm),
            preference=preference,
            source=MEMORY if choice.arm in candidates.recalled else SELECTION,
            explored=choice.explored,
        )


def drafted(
    names: tuple[str, str],
    rankings: tuple[Sequence[SlateEntry], Sequence[SlateEntry]],
    length: int,
    coins: np.random.Generator,
) -> tuple[SlateEntry, ...]:
    """Draft entries from the rankings of two policies; how probable they are is not known."""
    first, second = ([entry.arm for entry in ranking] for ranking in rankings)
    draft = team_draft(first, second, max(0, length), coins)
    return tuple(
        replace(rankings[team][place], team=names[team], propensity=0.0, propensity_estimated=False)
        for team, place in zip(*draft, strict=True)
    )


def own_asked(loop: Loop, place: Place, visit: Visit) -> OwnAsked | None:
    """Return what the person's own past is to remember of this query."""
    if visit.person is None:
        return None
    key, after = loop.own_key(place), visit.previous
    text = key if isinstance(key, str) else ""
    return OwnAsked(
        person=visit.person,
        text=text,
        vector=vector_text(place.vector) if text else "",
        after_arm=after if isinstance(after, int) else None,
        after_text=after if isinstance(after, str) else "",
    )
