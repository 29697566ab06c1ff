"""The registry of neural rivals: parameters, training task and what training minimises."""

from dataclasses import fields
from typing import Any, NamedTuple

from nextquery.checks import load, one_of
from nextquery.policies.registry import known_params, split
from nextquery.research.neural.options import (
    Gru4RecOptions,
    MethodOptions,
    SasRecOptions,
)
from nextquery.research.neural.serve import AcgOptions, CfanOptions, RinOptions


class Method(NamedTuple):
    """What belongs to a method.

    Parameters
    ----------
    options : the class of its parameters.
    task : the path of its training task, imported only for training since it needs torch.
    clicks : whether it learns from accepted recommendations, in an export of the service's log.
    floor : what training minimises on the validation sessions, in words.
    """

    options: type[MethodOptions]
    task: str
    clicks: bool = False
    floor: str = "1 − MRR@20"

    def task_class(self) -> Any:
        """Import and return the class of the training task."""
        return load(self.task)


METHODS: dict[str, Method] = {
    "gru4rec": Method(Gru4RecOptions, "nextquery.research.neural.gru4rec:Gru4RecTask"),
    "sasrec": Method(SasRecOptions, "nextquery.research.neural.sasrec:SasRecTask"),
    "rin": Method(RinOptions, "nextquery.research.neural.rin:RinTask"),
    "acg": Method(
        AcgOptions,
        "nextquery.research.neural.acg:AcgTask",
        floor="−log P of a word",
    ),
    "cfan": Method(CfanOptions, "nextquery.research.neural.cfan:CfanTask", clicks=True),
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
