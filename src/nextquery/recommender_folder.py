"""Save a recommender to a folder and open it: pool, policy, what was learnt, and options."""

import os
from typing import TYPE_CHECKING, Any

from nextquery import folders
from nextquery.arms.pool import ArmPool
from nextquery.catalogue import EncodesTexts
from nextquery.encode.base import Encoder
from nextquery.errors import InvalidInput
from nextquery.memory import LiveMemory, Memory, People
from nextquery.outcomes import Learning
from nextquery.params import class_named
from nextquery.policies.base import Policy
from nextquery.policies.names import SCHEDULES
from nextquery.select.base import Selector
from nextquery.select.schedule import Schedule
from nextquery.sessions import Sessions

if TYPE_CHECKING:
    from nextquery.recommender import Recommender

KIND, VERSION = "nextquery recommender", 1
_OPTIONS = (
    *("exploration", "seed", "reselect", "repeat", "returns", "recommend_at_least", "add_arms"),
    *("min_letters", "min_hits", "fold_similar"),
)


def write(rec: "Recommender", path: str | os.PathLike[str]) -> None:
    """Write everything except open sessions."""
    encoder = rec.encoder if isinstance(rec.encoder, Encoder) else None
    parts = {**rec.pool.parts(), "policy.npz": rec.policy.state()}
    if encoder is not rec.pool.encoder:
        others = {name: part for name, part in parts.items() if name[:8] != "encoder_"}
        parts = {**others, **({} if encoder is None else encoder.parts())}
    if rec.learnt.calibration:
        parts["calibration.npz"] = rec.learnt.calibration
    if rec.policy.needs_memory:
        parts["memory.npz"] = rec.memory.live.state()
        parts["memory_sessions.npz"] = rec.memory.past.sessions._asdict()
        parts["memory_people.npz"] = rec.memory.people.state()
    meta: dict[str, Any] = {
        **rec.pool.meta(),
        "selector": _described(rec.selector),
        "policy": type(rec.policy).__name__,
        "schedule": None if rec.schedule is None else _described(rec.schedule),
        "options": {name: getattr(rec, name) for name in _OPTIONS},
        "learning": vars(rec.learning),
        "blocked": sorted(rec.catalogue.excluded.texts),
        "patterns": list(rec.catalogue.excluded.patterns),
        "pins": [list(pin) for pin in rec.catalogue.pins],
        "shown": rec.catalogue.spellings(),
        "sessions_started": rec.sessions_started,
        "memory": {"names": list(rec.memory.names), "half_life": rec.memory.half_life},
        "encoder": None if encoder is None else encoder.meta(),
        "needs_encoder": rec.encoder is not None and encoder is None,
    }
    folders.write(path, kind=KIND, version=VERSION, parts=parts, meta=meta)


def read(
    kind: type["Recommender"], path: str | os.PathLike[str], encoder: EncodesTexts | None
) -> "Recommender":
    """Read what `write` wrote."""
    folder = folders.read(path, kind=KIND, version=VERSION)
    meta = folder.meta
    if encoder is None and meta["needs_encoder"]:
        raise InvalidInput(
            f"{path} was saved with a custom encoder, which is not stored in the folder. "
            "Pass it again: Recommender.open(path, encoder=...)."
        )
    selector = class_named(Selector, meta["selector"]["class"])(**meta["selector"]["params"])
    schedule = None if meta["schedule"] is None else _schedule(meta["schedule"])
    policy = class_named(Policy, meta["policy"]).from_state(folder.arrays("policy.npz"))
    memory = None
    if policy.needs_memory:
        live = LiveMemory.from_state(folder.arrays("memory.npz"))
        people = People.from_state(folder.arrays("memory_people.npz"))
        sessions = Sessions(**folder.arrays("memory_sessions.npz"))
        memory = Memory(sessions, live, people=people, **meta["memory"])
    options = {**meta["options"], "memory": memory, "learning": Learning(**meta["learning"])}
    rec = kind(ArmPool.of(folder), selector, policy, encoder, schedule, **options)
    for text in meta["blocked"]:
        rec.catalogue.block_text(text)
    for pattern in meta["patterns"]:
        rec.catalogue.block_pattern(pattern)
    for after, text in meta["pins"]:
        rec.catalogue.pins.pin(text, after)
    rec.catalogue.show({int(arm): text for arm, text in meta["shown"].items()})
    if "calibration.npz" in folder:
        rec.learnt.calibration = folder.arrays("calibration.npz")
    rec.sessions_started = meta["sessions_started"]
    return rec


def _described(thing: Any) -> dict[str, Any]:
    return {"class": type(thing).__name__, "params": thing.get_params()}


def _schedule(described: dict[str, Any]) -> Schedule:
    known = {kind.__name__: kind for kind in SCHEDULES.values()}
    return known[described["class"]](**described["params"])
