"""The likelihood of the next queries of a batch of sessions, word by word."""

from typing import Any

import torch

from nextquery.rivals.neural.training.batches import Batch
from nextquery.rivals.neural.training.words.network import AcgNetwork, Said
from nextquery.rivals.neural.words import WordRows
from nextquery.sessions import Ids


class ItemWords:
    """The words of every item."""

    def __init__(self, rows: WordRows, device: Any) -> None:
        self.all, self.device = rows, device

    def rows(self, items: Ids) -> tuple[Any, Any, Any]:
        """Return `WordRows` of some items as tensors, no wider than they need."""
        ids, keys, sizes = (each[items] for each in self.all)
        width = int(sizes.max()) + 1
        cut = (ids[:, :width].copy(), keys[:, :width].copy(), sizes)
        words, same, counts = (torch.from_numpy(row).to(self.device) for row in cut)
        return words, same, counts


def log_likelihoods(net: AcgNetwork, of_items: ItemWords, batch: Batch) -> Any:
    """Return log P of all words of a batch's targets, and of their ends, one after another.

    A session is read once for all its steps: each attends only to the queries up to its own.
    """
    sessions, queries = batch.steps.shape
    device = batch.items.device
    words, keys, sizes = of_items.rows(batch.items[batch.steps].cpu().numpy())
    words, keys = words[:, :-1], keys[:, :-1]  # without END
    states, vectors = net.read_words(words, sizes)

    def placed(rows: Any) -> Any:
        """Put rows, one for each query, where they belong in their sessions."""
        there = rows.new_zeros(sessions, queries, *rows.shape[1:])
        there[batch.steps] = rows
        return there

    known = net.read_queries(placed(vectors))
    flags = torch.arange(words.shape[1], device=device) < sizes[:, None]
    said = Said(placed(states), placed(keys), placed(flags), known)
    targets, target_keys, ends = of_items.rows(batch.targets.cpu().numpy())
    before, predicts = net.write(targets, known[batch.steps])
    length = targets.shape[1]
    places = torch.arange(queries, device=device)
    so_far = (places[:, None] >= places).repeat_interleave(length, dim=0)
    found, copied = net.attend(
        placed(predicts).flatten(1, 2),
        said,
        so_far.expand(sessions, -1, -1),
        placed(target_keys).flatten(1, 2),
    )
    real = torch.arange(length, device=device) <= ends[:, None]
    found = found.unflatten(1, (queries, length))[batch.steps][real]
    copied = copied.unflatten(1, (queries, length))[batch.steps][real]
    return net.logs(predicts[real], found, before[real], targets[real], copied)
