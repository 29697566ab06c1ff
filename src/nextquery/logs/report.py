"""Report on a prepared log: the paper's Table 3, and what each rule and each gate removed.

A report contains only counts, never a text from the log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nextquery.logs.cleaning import rules_of
from nextquery.logs.options import LogOptions
from nextquery.logs.privacy import Gate
from nextquery.logs.read import Malformed


@dataclass(frozen=True)
class Privacy:
    """What the privacy gates removed."""

    min_users: int
    k_anonymous: bool
    arms_before: int
    gates: tuple[Gate, ...]
    merged: int  #: rows equal to their neighbour after a query between them was removed
    orphaned: int  #: rows of sessions that became too short
    arms: int
    queries: int
    sessions: int

    def share(self, arms: int) -> float:
        """Return a number of arms as a share of those before the gates."""
        return arms / self.arms_before if self.arms_before else 0.0


@dataclass(frozen=True)
class Report:
    """The counts of one run; use `to_dict` for JSON and `rows` for tables."""

    original: int  #: well-formed rows of the log
    queries: int  #: rows after cleaning
    sessions: int
    distinct: int
    removed: Mapping[str, int]  #: rows removed, by rule
    malformed: Malformed
    options: LogOptions
    privacy: Privacy | None = None
    columns: Sequence[str] = field(default_factory=tuple)
    log: str | None = None  #: name, if it is a built-in log

    def table2(self) -> list[tuple[str, int | float]]:
        """Return the data set's statistics, as in Table 3 of the paper."""
        average = self.queries / self.sessions if self.sessions else 0.0
        return [
            ("queries (original)", self.original),
            ("queries (pre-processed)", self.queries),
            ("sessions", self.sessions),
            ("average queries per session", round(average, 2)),
            ("distinct queries", self.distinct),
        ]

    def rules(self) -> list[dict[str, Any]]:
        """Return for each rule: name, effect, rows removed, option that changes it, on or off."""
        skipped = set(self.options.skip)
        if self.options.expected_language is None:
            skipped.add("language")
        if "non-ascii" in skipped:
            skipped.add("accents")
        return [
            {
                "name": rule.name,
                "does": rule.does,
                "removed": self.removed.get(rule.name, 0),
                "option": rule.changed_by,
                "on": rule.name not in skipped,
            }
            for rule in rules_of(self.options.profile, self.options.language)
        ]

    def gates(self) -> list[dict[str, Any]]:
        """Return for each gate: name, effect, arms and rows removed, share of arms, option."""
        if self.privacy is None:
            return []
        return [
            {
                "name": gate.name,
                "does": gate.does,
                "arms": gate.arms,
                "rows": gate.rows,
                "share": self.privacy.share(gate.arms),
                "option": gate.option,
                "on": gate.name not in self.options.skip,
            }
            for gate in self.privacy.gates
        ]

    def rows(self) -> list[dict[str, Any]]:
        """Return the whole report as flat rows ``section, name, value, does, option``."""
        flat = [_row("log", name, value) for name, value in self.table2()]
        flat += [
            _row("rule", r["name"], r["removed"], r["does"], r["option"]) for r in self.rules()
        ]
        if self.privacy is not None:
            flat += [
                _row(
                    "privacy",
                    g["name"],
                    g["arms"],
                    f"{g['does']} ({g['share']:.1%} of arms)",
                    g["option"],
                )
                for g in self.gates()
            ]
            flat.append(_row("pool", "arms", self.privacy.arms))
            flat.append(_row("pool", "sessions", self.privacy.sessions))
            flat.append(_row("pool", "queries in sessions", self.privacy.queries))
        flat.append(_row("malformed", "rows", self.malformed.rows))
        flat += [
            _row("malformed", f"{place['file']}:{place['line']}", 1, str(place["why"]))
            for place in self.malformed.first
        ]
        return flat

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        sections: dict[str, Any] = {
            "log": self.log,
            "table2": dict(self.table2()),
            "rules": self.rules(),
            "malformed": {
                "rows": self.malformed.rows,
                "reasons": dict(self.malformed.reasons),
                "first": list(self.malformed.first),
            },
            "columns": list(self.columns),
            "options": self.options.to_dict(),
        }
        if self.privacy is not None:
            removed = self.privacy.arms_before - self.privacy.arms
            sections["privacy"] = {
                "k_anonymous": self.privacy.k_anonymous,
                "min_users": self.privacy.min_users,
                "arms_before": self.privacy.arms_before,
                "arms_removed": removed,
                "share_removed": self.privacy.share(removed),
                "gates": self.gates(),
                "rows_merged": self.privacy.merged,
                "rows_in_sessions_too_short": self.privacy.orphaned,
            }
            sections["pool"] = {
                "arms": self.privacy.arms,
                "sessions": self.privacy.sessions,
                "queries": self.privacy.queries,
            }
        return sections


def _row(section: str, name: str, value: float, does: str = "", option: str = "") -> dict[str, Any]:
    return {"section": section, "name": name, "value": value, "does": does, "option": option}
