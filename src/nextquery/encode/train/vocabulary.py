"""The log's own words: a WordPiece vocabulary learnt from its texts."""

from collections.abc import Sequence
from typing import Any

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, UNKNOWN, CLS, SEP, MASK = range(5)


def learn(texts: Sequence[str], size: int) -> bytes:
    """A BERT tokenizer with at most `size` word pieces, as JSON.

    >>> from tokenizers import Tokenizer
    >>> made = Tokenizer.from_buffer(learn(["red cat", "red dog"] * 3, 100))
    >>> made.encode("red dog").tokens
    ['[CLS]', 'red', 'dog', '[SEP]']

    Reference: Wu et al. (2016), section 4.1, for word pieces.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer: Any = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=list(SPECIAL), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", SEP), ("[CLS]", CLS))
    return str(tokenizer.to_str()).encode()
