"""The fields of a state: how they begin, are copied, and become the bytes of a snapshot."""

from copy import deepcopy
from dataclasses import asdict
from typing import Self

from nextquery.catalogue.rules import Pins
from nextquery.checks import as_text_array, from_text_array
from nextquery.learning import Learnt
from nextquery.memory import LiveMemory, People
from nextquery.policies import RandomPolicy
from nextquery.service.log.events import ArmAdded, ArmHeld, LeftOut, ModelEvent, PoolAnnounced
from nextquery.service.log.teaching import RollBacks
from nextquery.service.model.arrays import Arrays, packed, under, unpacked, within
from nextquery.service.model.experiment.branches import Branch, restored_besides
from nextquery.service.model.experiment.comparison import Comparison
from nextquery.service.model.experiment.interleaving import Interleaving
from nextquery.service.model.model_events import beside, described, event_of, restored
from nextquery.service.model.statistics import Statistics


class StateFields:
    """All that a state keeps of the log.

    A new field needs its place in `arrays` and `from_bytes`, and in `copy` if it changes in place.
    """

    def __init__(self) -> None:
        self.position = 0
        self.model = 0  # position of the model event in force
        self.lineage: list[int] = []  # the models whose live learning it has; it is the last
        self.named: dict[int, str] = {}  # the name in those of them that had several policies
        self.beside: dict[str, Branch] = {}  # policies that get a share of the sessions
        self.left_out: dict[int, tuple[int, ...]] = {}  # by position of the event: decisions
        self._unused: set[int] = set()  # all of those decisions
        self.roll_backs = RollBacks()
        self.fallen: dict[str, int] = {}  # policies that fell back, by position of the event
        self.comparison: Comparison | None = None  # of the policies that share the sessions
        self.interleaving: Interleaving | None = None  # of two that share the slates
        self._foreseen = 0  # events of `FORESEEN` up to here are in force from the start
        self.stale = False
        self.arms_used_up = 0  # arm ids below this are, even if the event of an arm is void
        self.model_event: ModelEvent | None = None  # that event, without its arrays
        self.announced: PoolAnnounced | None = None  # the pool that comes next
        self.learnt = Learnt(RandomPolicy())  # until a model event names the policy
        self.statistics = Statistics()
        self.added: list[ArmAdded] = []
        self.held: dict[str, ArmHeld] = {}  # texts that wait for review
        self.removed: set[int] = set()
        self.blocked: set[str] = set()
        self.patterns: set[str] = set()
        self.pins = Pins()
        self.on = True

    def _leave_out(self, position: int, body: LeftOut) -> None:
        if body.undoes is None:
            self.left_out[position] = body.decisions
        else:
            self.left_out.pop(body.undoes, None)
        self._unused = {at for positions in self.left_out.values() for at in positions}

    def arrays(self) -> Arrays:
        """Return the whole state as arrays; equal states give equal arrays."""
        fields = {
            "position": self.position,
            "model": self.model,
            "meta": {} if self.model_event is None else described(self.model_event),
            "lineage": self.lineage,
            "named": sorted(self.named.items()),
            "beside": {name: branch.lineage for name, branch in self.beside.items()},
            "roll_backs": self.roll_backs.state(),
            "fallen": self.fallen,
            "comparison": None if self.comparison is None else self.comparison.state(),
            "interleaving": None if self.interleaving is None else self.interleaving.state(),
            "left_out": sorted(self.left_out.items()),
            "arms_used_up": self.arms_used_up,
            "added": [[arm.arm, arm.text, arm.shown, arm.vector] for arm in self.added],
            "held": [[arm.text, arm.shown, arm.vector] for arm in self.held.values()],
            "removed": sorted(self.removed),
            "blocked": sorted(self.blocked),
            "patterns": sorted(self.patterns),
            "pins": [list(pin) for pin in self.pins],
            "announced": None if self.announced is None else asdict(self.announced),
            "on": self.on,
        }
        others: Arrays = {}
        for number, branch in enumerate(self.beside.values()):
            others |= under(f"{beside(number)}/policy", branch.policy.state())
            others |= under(f"{beside(number)}/calibration", branch.calibration)
        return {
            "fields": as_text_array(fields),
            **under("policy", self.learnt.policy.state() if self.model else {}),
            **under("calibration", self.learnt.calibration),
            **others,
            **under("memory", self.learnt.live.state()),
            **under("people", self.learnt.people.state()),
            **under("statistics", self.statistics.state()),
        }

    def copy(self) -> Self:
        """Return an independent copy, fast enough to hold the lock that guards this one."""
        twin = type(self)()
        twin.__dict__.update(self.__dict__)
        twin.lineage, twin.left_out = list(self.lineage), dict(self.left_out)
        twin.named, twin.beside = dict(self.named), deepcopy(self.beside)
        twin.roll_backs, twin.fallen = self.roll_backs.copy(), dict(self.fallen)
        twin.comparison = None if self.comparison is None else self.comparison.copy()
        twin.interleaving = None if self.interleaving is None else self.interleaving.copy()
        twin.added, twin.removed, twin.blocked = [*self.added], {*self.removed}, {*self.blocked}
        twin.patterns, twin.pins = {*self.patterns}, self.pins.copy()
        twin.held = dict(self.held)
        twin.learnt = Learnt(
            deepcopy(self.learnt.policy),
            self.learnt.calibration,
            self.learnt.live.copy(),
            self.learnt.people.copy(),
        )
        twin.statistics = self.statistics.copy()
        return twin

    def to_bytes(self) -> bytes:
        """Return a snapshot."""
        return packed(self.arrays())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Restore the state that `to_bytes` wrote."""
        arrays, self = unpacked(data), cls()
        fields = from_text_array(arrays["fields"])
        self.position, self.model, self.on = fields["position"], fields["model"], fields["on"]
        self.blocked, self.patterns = set(fields["blocked"]), set(fields["patterns"])
        for after, text in fields["pins"]:
            self.pins.pin(text, after)
        self.added = [ArmAdded(*values) for values in fields["added"]]
        self.held = {values[0]: ArmHeld(*values) for values in fields["held"]}
        self.removed = set(fields["removed"])
        if fields["announced"] is not None:
            self.announced = PoolAnnounced(**fields["announced"])
        self.arms_used_up, self.lineage = fields["arms_used_up"], fields["lineage"]
        for at, positions in fields["left_out"]:
            self._leave_out(at, LeftOut(decisions=tuple(positions)))
        self.roll_backs = RollBacks.from_state(fields["roll_backs"])
        self.fallen = fields["fallen"]
        if fields["comparison"] is not None:
            self.comparison = Comparison.from_state(fields["comparison"])
        if fields["interleaving"] is not None:
            self.interleaving = Interleaving.from_state(fields["interleaving"])
        if fields["meta"]:
            event = event_of(fields["meta"])
            self.model_event, self.learnt.policy = restored(event, arrays)
            self.learnt.calibration = within(arrays, "calibration")
            self.named = dict(fields["named"])
            self.beside = restored_besides(self.model_event, arrays, fields["beside"])
        self.learnt.live = LiveMemory.from_state(within(arrays, "memory"))
        self.learnt.people = People.from_state(within(arrays, "people"))
        self.statistics = Statistics.from_state(within(arrays, "statistics"))
        return self
