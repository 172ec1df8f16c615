"""Which faults a check catches: valid data are broken in every way there is, and it is asked each time."""

from provenance.fuzz._report import FuzzReport, Trial, Verdict, summary
from provenance.fuzz._run import fuzz
from provenance.fuzz._text import report_to_text

__all__ = ["FuzzReport", "Trial", "Verdict", "fuzz", "report_to_text", "summary"]
