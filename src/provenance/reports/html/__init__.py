"""A report as a page to be looked at: one HTML file that asks nothing of the network.

Needs the extra ``html``.
"""

from provenance.reports.html._page import report_to_html

__all__ = ["report_to_html"]
