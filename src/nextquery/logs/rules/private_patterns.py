"""Patterns of text that identifies a person or an account, matched before any training.

Each pattern finds candidates with a regular expression. If the number has a check digit, the
pattern confirms it, so "covid 19 2020 2021" or an arXiv number passes and a card number does not.
A match in the text that cleaning keeps removes the arm with all its spellings. A match in the text
that cleaning removes (a token inside a link) removes only those rows: a query
"weather https://…?token=…" must not remove "weather" for other users.

Patterns see the raw query, the query decoded twice, and the displayed spelling, with typographic
dashes and spaces made plain, so they find an escaped ``%40``. They do not see the cleaned text:
without its commas and brackets "Nature 435, 207 (2005)" would look like a phone number.

A pattern that is too broad for a log is `live_only`: it keeps a query typed into the running
service from becoming an arm, and changes nothing in a log or in the arms that a pool has.
"""

import re
from collections.abc import Collection, Iterable

from nextquery.logs.quoting import matches, replaced, text
from nextquery.logs.rules.cleaning import DECODED, INVISIBLE, SPACES
from nextquery.logs.rules.letters import beyond_ascii, plain_digits
from nextquery.logs.rules.pattern import DIGITS as _DIGITS
from nextquery.logs.rules.pattern import Pattern
from nextquery.logs.rules.private_addresses import ADDRESSES
from nextquery.logs.rules.private_words import SECRET, WIFI, WORDS

_S = "[ ._,:/-]{0,2}"  # what people put between groups of digits
_TLD = "com|net|org|edu|gov|mil|info|biz|io|co|ai|de|fr|uk|it|es|nl|ru|br|in|jp|cn|au|ca|ch|eu|us"
_SECRET_NAMES = (
    "(?:access|id|refresh|auth|api|session|client|private|secret)?[_-]?"
    "(?:token|apikey|key|secret|password|passwd|passphrase|pwd|pass|sessionid|sid|signature|sig|"
    "auth|authorization|credential|credentials|otp|jwt|code)"
)


_LUHN = (
    f"list_sum(list_transform(string_split(reverse({_DIGITS}), ''), lambda c, i: "
    "CASE WHEN i % 2 = 1 THEN c::INT ELSE (c::INT * 2) // 10 + (c::INT * 2) % 10 END)) % 10 = 0"
)
_ONE_DIGIT = f"regexp_full_match({_DIGITS}, '0*|1*|2*|3*|4*|5*|6*|7*|8*|9*')"
_ISSUED = f"regexp_matches({_DIGITS}, '^(?:[3-6]|2[2-7])')"
_ALNUM = "upper(regexp_replace(m, '[^0-9A-Za-z]', '', 'g'))"
_IBAN = (
    "list_reduce(list_transform(string_split("
    f"substr({_ALNUM}, 5) || substr({_ALNUM}, 1, 4), ''), lambda c: "
    "CASE WHEN c BETWEEN '0' AND '9' THEN c::INT ELSE ascii(c) - 55 END), "
    "lambda a, d: (a * CASE WHEN d > 9 THEN 100 ELSE 10 END + d) % 97, 0) = 1"
)
_DNI = (
    "substr('TRWAGMYFPDXBNJZSQVHLCKE', (replace(replace(replace("
    f"regexp_replace({_ALNUM}, '[A-Z]$', ''), 'X', '0'), 'Y', '1'), 'Z', '2')::BIGINT % 23 + 1)"
    f"::BIGINT, 1) = right({_ALNUM}, 1)"
)
_NIR = f"(97 - left({_DIGITS}, 13)::BIGINT % 97) = right({_DIGITS}, 2)::BIGINT"

_NAMED = r"\b(?:api[_-]?key|secret|token|session(?:_?id)?)['\"]?"

