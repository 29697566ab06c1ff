"""Makes slates: with the policy of each session, and from similarity alone when that fails."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from nextquery.loop import Loop, Slate, ToRank
from nextquery.memory import Moment
from nextquery.service.answer.experiment.assignment import Assignment, Turn
from nextquery.service.answer.slate.entries import Entries, ToAnswer, drafted, own_asked
from nextquery.service.log.events import DecisionEvent, SlateEntry, bytes_text
from nextquery.service.log.store import Clock
from nextquery.service.settings import CONTROL

_log = logging.getLogger("nextquery.service")
_FAILED = "the model failed; similarity answers instead"


class SlateMaker:
    """Makes slates with the model as it is now. Call it while the learner's lock is held.

    `offer` is called with the id of a decision and its ranked slate, unless two policies share it.
    """

    def __init__(
        self,
        assignment: Assignment,
        clock: Clock,
        *,
        repeat: bool,
        offer: Callable[[str, Slate], None],
    ) -> None:
        self.assignment, self.loop, self.learner = assignment, assignment.loop, assignment.learner
        self.entries = Entries(self.loop, repeat=repeat)
        self._clock, self._offer = clock, offer

    def slates(self, asked: Sequence[ToAnswer]) -> list[DecisionEvent]:
        """Return decision events; without entries while the switch is off."""
        on = self.learner.state.on
        turns = [self.assignment.turn(one.request) for one in asked]
        ranked = self._ranked(asked, [turn.answers for turn in turns] if on else [])
        partners = self._ranked(asked, list(map(self.assignment.partner, turns)) if on else [])
        empty = [self._empty(one) for one in asked]
        return [
            body if not on else self._filled(body, one, turn, slate, partner)
            for body, one, turn, slate, partner in zip(
                empty, asked, turns, ranked, partners, strict=True
            )
        ]

    def _empty(self, asked: ToAnswer) -> DecisionEvent:
        request, place, visit, selected = asked
        state = self.learner.state
        return DecisionEvent(
            query=place.query,
            m=request.m,
            anchor_arm=place.arm,
            history=visit.history,
            seen=visit.seen,
            trial=visit.trial + 1,
            slate=(),
            policy="off",
            model=state.model,
            model_version=state.position,
            fallback=False,
            not_searched=selected.missing,
            at_least=request.at_least,
            own=own_asked(self.loop, place, visit),
            kept=self.loop.kept(place, visit, selected),
            segment=place.segment,
        )

    def _ranked(self, asked: Sequence[ToAnswer], policies: Sequence[str]) -> list[Slate | None]:
        """Rank together; None where no policy does, or similarity answers instead."""
        found: list[Slate | None] = [None] * len(asked)
        groups: dict[str, list[int]] = {}
        for number, policy in enumerate(policies):
            if policy and not asked[number].request.fallback:
                groups.setdefault(policy, []).append(number)
        for policy, numbers in groups.items():
            slates = self._together(self.assignment.loop_of(policy), [asked[n] for n in numbers])
            for number, slate in zip(numbers, slates, strict=True):
                found[number] = slate
        return found

    def _together(self, loop: Loop, asked: Sequence[ToAnswer]) -> Sequence[Slate | None]:
        try:
            return loop.rank_many([self._to_rank(one) for one in asked], Moment(self._clock.now()))
        except Exception:  # people get an answer even if the model is broken
            if len(asked) > 1:  # one of them must not take the others with it
                return [slate for one in asked for slate in self._together(loop, [one])]
            _log.exception(_FAILED)
        return [None]

    def _to_rank(self, asked: ToAnswer) -> ToRank:
        request, place, visit, selected = asked
        rng = self.loop.draws(request.session_id, visit.trial + 1)
        return ToRank(place, visit, selected, request.m, rng, request.at_least)

    def _filled(
        self,
        body: DecisionEvent,
        asked: ToAnswer,
        turn: Turn,
        slate: Slate | None,
        partner: Slate | None = None,
    ) -> DecisionEvent:
        request, place = asked.request, asked.place
        if slate is not None:
            try:
                pins = [choice.arm for choice in slate.choices if choice.pinned]
                loop = self.assignment.loop_of(turn.answers)
                entries = self.entries.by_policy(loop, slate, asked)
                above = self.entries.pinned(pins, place)
                if partner is not None:
                    return self._drafted(body, asked, turn, entries, partner, above)
                self._offer(request.decision_id, slate)
                return replace(
                    body,
                    slate=(*above, *entries),
                    policy=turn.answers,
                    assigned=turn.assigned if turn.fallen else "",
                    fallback=turn.fallen,
                    candidates=int((slate.candidates.arms >= 0).sum()),
                    failures=bytes_text(slate.failures),
                )
            except Exception:
                _log.exception(_FAILED)
        entries, candidates = self.entries.similar(asked)
        divided = len(self.learner.state.shares) > 1
        return replace(
            body,
            slate=entries,
            policy=CONTROL,
            assigned=turn.assigned if divided and turn.assigned != CONTROL else "",
            fallback=True,
            candidates=candidates,
        )

    def _drafted(
        self,
        body: DecisionEvent,
        asked: ToAnswer,
        turn: Turn,
        entries: Sequence[SlateEntry],
        partner: Slate,
        above: Sequence[SlateEntry],
    ) -> DecisionEvent:
        """Draft a slate from the rankings of two policies, below what is pinned."""
        other = self.assignment.partner(turn)
        rankings = (entries, self.entries.by_policy(self.assignment.loop_of(other), partner, asked))
        coins = self.assignment.coins(asked.request, body.trial)
        names, length = (turn.answers, other), asked.request.m - len(above)
        return replace(
            body,
            slate=(*above, *drafted(names, rankings, length, coins)),
            policy=" + ".join(names),
            assigned=turn.assigned,
            candidates=len(asked.selected),
        )
