"""Hypothesis strategies for training data that is valid by construction, or broken in exactly one way.

The structure of an example is drawn by Hypothesis and shrinks to a few tokens; the numbers that fill it come
from a drawn seed, all at once, which is what makes long examples fast. Under seed 0, to which it shrinks,
tokens are counted from 1 and every logprob is -0.5.
"""

from provenance.generate._fill import NOW, SESSION
from provenance.strategies._broken import broken
from provenance.strategies._valid import batches, datums, ledgers, sequences, trajectories

__all__ = ["NOW", "SESSION", "batches", "broken", "datums", "ledgers", "sequences", "trajectories"]
