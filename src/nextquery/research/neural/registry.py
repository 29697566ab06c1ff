"""The neural methods by name: their parameters and training task, and how any training runs.

To add one: its parameters and a line in `METHODS` here, its training task in a module of this
package, and its rival in `research.rivals.registry`. The command ``nextquery train``, checkpoints
and the model folder then follow.
"""

from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, NamedTuple

from nextquery.checks import load, number, one_of, whole_number
from nextquery.errors import InvalidInput
from nextquery.policies.registry import known_params, split

ITEMS = ("text", "learned", "both")
LOSSES = ("cross-entropy", "bpr-max")
DEVICES = ("auto", "cpu", "cuda")
MOST, _WIDEST = 10**9, 1 << 16


@dataclass(frozen=True)
class Running:
    """How a training runs, whatever the method.

    Parameters
    ----------
    checks : maximum number of checks on the validation sessions.
    patience : checks without a lower floor before training stops.
    seed : seed for everything random, below 2³².
    device : ``auto`` (a GPU if there is one), ``cpu`` or ``cuda``.
    checkpoint_seconds : time between two checkpoints; 0 writes one after every step.
    """

    checks: int = 20
    patience: int = 6
    seed: int = 0
    device: str = "auto"
    checkpoint_seconds: float = 60.0

    def __post_init__(self) -> None:
        whole_number(self.checks, "checks", at_least=1, at_most=MOST)
        whole_number(self.patience, "patience", at_least=1, at_most=MOST)
        whole_number(self.seed, "seed", at_least=0, at_most=(1 << 32) - 1)
        one_of(self.device, "device", DEVICES)
        number(self.checkpoint_seconds, "checkpoint_seconds", low=0)


class MethodOptions:
    """The parameters of one method: a frozen dataclass, whose fields a variant can set.

    Subclasses check their values in `__post_init__`.
    """

    batch: int
    """Sessions read in a step."""

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as JSON."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]


@dataclass(frozen=True)
class SessionOptions(MethodOptions):
    """What all methods have in common.

    Parameters
    ----------
    hidden : width of the network, at least 1.
    dropout : share of the hidden units dropped in training, in [0, 0.9].
    epochs : passes over the training sessions, at least 1.
    batch : sessions read in a step, at least 2.
    rate : peak step size, above 0.
    length : number of newest queries of a session that are read, at least 1.
    """

    hidden: int = 100
    dropout: float = 0.0
    epochs: int = 10
    batch: int = 64
    rate: float = 0.05
    length: int = 50

    def __post_init__(self) -> None:
        for name in ("hidden", "length"):
            whole_number(getattr(self, name), name, at_least=1, at_most=_WIDEST)
        whole_number(self.epochs, "epochs", at_least=1, at_most=MOST)
        whole_number(self.batch, "batch", at_least=2, at_most=MOST)
        number(self.dropout, "dropout", low=0, high=0.9)
        number(self.rate, "rate", low=0, high=1e6, above_low=True)


class SoftmaxOptions(MethodOptions):
    """What the methods have in common whose loss is a softmax over items.

    `negatives` is how many are drawn for it in every step. None takes all items in logs of up to
    20,000 queries, and 8,192 drawn uniformly in larger ones; 0 always takes all.
    """

    epochs: int
    rate: float
    length: int
    negatives: int | None

    FULL: ClassVar[int] = 20_000
    DRAWN: ClassVar[int] = 8_192

    def drawn(self, items: int) -> int:
        """Return how many of the items to draw; 0: take all."""
        if self.negatives is not None:
            return self.negatives
        return self.DRAWN if items > self.FULL else 0

    def check_negatives(self) -> None:
        """Raise an error if `negatives` is out of its range."""
        if self.negatives is not None:
            whole_number(self.negatives, "negatives", at_least=0, at_most=MOST)


@dataclass(frozen=True)
class NextItemOptions(SessionOptions):
    """What the next-item models have in common.

    Parameters
    ----------
    items : ``text`` (a projection of the pool's vectors, so that every arm has one), ``learned`` (a
        vector for each query of the log, as in the papers; others get no score) or ``both`` (their
        sum).
    layers : number of layers of the network, at least 1.
    """

    items: str = "text"
    layers: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.items, "items", ITEMS)
        whole_number(self.layers, "layers", at_least=1, at_most=100)


