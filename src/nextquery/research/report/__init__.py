"""Reports: figures and tables from result files, the paper's evaluation, recommenders compared."""

from nextquery.research.report.compare import CompareOptions, run_comparison
from nextquery.research.report.report import report
from nextquery.research.report.reproduce import reproduce

__all__ = ["CompareOptions", "report", "reproduce", "run_comparison"]
