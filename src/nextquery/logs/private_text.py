"""Find private text: patterns that identify a person or an account, matched before training.

Each pattern finds candidates with a regular expression. If the number has a check digit, the
pattern confirms it. So "covid 19 2020 2021" or an arXiv number passes and a card number does not.
A match in the text that cleaning keeps removes the arm with all its spellings. A match in the
text that cleaning removes (a token inside a link) removes only those rows. A query "weather
https://…?token=…" must not remove "weather" for other users.

Patterns see the raw query, the query decoded twice, and the displayed spelling. Typographic
dashes and spaces are made plain first, and an escaped ``%40`` is found. Patterns do not see the
cleaned text: without its commas and brackets "Nature 435, 207 (2005)" would look like a phone
number.

A pattern that is too broad for a log is `live_only`. It prevents a query typed into the running
service from becoming an arm. It changes nothing in a log or in the arms of a pool.

*Words.* Some text is private only because of a key word: numbers of documents, dates of birth,
passwords. For a log, a pattern needs the key word and something with digits next to it. So
"passport renewal", "date of birth of einstein" and "password manager" stay. Patterns for typed
queries need less: they also remove "the password is wrong", which does no harm there.

*Addresses* of machines are IPv4, IPv6 and MAC. Software versions look like IPv4 addresses
("1.2.3.4"). Addresses of private networks ("192.168.0.1") are the same everywhere and often
searched for. A log keeps both; a typed query with any of them does not become an arm.

`QueryCleaner` cleans one typed query with the rules of the log, its patterns and those for typed
queries.
"""

import re
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import duckdb

from nextquery.logs.cleaning import DECODED, INVISIBLE, SPACES, beyond_ascii, cleaning, plain_digits
from nextquery.logs.database import matches, replaced, text

#: SQL over the match m: its digits
DIGITS = "regexp_replace(m, '[^0-9]', '', 'g')"


@dataclass(frozen=True)
class Pattern:
    """One kind of private text.

    >>> Pattern("email", "e-mail addresses", (r"[^@]+@[^@]+",)).changed_by
    '--skip email'
    """

    name: str
    does: str
    regexes: tuple[str, ...]  #: case-insensitive; a match is a candidate
    check: str = ""  #: SQL over the match m that confirms it
    live_only: bool = False  #: too broad for a log: only for queries typed into the service

    @property
    def changed_by(self) -> str:
        """The option that switches this pattern off."""
        return f"--skip {self.name}"


_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_QUAD = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_VERSION = "(?:version|versie|versión|release|build|firmware|update|upgrade|section|chapter|rfc|v)"
_NETWORK = r"10\.|127\.|169\.254\.|172\.(?:1[6-9]|2[0-9]|3[01])\.|192\.168\.|2(?:2[4-9]|[345]\d)\."

ADDRESSES: tuple[Pattern, ...] = (
    Pattern(
        "ipv4",
        "public IPv4 addresses",
        # The version word is part of the match, so that the check can see it.
        (rf"(?:\b{_VERSION}[ .:]{{0,2}})?(?:^|[^\w.]|\b){_QUAD}(?:$|[^\w.]|\.(?:\D|$))",),
        # A first number up to 10 is that of a version more often than that of an address.
        check=f"NOT {matches('m', '[a-z]', 'i')} AND NOT {matches('m', f'^[^0-9]*(?:{_NETWORK})')} "
        "AND regexp_extract(m, '[0-9]+')::INT > 10",
    ),
    Pattern(
        "ipv4-any",
        "anything that looks like an IPv4 address",
        (rf"(?:^|[^\d.]){_QUAD}(?:$|[^\d.]|\.(?:\D|$))",),
        live_only=True,
    ),
    Pattern(
        "ipv6",
        "IPv6 addresses",
        (
            r"\b[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7}\b",
            r"\b(?:[23][0-9a-f]{3}|fe80|f[cd][0-9a-f]{2})(?::[0-9a-f]{1,4}){0,6}::"
            r"(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?",
        ),
    ),
    Pattern(
        "mac-address",
        "MAC addresses",
        (r"\b[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}\b",),
        check=f"{matches('m', '[a-f]', 'i')} AND {matches('m', '[0-9]')}",
    ),
)