@dataclass(frozen=True)
class Gru4RecOptions(NextItemOptions):
    """Parameters of GRU4Rec, named as in its official code where it has them.

    Parameters
    ----------
    loss : ``cross-entropy`` or ``bpr-max``, over the batch's other targets and drawn negatives.
    negatives : negatives drawn for every step, at least 0 (`n_sample`).
    popularity : power of an item's count in these draws, in [0, 1] (`sample_alpha`).
    tied : whether inputs and outputs share their vectors (`constrained_embedding`).
    momentum : of Adagrad, in [0, 1).
    embedding_dropout : share of an input's entries dropped in training (`dropout_p_embed`).
    logq : how much of log(popularity) to take from the scores, in [0, 1]; cross-entropy only.
    elu : the ELU on scores, 0 for none; bpr-max only (`elu_param`).
    regularisation : weight of the squared scores of negatives; bpr-max only (`bpreg`).
    """

    loss: str = "cross-entropy"
    negatives: int = 2048
    popularity: float = 0.5
    tied: bool = True
    momentum: float = 0.0
    embedding_dropout: float = 0.0
    logq: float = 0.0
    elu: float = 0.5
    regularisation: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.loss, "loss", LOSSES)
        whole_number(self.negatives, "negatives", at_least=0, at_most=MOST)
        for name, high in (("popularity", 1), ("momentum", 0.999), ("embedding_dropout", 0.9)):
            number(getattr(self, name), name, low=0, high=high)
        number(self.logq, "logq", low=0, high=1)
        number(self.elu, "elu", low=0)
        number(self.regularisation, "regularisation", low=0)
        if not isinstance(self.tied, bool):
            raise InvalidInput(f"tied must be true or false; received {self.tied!r}.")


@dataclass(frozen=True)
class SasRecOptions(NextItemOptions, SoftmaxOptions):
    """Parameters of SASRec.

    Parameters
    ----------
    heads : attention heads; `hidden` is a multiple of them.
    negatives : how many are drawn in a step; see `SoftmaxOptions`.
    """

    layers: int = 2
    dropout: float = 0.2
    hidden: int = 64
    epochs: int = 20
    batch: int = 128
    rate: float = 1e-3
    heads: int = 1
    negatives: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number(self.heads, "heads", at_least=1)
        if self.hidden % self.heads:
            raise InvalidInput(
                f"hidden must be a multiple of heads; received {self.hidden} and {self.heads}."
            )
        self.check_negatives()


@dataclass(frozen=True)
class CfanOptions(SessionOptions):
    """Parameters of CFAN.

    Parameters
    ----------
    negatives : queries drawn for each pair, beside those that were shown and not accepted.
    perturbation : size ε of the change to a session's vectors that makes an adversarial example.
    adversarial : weight of the loss on adversarial examples, at least 0.
    """

    hidden: int = 64
    dropout: float = 0.2
    epochs: int = 20
    batch: int = 64
    rate: float = 2e-3
    length: int = 50
    negatives: int = 20
    perturbation: float = 0.5
    adversarial: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number(self.negatives, "negatives", at_least=0, at_most=MOST)
        number(self.perturbation, "perturbation", low=0, high=1e6)
        number(self.adversarial, "adversarial", low=0, high=1e6)


@dataclass(frozen=True)
class RinOptions(SessionOptions, SoftmaxOptions):
    """Parameters of RIN.

    Parameters
    ----------
    inference : weight of the squared error of the inferred reformulation, at least 0.
    negatives : how many are drawn in a step; see `SoftmaxOptions`.
    """

    hidden: int = 128
    dropout: float = 0.2
    epochs: int = 20
    batch: int = 128
    rate: float = 1e-3
    inference: float = 10.0
    negatives: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        number(self.inference, "inference", low=0, high=1e6)
        self.check_negatives()


@dataclass(frozen=True)
class AcgOptions(SessionOptions):
    """Parameters of ACG.

    Parameters
    ----------
    vocabulary : number of words that it knows, the most frequent of the training sessions; it can
        only copy others.
    words : number of words of a query that are read, at least 1.
    copy : whether it can copy words of the session.
    """

    hidden: int = 128
    dropout: float = 0.2
    epochs: int = 10
    batch: int = 32
    rate: float = 2e-3
    length: int = 10
    vocabulary: int = 10_000
    words: int = 20
    copy: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number(self.vocabulary, "vocabulary", at_least=1, at_most=MOST)
        whole_number(self.words, "words", at_least=1, at_most=1000)
        if not isinstance(self.copy, bool):
            raise InvalidInput(f"copy must be true or false; received {self.copy!r}.")


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
