"""Encoders turn texts into unit vectors."""

from nextquery.encode.auto import ENCODERS, choose, encoder_by_name
from nextquery.encode.encoder import Encoder
from nextquery.encode.lsa import LsaEncoder
from nextquery.encode.projected import ProjectedEncoder
from nextquery.encode.static import StaticEncoder
from nextquery.encode.transformers import SentenceEncoder, TrainedEncoder
from nextquery.encode.tuned import TunedEncoder
from nextquery.encode.word_vectors import WordVectorsEncoder
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