NUMBERS: tuple[Pattern, ...] = (
    Pattern(
        "url-secret",
        "links with passwords, tokens or keys",
        (r"://[^/\s:@]*:[^/\s@]+@", rf"[?&;#/]{_SECRET_NAMES}=[^\s&]+"),
    ),
    Pattern(
        "email",
        "e-mail addresses",
        (
            r"[^\s@<>()\[\],;:]+@[^\s@]+\.[a-z]{2,}",
            rf"[a-z0-9._+-]+@[a-z0-9-]+ (?:{_TLD})\b",
            r"[a-z0-9._+-]+ ?@ ?[a-z0-9.-]+\.[a-z]{2,}\b",
            # Without a dot after the @, only names of two parts: SETI@home is not an address.
            r"\b[a-z0-9]+[.+][a-z0-9.+]+@[a-z][a-z0-9-]+\b",
            r"[a-z0-9._+-]+ ?@ ?(?:gmail|googlemail|outlook|hotmail|yahoo|icloud|gmx|proton)\b",
            rf"\b[a-z0-9._+-]+ ?[\[(]at[\])] ?[a-z0-9-]+ ?(?:\.|[\[(]dot[\])]) ?(?:{_TLD})\b",
            rf"\b[a-z0-9._+-]+ at [a-z0-9-]+ dot (?:{_TLD})\b",
        ),
    ),
    Pattern(
        "card",
        "payment-card numbers (Luhn-checked)",
        (
            rf"\b[2-6]\d{{3}}{_S}\d{{4}}{_S}\d{{4}}{_S}\d{{4}}\b",
            rf"\b3\d{{3}}{_S}\d{{6}}{_S}\d{{4,5}}\b",
            r"\b\d(?:[ -]?\d){12,18}\b",
            r"\d{13,19}",
        ),
        check=f"{_LUHN} AND {_ISSUED} AND NOT {_ONE_DIGIT}",
    ),
    Pattern(
        "iban",
        "bank accounts (IBAN, mod-97-checked)",
        (
            r"\b[a-z]{2}\d{2}[a-z0-9]{11,30}\b",
            r"\b[a-z]{2}\d{2}(?:[ -]?[a-z0-9]{4}){2,7}(?:[ -]?[a-z0-9]{1,3})?\b",
        ),
        check=f"length({_DIGITS}) >= 8 AND {_IBAN}",
    ),
    Pattern(
        "ssn",
        "US social security numbers",
        (
            r"\b\d{3}[-.]\d{2}[-.]\d{4}\b",
            r"\b\d{3} \d{2} \d{4}\b",
            r"\b(?:ssn|social security)\b\D{0,20}\d{9}\b",
        ),
    ),
    Pattern(
        "national-id",
        "UK and Italian identity numbers",
        (
            r"\b[a-ceghj-pr-tw-z][a-ceghj-npr-tw-z] ?\d{2} ?\d{2} ?\d{2} ?[a-d]\b",
            r"\b[a-z]{6}\d{2}[a-ehlmprst]\d{2}[a-z]\d{3}[a-z]\b",
        ),
    ),
    Pattern(
        "spanish-id",
        "Spanish DNI and NIE (letter-checked)",
        (r"\b[xyz]?-?\d{7,8}-?[a-z]\b",),
        check=f"length({_ALNUM}) = 9 AND {_DNI}",
    ),
    Pattern(
        "french-id",
        "French NIR (key-checked)",
        (r"\b[12] ?\d{2} ?\d{2} ?\d{2} ?\d{3} ?\d{3} ?\d{2}\b",),
        check=_NIR,
    ),
    Pattern(
        "canadian-id",
        "Canadian SIN (Luhn-checked)",
        (r"\b[1-79]\d{2}[ -]\d{3}[ -]\d{3}\b",),
        check=_LUHN,
    ),
    Pattern(
        "phone",
        "phone numbers",
        (
            r"(?:^|[^\w+])\+[1-9](?:[ ()./-]{0,2}\d){7,14}(?:\D|$)",
            r"\b00[1-9](?:[ ./-]?\d){8,13}\b",
            r"\(\d{3}\) ?\d{3}[ .-]?\d{4}\b",
            r"\b(?:1[ .-]?)?[2-9]\d{2}[ .-][2-9]\d{2}[ .-]\d{4}\b",
            r"\b1?[2-9]\d{2}[2-9]\d{6}\b",
            r"\b0[1-9](?:[ .-]\d{2}){4}\b",
            r"\b0[1-9]\d{1,3}[ .-]\d{3,4}[ .-]\d{3,4}\b",
            r"\b0\d{4}[ .-]\d{6}\b",
            r"\b01[567]\d[ /.-]?\d{7,8}\b",
            r"\b1[3-9]\d{9}\b",
            r"\b[6-9]\d{4}[ -]\d{5}\b",
            r"\b0(?:7\d{9}|[67]\d{8})\b",
        ),
    ),
    Pattern(
        "credential",
        "API keys, tokens and passwords",
        (
            r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
            r"\bgh[pousr]_[a-z0-9]{20,}",
            r"\bgithub_pat_\w{20,}",
            r"\bsk[-_](?:[a-z]+[-_])?[a-z0-9_-]{20,}",
            r"\bxox[abprs]-[a-z0-9-]{10,}",
            r"\bAIza[\w-]{35}",
            r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}",
            r"\bbearer [a-z0-9._~+/-]{20,}",
            r"-----BEGIN [A-Z ]*PRIVATE KEY",
            r"\b(?:password|passwd|pwd|passwort|contraseña|mot de passe)['\"]? ?[:=] ?\S+",
            r"\b(?:password|passwd|pwd|passwort) [^\s]*[a-z][^\s]*\d[^\s]*",
            r"\bmy (?:password|passcode|pin|pwd) (?:is|was) \S+",
            # A secret contains a digit; a title with a colon ("Token: a survey") does not.
            rf"{_NAMED} ?[:=] ?[\w.~+/-]*\d[\w.~+/-]{{5,}}",
            rf"{_NAMED} ?[:=] ?[\w.~+/-]{{5,}}\d",
            r"\bbasic [a-z0-9+/]{8,}={1,2}(?:\s|$)",
            r"\bidentified by '[^']+'",
        ),
    ),
)
PATTERNS: tuple[Pattern, ...] = (*NUMBERS, *ADDRESSES, *WORDS)
LOG_PATTERNS = tuple(pattern for pattern in PATTERNS if not pattern.live_only)
_SAID = f"{SECRET}|{WIFI}|pass|pw"
#: a query without any of these matches no pattern of ADDRESSES and WORDS
ADDRESS_OR_WORD = re.compile(rf"[0-9%]|[^\x00-\x7f]|::|{_SAID}", re.IGNORECASE)
#: words of letters, with one short number at most, as most queries are, match no pattern at all:
#: every key has 15 characters in a row, or others than letters, and an address in words has a "dot"
PLAIN_WORDS = re.compile(
    rf"(?!.*(?:[a-z0-9-]{{15}}|\bdot\b|[0-9][^0-9]+[0-9]|{_SAID}))"
    r"(?:[a-z]+|[0-9]{1,4})(?:[ -](?:[a-z]+|[0-9]{1,4}))*",
    re.IGNORECASE | re.ASCII,
)


