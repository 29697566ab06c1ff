"""Save a recommender to a folder and open it: pool, policy, what was learnt, and options."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nextquery import folders
from nextquery.arms.pool import ArmPool
from nextquery.catalogue.catalogue import EncodesTexts
from nextquery.checks import class_named, path_of
from nextquery.encode.encoder import Encoder
from nextquery.errors import InvalidInput
from nextquery.memory import LiveMemory, Memory, People
from nextquery.outcomes import Learning
from nextquery.policies.policy import Policy
from nextquery.policies.registry import POLICIES, SCHEDULES, SELECTIONS, name_of, policy_class
from nextquery.selection.schedule import Schedule
from nextquery.selection.selector import Selector
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
        "selector": _described(rec.selector, Selector, SELECTIONS),
        "policy": name_of(rec.policy) or path_of(type(rec.policy)),
        "schedule": None if rec.schedule is None else _described(rec.schedule, Schedule, SCHEDULES),
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
    """Read a recommender."""
    folder = folders.read(path, kind=KIND, version=VERSION)
    meta = folder.meta
    if encoder is None and meta["needs_encoder"]:
        raise InvalidInput(
            f"{path} was saved with a custom encoder, which is not stored in the folder. "
            "Pass it again: Recommender.open(path, encoder=...)."
        )
    selector = _created(meta["selector"], Selector, SELECTIONS)
    schedule = None
    if meta["schedule"] is not None:
        schedule = _created(meta["schedule"], Schedule, SCHEDULES)
    name = meta["policy"]
    learner = policy_class(name) if name in POLICIES else _own(name, Policy, POLICIES)
    policy = learner.from_state(folder.arrays("policy.npz"))
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


def _described(thing: Any, base: type[Any], known: Mapping[str, Any]) -> dict[str, Any]:
    kind = type(thing)
    names = [name for name, registered in known.items() if registered is kind]
    if not names and base not in kind.__mro__:
        raise InvalidInput(
            f"{kind.__name__} is not a {base.__name__}, so the saved folder could not be opened. "
            f"Derive the class from {base.__name__}."
        )
    return {"name": names[0] if names else path_of(kind), "params": thing.get_params()}


def _created(described: Mapping[str, Any], base: type[Any], known: Mapping[str, Any]) -> Any:
    name = described["name"]
    kind = known[name] if name in known else _own(name, base, known)
    return kind(**described["params"])


def _own(name: str, base: type[Any], known: Mapping[str, Any]) -> Any:
    """Return a class of the user's own by its path, which needs to be imported."""
    if ":" in name:
        return class_named(base, name)
    raise InvalidInput(
        f"there is no {base.__name__} registered as {name!r} among {', '.join(known)}. If it is "
        "yours, register it before you open the folder."
    )
