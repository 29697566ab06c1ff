"""The network of ACG: words, queries, attention over both, and a switch between two sources."""

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from nextquery.rivals.neural.training.recurrent import Recurrent
from nextquery.rivals.neural.words import END, RARE

_NEVER = -1e30  # a score that has no weight in a softmax
_TINY = 1e-20  # keeps the logarithm of a word that cannot be copied finite


class Said(NamedTuple):
    """What was said in sessions, as attention sees it: (batch, queries, words, …).

    `states` and `keys` are those of the words, `flags` say which are real, and `queries` are the
    states after each query, (batch, queries, hidden).
    """

    states: Any
    keys: Any
    flags: Any
    queries: Any


class AcgNetwork(nn.Module):  # type: ignore[misc]
    """Reads queries word by word and sessions query by query, and predicts words.

    Parameters
    ----------
    words : number of ids of the vocabulary.
    rare : number of words that share the id RARE.
    copy : whether words of the session can be copied.
    """

    def __init__(self, words: int, rare: int, hidden: int, dropout: float, *, copy: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(words, hidden)
        nn.init.normal_(self.words.weight, std=hidden**-0.5)
        self.word_reader = Recurrent(hidden, hidden, both=True)
        self.query_reader = Recurrent(2 * hidden, hidden)
        self.first, self.writer = nn.Linear(hidden, hidden), Recurrent(hidden, hidden)
        self.word_attention = nn.Linear(2 * hidden, hidden, bias=False)
        self.query_attention = nn.Linear(hidden, hidden, bias=False)
        self.joined = nn.Linear(3 * hidden, hidden)
        self.bias = nn.Parameter(torch.zeros(words))
        self.switch = nn.Linear(4 * hidden, 1) if copy else None
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("share", torch.tensor(float(rare)).log(), persistent=False)

    def read_words(self, ids: Any, sizes: Any) -> tuple[Any, Any]:
        """Return the states of the words of queries (n, words), and a vector of each query."""
        every, last = self.word_reader(self.dropout(self.words(ids)), sizes)
        return self.dropout(every), last

    def read_queries(self, vectors: Any) -> Any:
        """Return the state after every query, for vectors (batch, queries, 2·hidden)."""
        return self.dropout(self.query_reader(vectors)[0])

    def write(self, targets: Any, sessions: Any) -> tuple[Any, Any]:
        """Return the rows of the words before each target, and the states that predict the targets.

        `targets` are words (n, length), `sessions` the states of the sessions, (n, hidden).
        """
        start = torch.full_like(targets[:, :1], END)
        before = self.dropout(self.words(torch.cat([start, targets[:, :-1]], dim=1)))
        states, _ = self.writer(before, first=torch.tanh(self.first(sessions)))
        return before, self.dropout(states)

    def attend(self, states: Any, said: Said, known: Any, keys: Any) -> tuple[Any, Any]:
        """Attend to words within queries, and to queries.

        weight(word) = softmax over the queries · softmax over the words of its query

        Parameters
        ----------
        states : those that predict, (batch, places, hidden).
        known : which queries each place knows, (batch, places, queries).
        keys : of the word to predict at each place, (batch, places).

        Returns what was found, (batch, places, 2·hidden), and the weight of the words that have
        the key of the predicted one.
        """
        queries, words = said.flags.shape[1:]
        of_words = self.word_attention(said.states).flatten(1, 2)
        of_words = (states @ of_words.transpose(1, 2)).unflatten(2, (queries, words))
        of_words = of_words.masked_fill(~said.flags[:, None], _NEVER).softmax(dim=-1)
        of_queries = states @ self.query_attention(said.queries).transpose(1, 2)
        of_queries = of_queries.masked_fill(~known, _NEVER).softmax(dim=-1)
        weights = (of_words * of_queries[..., None]).flatten(2)
        same = keys[:, :, None] == said.keys.flatten(1)[:, None]
        found = weights @ said.states.flatten(1, 2)
        return found, (weights * (same & said.flags.flatten(1)[:, None])).sum(dim=-1)

    def logs(self, states: Any, found: Any, before: Any, targets: Any, copied: Any) -> Any:
        """Return log P of words, for rows (n, …) of everything that predicts them.

        P(word) = p · copied + (1 − p) · softmax(word), with a switch p
        """
        out = self.dropout(torch.tanh(self.joined(torch.cat([states, found], dim=1))))
        scores = functional.linear(out, self.words.weight, self.bias)
        made = scores.log_softmax(dim=1).gather(1, targets[:, None])[:, 0]
        made = made - self.share * (targets == RARE)
        if self.switch is None:
            return made
        switch = self.switch(torch.cat([states, found, before], dim=1))[:, 0]
        from_session = functional.logsigmoid(switch) + (copied + _TINY).log()
        return torch.logaddexp(from_session, functional.logsigmoid(-switch) + made)


class Served(nn.Module):  # type: ignore[misc]
    """Scores candidates for one session: the mean of log P over their words and their end."""

    def __init__(self, network: AcgNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, words: Any, keys: Any, sizes: Any, targets: Any, target_keys: Any, target_sizes: Any
    ) -> Any:
        """Return the scores (n,) of candidates; for the arguments see `words.WordRows`."""
        net = self.network
        states, vectors = net.read_words(words, sizes)
        queries = net.read_queries(vectors[None])
        flags = torch.arange(words.shape[1], device=words.device) < sizes[:, None]
        said = Said(states[None], keys[None], flags[None], queries)
        count, length = targets.shape
        before, predicts = net.write(targets, queries[0, -1:].expand(count, -1))
        predicts = predicts.flatten(0, 1)
        known = torch.ones_like(target_keys.flatten()[:, None] + sizes[None], dtype=torch.bool)
        found, copied = net.attend(predicts[None], said, known[None], target_keys.flatten()[None])
        logs = net.logs(predicts, found[0], before.flatten(0, 1), targets.flatten(), copied[0])
        real = torch.arange(length, device=words.device) <= target_sizes[:, None]
        return (logs.unflatten(0, (count, length)) * real).sum(dim=1) / (target_sizes + 1)