# A key word, "number", "is" or a sign, and letters and digits in groups
_NUMBER_OF = (
    r"(?:\W{0,2}\b(?:number|numbers|no|nr|num|nummer|número|numero|numéro|id|code|card|is|ist|es|est))"
    r"{0,3}[\s:#.=-]{1,4}"
)
_NUMBER = r"[a-z]{0,3}[ -]?\d(?:[ ./-]?\d|[a-z]){4,14}"
_MANY_DIGITS = (  # "passport 2024 2025" has years, not a number
    f"length({DIGITS}) >= 5 AND NOT regexp_full_match({DIGITS}, '(?:(?:19|20)[0-9][0-9])+')"
)
# "passport no. C3JHT5KL9": a few digits are enough after the word number
_NAMED_NUMBER = matches(
    "m", r"\b(?:number|no|nr|num|nummer)\W{1,4}[a-z]?\d[a-z]*\d?[a-z0-9]{4}", "i"
)
_DOCUMENT = (
    "passport|passeport|reisepass(?:nummer)?|pasaporte|passaporto|passaporte|paspoort(?:nummer)?|"
    "personalausweis(?:nummer)?|identity card|id card|driver'?s? licen[cs]e|driving licen[cs]e|"
    "führerschein(?:nummer)?|permis de conduire|green card|visa number|residence permit|tax id|"
    "steuer-?id|steueridentifikationsnummer"
)
_MEDICAL = (
    "medical record|health record|patient|mrn|nhs|medicare|medicaid|health insurance|"
    "insurance (?:policy|member|id|number|card|no)|policy (?:number|no)|member id|"
    "versicherten(?:nummer)?|versicherungsnummer|krankenkasse|krankenversicherung|patienten(?:nummer)?|"
    "sécurité sociale|numéro d'assuré|historia clínica|seguro médico|tessera sanitaria"
)
_FILE = (
    "record|case|claim|file|docket|reference|ref|customer|client|account|acct|member|order|ticket|"
    "invoice|tracking|booking|reservation|insurance|policy|aktenzeichen|kundennummer|kunde|konto|"
    "vorgang|dossier|expediente|cuenta|pratica"
)

_MONTH = (
    "(?:jan|feb|fév|fev|mar|mär|mrt|apr|abr|avr|may|mai|mei|mag|jun|jui|giu|jul|lug|aug|ago|aoû|sep|"
    "set|okt|oct|ott|out|nov|dec|dez|dic|déc|gen|ene)[a-zà-ÿ]{0,7}"
)
_DATE = (
    r"(?:\d{1,2}[./ -]\d{1,2}[./ -](?:19|20)?\d{2}|(?:19|20)\d{2}[./-]\d{1,2}[./-]\d{1,2}|"
    rf"\d{{1,2}}(?:st|nd|rd|th|\.)?[ -](?:of |de |di )?{_MONTH}\.?,?[ -](?:de |del )?"
    r"(?:19|20)\d{2}|"
    rf"{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?,? (?:19|20)\d{{2}})\b"
)
_BIRTH = (
    r"date of birth|birth ?date|d\.?o\.?b\b\.?|geburtsdatum|geb\.? ?datum|date de naissance|"
    "fecha de nacimiento|data di nascita|data de nascimento|geboortedatum|"
    "data urodzenia|födelsedatum"
)
_BORN = (
    "born|birthday|geboren|geb|née?|nacid[oa]|nacimiento|nat[oa]|nascid[oa]|urodzon[ya]|geburtstag|"
    "cumpleaños|anniversaire"
)
_PERSON = (
    rf"{_BORN}|my|mine|our|me|i|i'm|patient|son|daughter|mother|father|wife|husband|child|baby|mr|mrs|"
    "mein|meine|meiner|ich|sohn|tochter|mutter|vater|frau|herr|mon|ma|je|fils|fille|mi|hijo|hija|"
    "mijn|mio|mia|meu|minha"
)

