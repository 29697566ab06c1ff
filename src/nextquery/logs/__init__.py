"""Read query logs, split them into sessions, clean them as in the paper, remove private text."""

from nextquery.logs.collect import Prepared
from nextquery.logs.database import Progress
from nextquery.logs.options import FORMATS, LogOptions
from nextquery.logs.prepare import STAGES, prepare, stats_of
from nextquery.logs.report import Report
from nextquery.logs.rules.cleaning import PROFILES, Rule, rules_of
from nextquery.logs.rules.one_query import Cleaned, QueryCleaner
from nextquery.logs.rules.pattern import Pattern
from nextquery.logs.rules.private_patterns import PATTERNS

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
