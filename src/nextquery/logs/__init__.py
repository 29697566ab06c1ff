"""Query logs: read, cut into sessions, cleaned as in the paper, and freed of private text."""

from nextquery.logs.collect import Prepared
from nextquery.logs.engine import Progress
from nextquery.logs.options import FORMATS, LogOptions
from nextquery.logs.patterns import PATTERNS, Pattern
from nextquery.logs.prepare import STAGES, prepare, stats_of
from nextquery.logs.report import Report
from nextquery.logs.rules import PROFILES, Rule, rules_of
from nextquery.logs.single import Cleaned, QueryCleaner

__all__ = [
    "FORMATS",
    "PATTERNS",
    "PROFILES",
    "STAGES",
    "Cleaned",
    "LogOptions",
    "Pattern",
    "Prepared",
    "Progress",
    "QueryCleaner",
    "Report",
    "Rule",
    "prepare",
    "rules_of",
    "stats_of",
]
