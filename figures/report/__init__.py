"""`borrow report`: a static site of all claims, which opens from disk and needs no network.

Belongs here: ``site`` (gathering and writing pages), ``plot`` (a curve as SVG), ``arcs`` (the dependency graph as SVG),
``templates`` and ``assets``.  Does not belong here: what is known of a claim (``theory.describe``), the theory figures.
"""

from figures.report.site import ReportError, build, write

__all__ = ["ReportError", "build", "write"]
