"""Run one stage of a training: from its checkpoint, if there is one made from the same data."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nextquery.encode.train.checkpoints import Checkpoints, Note
from nextquery.encode.train.loop import LoopOptions, Objective, Say, Stage, train
from nextquery.errors import StorageError


@dataclass(frozen=True)
class Stages:
    """What all stages of a training share.

    Parameters
    ----------
    options : how often to check, when to stop, the seed.
    every : seconds between two checkpoints.
    work : folder for the checkpoints.
    made_from : hashes and versions that every stage depends on, as JSON.
    autocast : the context that sets the precision of products.
    say : called at each check.
    note : called with a message that you should read.
    """

    options: LoopOptions
    every: float
    work: Path
    made_from: list[Any]
    autocast: Any
    say: Say
    note: Note
    checkpoints: list[Checkpoints] = field(default_factory=list)

    def run(
        self, objective: Objective, floor: Callable[[], float], used: Mapping[str, Any]
    ) -> Stage:
        """Train one stage. `used` are the options that it depends on, as JSON."""
        source = json.dumps([self.made_from, used], sort_keys=True)
        checkpoints = Checkpoints(
            self.work,
            objective.name,
            made_from=hashlib.sha256(source.encode()).hexdigest(),
            every=self.every,
            note=self.note,
        )
        self.checkpoints.append(checkpoints)
        try:
            return train(
                objective,
                floor=floor,
                checkpoints=checkpoints,
                options=self.options,
                autocast=self.autocast,
                say=self.say,
            )
        except StorageError as error:
            resume = (
                f"The last checkpoint is in {self.work}. Run the same command again to continue "
                "from it."
                if any(checkpoint.exists() for checkpoint in self.checkpoints)
                else "There is no checkpoint to continue from. Run the same command again to start "
                "from the beginning."
            )
            raise StorageError(f"{error} {resume}") from error
