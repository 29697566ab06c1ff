"""The registry of neural methods: their parameters, their training task and their rival.

To add one: its parameters in `options.py` (or a file of its own), its task in ``training/``, its
rival if it scores in a way of its own, and a line here. Everything else follows: the command
``nextquery train``, the registry of rivals, checkpoints, the model's folder.
"""

import importlib
from dataclasses import fields
from typing import Any, NamedTuple

from nextquery.checks import one_of
from nextquery.policies.names import known_params, split
from nextquery.rivals.neural.acg import Acg, AcgOptions
from nextquery.rivals.neural.cfan import Cfan, CfanOptions
from nextquery.rivals.neural.next_item import Gru4Rec, SasRec
from nextquery.rivals.neural.options import Gru4RecOptions, MethodOptions, SasRecOptions
from nextquery.rivals.neural.rin import Rin, RinOptions
from nextquery.rivals.neural.rival import NeuralRival

_TASKS = "nextquery.rivals.neural.training"


class Method(NamedTuple):
    """What belongs to a method.

    Parameters
    ----------
    options : the class of its parameters.
    task : module and class of its training task, imported only for training since it needs torch.
    rival : the class that ranks with a trained model.
    clicks : whether it learns from accepted recommendations, in an export of the service's log.
    floor : what training minimises on the validation sessions, in words.
    """

    options: type[MethodOptions]
    task: str
    rival: type[NeuralRival]
    clicks: bool = False
    floor: str = "1 − MRR@20"

    def task_class(self) -> Any:
        """Import and return the class of the training task."""
        module, _, name = self.task.partition(":")
        return getattr(importlib.import_module(f"{_TASKS}.{module}"), name)


METHODS: dict[str, Method] = {
    "gru4rec": Method(Gru4RecOptions, "gru4rec:Gru4RecTask", Gru4Rec),
    "sasrec": Method(SasRecOptions, "sasrec:SasRecTask", SasRec),
    "rin": Method(RinOptions, "rin:RinTask", Rin),
    "acg": Method(AcgOptions, "words.acg:AcgTask", Acg, floor="−log P of a word"),
    "cfan": Method(CfanOptions, "clicks.cfan:CfanTask", Cfan, clicks=True),
}


def parameters_of(name: str) -> dict[str, Any]:
    """Return the parameters of a method with their defaults.

    >>> parameters_of("sasrec")["heads"]
    1
    """
    kind = METHODS[one_of(split(name)[0], "method", METHODS)].options
    return {field.name: field.default for field in fields(kind)}  # type: ignore[arg-type]


def method_named(name: str) -> tuple[str, MethodOptions]:
    """Return a method and its parameters, by name; a variant sets some of them.

    >>> plain, options = method_named("gru4rec@hidden=32,tied=false")
    >>> plain, options.hidden, options.tied
    ('gru4rec', 32, False)
    """
    plain, given = split(name)
    known = parameters_of(name)
    given = known_params(name, given, known, example="gru4rec@hidden=64,epochs=20")
    flags = {"true": True, "false": False}
    for key, value in given.items():
        if isinstance(known[key], bool):
            given[key] = flags.get(value, value)
    return plain, METHODS[plain].options(**given)
