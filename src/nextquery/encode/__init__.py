"""Encoders turn texts into unit vectors."""

from nextquery.encode.auto import ENCODERS, choose, encoder_by_name
from nextquery.encode.base import Encoder
from nextquery.encode.lsa import LsaEncoder
from nextquery.encode.projection import ProjectedEncoder
from nextquery.encode.sentence import SentenceEncoder
from nextquery.encode.static import StaticEncoder
from nextquery.encode.trained import TrainedEncoder
from nextquery.encode.tuned import TunedEncoder
from nextquery.encode.words.word_vectors import WordVectorsEncoder
from nextquery.sessions import Sessions

__all__ = [
    "ENCODERS",
    "Encoder",
    "LsaEncoder",
    "ProjectedEncoder",
    "SentenceEncoder",
    "Sessions",
    "StaticEncoder",
    "TrainedEncoder",
    "TunedEncoder",
    "WordVectorsEncoder",
    "choose",
    "encoder_by_name",
]
