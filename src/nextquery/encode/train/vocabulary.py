"""A WordPiece vocabulary trained on the texts of the log."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, UNKNOWN, CLS, SEP, MASK = range(5)
_ALPHABET = 1_000  # characters kept, as by the trainer
_TEXTS = 1 << 12  # texts read at once


def learn(texts: Sequence[str], size: int) -> bytes:
    """Train a BERT tokenizer with at most `size` word pieces, and return it as JSON.

    >>> from tokenizers import Tokenizer
    >>> made = Tokenizer.from_buffer(learn(["red cat", "red dog"] * 3, 100))
    >>> made.encode("red dog").tokens
    ['[CLS]', 'red', 'dog', '[SEP]']

    Reference: Wu et al. (2016), section 4.1, for word pieces.
    """
    from tokenizers import models, trainers

    # The trainer numbers pieces inside a word in hash order, and breaks ties by number. Passing
    # them as special tokens fixes their order, so the same texts give the same bytes.
    inside = [f"##{character}" for character in _characters(texts)]
    learnt = _tokenizer(models.WordPiece(unk_token="[UNK]"))
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=[*SPECIAL, *inside], show_progress=False
    )
    learnt.train_from_iterator(texts, trainer)
    tokenizer = _tokenizer(models.WordPiece(learnt.get_vocab(), unk_token="[UNK]"))
    tokenizer.add_special_tokens(list(SPECIAL))
    return str(tokenizer.to_str()).encode()


def _tokenizer(model: Any) -> Any:
    from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors

    tokenizer: Any = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", SEP), ("[CLS]", CLS))
    return tokenizer


def _characters(texts: Sequence[str]) -> list[str]:
    """Return the most common characters of the texts after normalisation, sorted."""
    from tokenizers import normalizers

    clean = normalizers.BertNormalizer().normalize_str
    counts: Counter[str] = Counter()
    for at in range(0, len(texts), _TEXTS):
        counts.update(clean(" ".join(texts[at : at + _TEXTS])))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return sorted(name for name, _ in ranked[:_ALPHABET] if not name.isspace())
