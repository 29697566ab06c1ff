"""Private text that only a key word gives away: numbers of documents, dates of birth, passwords.

The patterns for a log want the key word and something with digits beside it, so "passport renewal",
"date of birth of einstein" and "password manager" stay. Those for typed queries (`live_only`) want
less: they also remove "the password is wrong", which does no harm there.
"""

from nextquery.logs.quoting import matches
from nextquery.logs.rules.pattern import DIGITS, Pattern

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
