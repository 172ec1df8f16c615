"""What a step, and a run, of off-policy training is judged by.

``step`` measures how far learner and sampler are apart in one batch, ``monitor`` follows that over a run, and
``invariance`` asks whether they are apart although they hold the same weights.
"""

from losses.diagnostics.invariance import Invariance, invariance
from losses.diagnostics.monitor import MismatchMonitor
from losses.diagnostics.step import measure, merge

__all__ = ["Invariance", "MismatchMonitor", "invariance", "measure", "merge"]