_TWICE = f"list_transform(list_transform([raw], lambda x: {DECODED}), lambda x: {DECODED})[1]"
#: a query in all its forms; one escaped twice (``%2540``) is decoded twice
RAW = f"concat_ws(chr(10), raw, {_TWICE}, shown)"
#: the displayed spelling after cleaning
KEPT = "shown"


def seen_in(forms: str) -> str:
    """SQL expression: the text that patterns see, with plain dashes, spaces, digits and letters.

    Digits of other scripts and full-width letters become ASCII.
    """
    plain = replaced("x", f"[{SPACES[1:]}]", " ")
    plain = replaced(plain, r"[\x{2010}-\x{2015}\x{2212}]", "-")
    plain = replaced(plain_digits(plain), f"[{INVISIBLE}]", "")
    return f"list_transform([{forms}], lambda x: {beyond_ascii(plain)})[1]"


def suspicious(column: str, skip: Collection[str]) -> str:
    """SQL condition: some pattern has a candidate. This filters most texts of a log in one pass."""
    regexes = [
        regex for pattern in LOG_PATTERNS if pattern.name not in skip for regex in pattern.regexes
    ]
    return (
        matches(column, "|".join(f"(?:{regex})" for regex in regexes), "i") if regexes else "false"
    )


def verdict(column: str, skip: Collection[str], patterns: Iterable[Pattern] = LOG_PATTERNS) -> str:
    """SQL expression: the name of the pattern found in a text, or NULL."""
    found = [(_found(column, p), p.name) for p in patterns if p.name not in skip]
    cases = " ".join(f"WHEN {condition} THEN {text(name)}" for condition, name in found)
    return f"CASE {cases} END" if cases else "NULL"


def _found(column: str, pattern: Pattern) -> str:
    if not pattern.check:
        return "(" + " OR ".join(matches(column, regex, "i") for regex in pattern.regexes) + ")"
    candidates = " || ".join(
        f"regexp_extract_all({column}, {text(regex)}, 0, 'i')" for regex in pattern.regexes
    )
    return f"len(list_filter({candidates}, lambda m: {pattern.check})) > 0"
