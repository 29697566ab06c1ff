"""Recommenders that are neural networks, trained on past sessions.

Training needs the extra ``bert`` (torch); a trained model is an ONNX file and needs onnxruntime.
"""

from nextquery.rivals.neural.methods import METHODS
from nextquery.rivals.neural.moved_anchor import MovedAnchor
from nextquery.rivals.neural.train import train

__all__ = ["METHODS", "MovedAnchor", "train"]
