"""Recommenders that are neural networks, trained on past sessions.

Training needs the extra ``bert`` (torch); a trained model is an ONNX file and needs onnxruntime.
"""

from nextquery.research.neural.registry import METHODS
from nextquery.research.neural.serve import MovedAnchor
from nextquery.research.neural.train import train

__all__ = ["METHODS", "MovedAnchor", "train"]
