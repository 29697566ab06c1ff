"""Encoders: from texts to unit vectors."""

from nextquery.encode.base import Encoder
from nextquery.encode.lsa import LsaEncoder

__all__ = ["Encoder", "LsaEncoder"]