SECRET = (
    "password|passwd|passphrase|passcode|pwd|pin|pincode|passwort|kennwort|contraseña|contrasena|clave|"
    "mot de passe|wachtwoord|senha|hasło|haslo|lösenord"
)
# Russian, Chinese, Japanese, Korean, Arabic, Hebrew, Hindi, Thai, Greek, Amharic; \b knows none
_SECRET_ELSEWHERE = (
    "пароль|密码|密碼|パスワード|비밀번호|كلمة المرور|كلمة السر|סיסמה|पासवर्ड|รหัสผ่าน|κωδικός|የይለፍ ቃል"
)
_IN_ASCII = r"[!-~]*(?:[a-z][!-~]*\d|\d[!-~]*[a-z])"  # letters and digits
_IS = r"(?: for [\w.-]+| code| number)?(?: (?:is|was|ist|war|lautet|es|era|est|è|é)| ?[:=])"
_MIXED = r"(?:\S*[a-z]\S*\d|\S*\d\S*[a-z]|\d{4})\S*"  # letters and digits, or digits
_MY = "(?:my|our|mein|meine|unser|mi|mon|mijn|minha|mia)"
_LOGIN = (
    r"(?:login|user|username|userid|benutzer|benutzername|usuario|identifiant|utente)\W{1,3}\S+ "
)
WIFI = "wi-?fi|wlan|wpa[23]?|wep|hotspot"
_WIFI = rf"(?:{WIFI}) (?:[\w-]+ )?(?:key|code|pass|schlüssel|"
# "the password is wrong" and the like are about passwords in general
_NO_SECRET = "NOT " + matches(
    "m",
    "[ :=](?:not|wrong|incorrect|correct|required|invalid|too|expired|locked|blocked|forgotten|"
    "lost|weak|strong|case|missing|needed|hashed|encrypted|stored|saved|changed|nicht|falsch|gesperrt|"
    "vergessen|incorrecta|incorrecto|oublié|generator|manager|reset|recovery)$",
    "i",
)

WORDS: tuple[Pattern, ...] = (
    Pattern(
        "personal-number",
        "numbers of passports, licences, patients and insured persons",
        (rf"\b(?:{_DOCUMENT}|{_MEDICAL})\b{_NUMBER_OF}{_NUMBER}",),
        check=f"({_MANY_DIGITS}) OR {_NAMED_NUMBER}",
    ),
    Pattern(
        "file-number",
        "numbers of cases, files, customers and orders",
        (rf"\b(?:{_FILE})\b{_NUMBER_OF}{_NUMBER}",),
        check=_MANY_DIGITS,
        live_only=True,
    ),
    Pattern(
        "birth-date",
        "dates of birth",
        (rf"\b(?:{_BIRTH})[\s:=(-]{{0,4}}(?:(?:is|was|ist|es|est) )?{_DATE}",),
    ),
    Pattern(
        "personal-date",
        "a full date and a personal word",
        (rf".*\b{_DATE}.*",),
        check=matches("m", rf"\b(?:{_PERSON})\b", "i"),
        live_only=True,
    ),
    Pattern(
        "spoken-credential",
        "passwords, PINs and logins in a sentence",
        (
            rf"\b(?:{SECRET}){_IS} ?{_MIXED}",
            rf"\b{_MY} (?:[\w-]+ )?(?:{SECRET}) (?:is|ist|war|lautet|es|era|est|è|é) \S+",
            rf"{_MIXED} (?:is|ist|es|est) {_MY} (?:[\w-]+ )?(?:{SECRET})\b",
            rf"\b{_LOGIN}(?:pass|pw|{SECRET})\W{{1,2}}{_MIXED}",
            rf"(?:{_SECRET_ELSEWHERE})[\s:=是は은는]{{0,4}}(?:это )?{_IN_ASCII}",
        ),
        check=_NO_SECRET,
    ),
    Pattern(
        "wifi-key",
        "Wi-Fi keys",
        (rf"\b{_WIFI}{SECRET})\b(?:{_IS})?\W{{0,2}} ?\S*\d\S*",),
        check=r"length(regexp_extract(m, '\S+$')) >= 8",
    ),
    Pattern(
        "maybe-credential",
        "any word where a password would stand",
        (
            rf"\b(?:{SECRET}){_IS} ?\S+",
            rf"\b{_MY} (?:[\w-]+ )?(?:{SECRET}) \S+",
            rf"\S+ (?:is|ist|es|est) (?:{_MY}|the|das|la|le) (?:[\w-]+ )?(?:{SECRET})\b",
            r"\bpin (?:code |number |nummer )?\d{4,8}\b",
            rf"\b{_LOGIN}(?:pass|pw|{SECRET})\W{{1,2}}\S+",
            rf"\b{_WIFI}{SECRET}) \S{{8}}",
        ),
        check=_NO_SECRET,
        live_only=True,
    ),
)


