"""Export for VowpalWabbit: one `--cb_explore_adf` example per answered entry, with propensity."""

from collections.abc import Iterator
from typing import BinaryIO

from nextquery.service.log.events import SlateEntry
from nextquery.service.log.exchange.rounds import Round, rounds
from nextquery.service.log.store import Store


def vw_pages(store: Store, sink: BinaryIO) -> Iterator[None]:
    """Write the examples page by page."""
    for page in rounds(store):
        sink.writelines(example(one).encode() for one in page)
        yield


def example(one: Round) -> str:
    """Return an entry as an example: cost −reward, and the propensity given the entries above.

    Its actions are the entries from its place down, in order of their arms, so that the place of
    the chosen one says nothing. Candidates that were not shown are not in the log. Namespaces: `q`
    the words of the query, `a` those of the action, `n` its similarity, `x` the policy's features.
    """
    left = [entry for entry in one.decision.body.slate[one.ordinal :] if entry.arm >= 0]
    actions = "".join(
        _action(entry, _label(one) if entry is one.entry else "")
        for entry in sorted(left, key=lambda entry: entry.arm)
    )
    return f"shared |q {words(one.decision.body.query)}\n{actions}\n"


def _label(one: Round) -> str:
    return f"0:{-one.reward}:{one.entry.propensity:.9g} "


def _action(entry: SlateEntry, label: str) -> str:
    numbers = " ".join(
        f"{at}:{value:.6g}" for at, value in enumerate(entry.features) if value != 0.0
    )
    return f"{label}|a {words(entry.text)} |n similarity:{entry.similarity:.6g} |x {numbers}\n"


def words(text: str) -> str:
    """Return the words of a text without the characters that mean something to VW.

    >>> words("c++ a:b | x")
    'c++ a_b _ x'
    """
    return " ".join(text.replace(":", "_").replace("|", "_").split())
