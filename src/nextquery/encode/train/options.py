"""Options of a training run; the defaults follow the paper where it gives values."""

from dataclasses import asdict, dataclass
from typing import Any

from nextquery.checks import number, one_of, whole_number
from nextquery.errors import InvalidInput

METHODS = ("bert", "contrastive")
DEVICES = ("auto", "cpu", "cuda")
PRECISIONS = ("auto", "float32", "bfloat16")
_WIDEST, _MOST = 1 << 16, 10**9
_BETWEEN = {  # a value above the upper end is a typo: far beyond the memory of any machine
    "dim": (1, _WIDEST),
    "vocabulary": (100, 10**7),
    "layers": (1, 1_000),
    "hidden": (1, _WIDEST),
    "heads": (1, _WIDEST),
    "intermediate": (1, _WIDEST),
    "epochs": (1, _MOST),
    "batch_tokens": (16, _MOST),
    "max_tokens": (4, _WIDEST),
    "max_line": (8, _WIDEST),
    "steps": (1, _MOST),
    "pairs": (2, _MOST),
    "checks": (1, _MOST),
    "patience": (1, _MOST),
    "seed": (0, (1 << 32) - 1),  # it is combined with the step number into one torch seed
}
_FASTEST = 1e6


@dataclass(frozen=True)
class TrainOptions:
    """How to train. Counts are at least 1 and rates above 0 unless stated otherwise.

    Parameters
    ----------
    method : ``bert`` (masked-LM, as published) or ``contrastive`` (on sessions, on top of it).
    start : a sentence-transformers model, by name or folder, instead of the masked-LM stage.
    dim : dimensions after the contrastive projection, at most the model's own (`hidden` from
        scratch); the vectors of ``bert`` have `hidden` dimensions.
    vocabulary, layers, hidden, heads, intermediate : size of the BERT trained from scratch; at
        least 100 word pieces, `hidden` a multiple of `heads`.
    epochs, mask, mlm_rate, batch_tokens : for the masked-LM stage; `mask` is the share of tokens
        hidden, `batch_tokens` the approximate number that a step reads (16 or more).
    max_tokens, max_line : longer queries, or lines of joined queries, are cut (at least 4 and 8).
    steps, pairs, temperature, rate, weight_decay : for the contrastive stage; `pairs` in a step
        (2 or more, each from a different session); `rate` None means 1e-3 from scratch, and with
        `start` 1e-4, or 3e-4 for 50,000 or more sessions.
    residual : add a table of token vectors, trained with the model, to the projected vector.
    checks : maximum number of checks on the held-out sessions per stage.
    patience : checks without a lower floor before the contrastive stage stops.
    seed : seed for everything random, below 2³².
    device : ``auto`` (a GPU if there is one), ``cpu`` or ``cuda``.
    precision : ``auto`` (bfloat16 products on a GPU), ``float32`` or ``bfloat16``.
    checkpoint_seconds : time between two checkpoints; 0 writes one after every step.
    static : also distil the encoder into a table of token vectors.

    >>> TrainOptions().layers, TrainOptions(method="contrastive").rate_for(1_000)
    (4, 0.001)
    """

    method: str = "bert"
    start: str | None = None
    dim: int = 128
    vocabulary: int = 25_000
    layers: int = 4
    hidden: int = 128
    heads: int = 4
    intermediate: int = 256
    epochs: int = 36
    mask: float = 0.15
    mlm_rate: float = 1e-3
    batch_tokens: int = 32_768
    max_tokens: int = 64
    max_line: int = 256
    steps: int = 1_000
    pairs: int = 4_096
    temperature: float = 0.05
    rate: float | None = None
    weight_decay: float = 0.05
    residual: bool = False
    checks: int = 20
    patience: int = 6
    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    checkpoint_seconds: float = 60.0
    static: bool = True

    def __post_init__(self) -> None:
        one_of(self.method, "method", METHODS)
        one_of(self.device, "device", DEVICES)
        one_of(self.precision, "precision", PRECISIONS)
        for name, (least, most) in _BETWEEN.items():
            whole_number(getattr(self, name), name, at_least=least, at_most=most)
        number(self.mask, "mask", low=0, high=0.9, above_low=True)
        number(self.temperature, "temperature", low=0.01, high=1)
        number(self.mlm_rate, "mlm_rate", low=0, high=_FASTEST, above_low=True)
        number(self.weight_decay, "weight_decay", low=0, high=_FASTEST)
        number(self.checkpoint_seconds, "checkpoint_seconds", low=0)
        if self.rate is not None:
            number(self.rate, "rate", low=0, high=_FASTEST, above_low=True)
        self._check_combinations()

    def _check_combinations(self) -> None:
        if self.hidden % self.heads:
            raise InvalidInput(
                f"hidden must be a multiple of heads; received {self.hidden} and {self.heads}. "
                "The paper uses 128 and 4."
            )
        if self.method == "bert" and (self.start is not None or self.residual):
            raise InvalidInput(
                "start and residual belong to the method contrastive; received method bert. "
                "Use --method contrastive, or omit them."
            )
        scratch = self.start is None and self.method == "contrastive"
        if scratch and self.dim > self.hidden:
            raise InvalidInput(
                f"dim must be at most hidden, {self.hidden}; received {self.dim}. Use --dim "
                f"{self.hidden} or fewer, or a larger --hidden."
            )

    def rate_for(self, n_sessions: int) -> float:
        """Return the step size of the contrastive stage."""
        if self.rate is not None:
            return self.rate
        if self.start is None:
            return 1e-3
        return 3e-4 if n_sessions >= 50_000 else 1e-4

    def to_dict(self) -> dict[str, Any]:
        """Return the options as JSON."""
        return asdict(self)