_S = "[ ._,:/-]{0,2}"  # what people put between groups of digits
_TLD = "com|net|org|edu|gov|mil|info|biz|io|co|ai|de|fr|uk|it|es|nl|ru|br|in|jp|cn|au|ca|ch|eu|us"
_SECRET_NAMES = (
    "(?:access|id|refresh|auth|api|session|client|private|secret)?[_-]?"
    "(?:token|apikey|key|secret|password|passwd|passphrase|pwd|pass|sessionid|sid|signature|sig|"
    "auth|authorization|credential|credentials|otp|jwt|code)"
)


_LUHN = (
    f"list_sum(list_transform(string_split(reverse({DIGITS}), ''), lambda c, i: "
    "CASE WHEN i % 2 = 1 THEN c::INT ELSE (c::INT * 2) // 10 + (c::INT * 2) % 10 END)) % 10 = 0"
)
_ONE_DIGIT = f"regexp_full_match({DIGITS}, '0*|1*|2*|3*|4*|5*|6*|7*|8*|9*')"
_ISSUED = f"regexp_matches({DIGITS}, '^(?:[3-6]|2[2-7])')"
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
_NIR = f"(97 - left({DIGITS}, 13)::BIGINT % 97) = right({DIGITS}, 2)::BIGINT"

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
        check=f"length({DIGITS}) >= 8 AND {_IBAN}",
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
_SECRET_WORDS = f"{SECRET}|{WIFI}|pass|pw"
#: a query without any of these matches no pattern of ADDRESSES and WORDS
ADDRESS_OR_WORD = re.compile(rf"[0-9%]|[^\x00-\x7f]|::|{_SECRET_WORDS}", re.IGNORECASE)
#: words of letters, with one short number at most, as most queries are, match no pattern at all:
#: every key has 15 characters in a row, or others than letters, and an address in words has a "dot"
PLAIN_WORDS = re.compile(
    rf"(?!.*(?:[a-z0-9-]{{15}}|\bdot\b|[0-9][^0-9]+[0-9]|{_SECRET_WORDS}))"
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


class Cleaned(NamedTuple):
    """A cleaned query."""

    text: str  #: its key as an arm
    shown: str  #: its displayed spelling
    dropped: str | None  #: the rule that drops it, if any
    private: str | None  #: the pattern of private text that it matches, if any


class QueryCleaner:
    """Clean single queries with the SQL that cleans whole logs, so that both give the same text.

    What a log calls private is private here too; the patterns marked `live_only` add to it.

    >>> clean = QueryCleaner()
    >>> clean("Deep%20Learning, 2nd ed.").text
    'deep learning 2nd ed'
    >>> clean("mail bob@example.com").private
    'email'
    """

    def __init__(
        self,
        profile: str = "text",
        skip: Collection[str] = (),
        max_chars: int = 1000,
        language: str | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._connection = duckdb.connect(config={"threads": "1", "memory_limit": "64MB"})
        cleaned = cleaning("(SELECT ?::VARCHAR AS raw)", profile, skip, max_chars, language)
        # Planning this SQL costs more than running it, so it is planned once. Most of the rest are
        # the patterns, which DuckDB compiles for every query: leave out those that cannot match.
        self._connection.execute(
            f"PREPARE clean_words AS SELECT text, shown, dropped, NULL FROM ({cleaned})"
        )
        for name, patterns in (("clean_most", NUMBERS), ("clean_any", PATTERNS)):
            self._connection.execute(
                f"PREPARE {name} AS SELECT text, shown, dropped, {verdict('h', skip, patterns)} "
                f"FROM (SELECT *, {seen_in(RAW)} AS h FROM ({cleaned}))"
            )

    def __call__(self, query: str) -> Cleaned:
        """Clean a query; characters that UTF-8 cannot encode are replaced first."""
        valid = query.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")
        with self._lock:
            statement = f"EXECUTE {_statement(valid)}({text(valid)})"
            row = self._connection.execute(statement).fetchone()
        assert row is not None
        return Cleaned(*row)


def _statement(query: str) -> str:
    if PLAIN_WORDS.fullmatch(query):
        return "clean_words"
    return "clean_any" if ADDRESS_OR_WORD.search(query) else "clean_most"
