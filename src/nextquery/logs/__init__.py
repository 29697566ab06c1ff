"""Read query logs, split them into sessions, clean them as in the paper, remove private text."""

from nextquery.logs.cleaning import PROFILES, Rule, rules_of
from nextquery.logs.database import Progress
from nextquery.logs.merge import Prepared
from nextquery.logs.options import FORMATS, LogOptions
from nextquery.logs.prepare import STAGES, prepare, stats_of
from nextquery.logs.private_text import PATTERNS, Cleaned, Pattern, QueryCleaner
from nextquery.logs.report import Report

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
