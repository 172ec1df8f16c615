"""The engine: it runs a contract over data. Three verbs: ``iter_violations``, ``check``, ``validate``."""

from provenance.engine.run import Progress
from provenance.engine.verbs import check, iter_violations, validate

__all__ = ["Progress", "check", "iter_violations", "validate"]
