"""Signs that are said, signs that are not, and emoji, which a reader of a book leaves out."""

from __future__ import annotations

import re

from anyrig.speech.normalise.english.words import number
from anyrig.speech.normalise.rules import Rule, rule

_GREEK = dict(zip("αβγδεζηθικλμνξοπρστυφχψωΓΔΘΛΞΠΣΦΨΩ", (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho "
    "sigma tau upsilon phi chi psi omega gamma delta theta lambda xi pi sigma "
    "phi psi omega").split(), strict=True))  # fmt: skip
SIGNS = {
    "&": "and", "@": "at", "+": "plus", "=": "equals", "<": "less than", ">": "greater than",
    "±": "plus or minus", "×": "times", "÷": "divided by", "§": "section", "©": "copyright",
    "®": "registered", "™": "trademark", "°": "degrees", "→": "to", "←": "from",
    "↔": "to and from", "⇒": "implies", "⇔": "if and only if", "↑": "up", "↓": "down", "➜": "to",
    "➔": "to", "≈": "approximately", "≠": "not equal to", "≤": "less than or equal to",
    "≥": "greater than or equal to", "∞": "infinity", "√": "square root of", "∑": "sum of",
    "∫": "integral of", "∂": "partial", "∈": "in", "∀": "for all", "∃": "there exists",
    "∅": "empty set", "∩": "intersection", "∪": "union", "⊂": "subset of", "¬": "not", "∧": "and",
    "∨": "or", "∝": "proportional to", "¶": "paragraph", "№": "number", "%": "percent",
    "‰": "per mille", "^": "caret", "\\": "backslash", "$": "dollars", "£": "pounds",
    "€": "euros", "¥": "yen", "¢": "cents", "₹": "rupees", "−": "minus", "℃": "degrees Celsius",
    "℉": "degrees Fahrenheit", "∴": "therefore", "∵": "because", "♯": "sharp", "♭": "flat",
    "℮": "e", "∠": "angle", "⊥": "perpendicular to", "∥": "parallel to",
}  # fmt: skip
_SILENT = "*_~|†‡•·¦⁂◦▪■□●○★☆✓✔✗✘►◄▲▼¤`{}"
_EMOJI = (
    "[\U0001f000-\U0001faff\u2600-\u2604\u2607-\u2638\u263a\u2648-\u2653\u2660-\u266d"
        "\u267b-\u27bf\u2b00-\u2bff\u231a\u231b\u23e9-\u23fa"
    "\u25fb-\u25fe\u2934\u2935\u3030\u303d\u3297\u3299\u2764\U000e0020-\U000e007f\ufe0f"
        "\u20e3\u200d]"
)  # fmt: skip


@rule(
    "emoji",
    rf"[0-9#*]\ufe0f\u20e3|[ \t]{{0,4}}(?:{_EMOJI})+(?=[ \t]{{0,4}}(?:[.,;:!?)]|$))|(?:{_EMOJI})+",
    flags=re.MULTILINE,
)
def _emoji(match: re.Match[str]) -> str:
    if match[0][0] in "0123456789":
        return number(match[0][0])
    inner = match.string[match.start() - 1 : match.start()].isalnum()
    return " " if inner and match.string[match.end() : match.end() + 1].isalnum() else ""


@rule(
    "emoji",
    r"(?:(?<=\s)|^)[:;=8xX][-'o^]?[)(DPpOo3/\\|*\]\[](?=\s|$|[.,!?])|(?<=\s)(?:\^_\^|<3|"
    r"xD|:'\()(?=\s|$|[.,!?])",
    needs=":;=8xX^<",
)
def _emoticon(match: re.Match[str]) -> str | None:
    if match[0][0] in "8xX=" and not match[0].endswith((")", "(", "D")):
        return None
    return None if match[0] in ("8)", "X)", "x)") else ""


@rule("symbol", r"#(?=\d)", needs="#")
def _number_sign(match: re.Match[str]) -> str:
    return "number "


@rule("symbol", r"(?<![\w&])#([A-Za-z]\w*)", needs="#")
def _hashtag(match: re.Match[str]) -> str:
    return f"hashtag {split_name(match[1])}"


@rule("symbol", r"\b([CFJ])#", needs="#")
def _sharp(match: re.Match[str]) -> str:
    return f"{match[1]} sharp"


@rule("symbol", r"\bC\+\+", needs="+")
def _plus_plus(match: re.Match[str]) -> str:
    return "C plus plus"


@rule("symbol", r"(?<=\b[Aa] )([A-F])-(?=[\s.,;!?)]|$)", needs="-")
def _grade(match: re.Match[str]) -> str:
    return f"{match[1]} minus"


def split_name(text: str) -> str:
    """`ThrowbackThursday` and `throw_back2` as words."""
    spaced = re.sub(r"_+", " ", text)
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", spaced)
    spaced = re.sub(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])", " ", spaced)
    return " ".join(number(part) if part.isdecimal() else part for part in spaced.split())


@rule("symbol", r"~ ?(?=[\d$£€])", needs="~")
def _about(match: re.Match[str]) -> str:
    return "approximately "


@rule("symbol", r"≈ ?(?=[\d$£€])", needs="≈")
def _nearly(match: re.Match[str]) -> str:
    left = match.string[max(0, match.start() - 3) : match.start()].rstrip()
    return " is approximately " if left[-1:].isalnum() else "approximately "


@rule("symbol", r"(?<![\w=|+-])(?=[=|+-]*[=|-]{3})[=|+-]+(?![\w=|+-])", needs="+=")
def _ruled(match: re.Match[str]) -> str:
    """A line of a table that is drawn with signs."""
    return " "


@rule("symbol", r"<=|>=|!=|==|->|=>|<-|\.\.\.|--+", needs="<>!=-.")
def _double(match: re.Match[str]) -> str | None:
    words = {"<=": "is less than or equal to", ">=": "is greater than or equal to",
             "!=": "is not equal to", "==": "equals", "->": "to", "=>": "to",
             "<-": "from"}  # fmt: skip
    if match[0][:2] == "--":
        return "—" if len(match[0]) < 4 else ""
    return f" {words[match[0]]} " if match[0] in words else match[0]


@rule("symbol", r"(?<=[\w)\"']) ([-–−]) (?=[\w(])", needs="-–−")
def _minus(match: re.Match[str]) -> str | None:
    before = re.search(r"(\S+)$", match.string[max(0, match.start() - 20) : match.start()])
    after = re.match(r"(\S+)", match.string[match.end() : match.end() + 20])
    if match[1] == "−":
        return " minus "
    if not before or not after:
        return None
    near = match.string[max(0, match.start() - 30) : match.end() + 30]
    sum_like = "=" in near or "+" in near
    digits = before[1][-1].isdigit() and after[1][0].isdigit()
    single = len(before[1]) == 1 and len(after[1]) == 1
    return " minus " if sum_like and (digits or single or before[1].isalnum()) or digits else None


@rule("symbol", r"(?<=[\d)]) ?\* ?(?=[\d(])|(?<=\b\w) \* (?=\w\b)", needs="*")
def _star(match: re.Match[str]) -> str:
    return " times "


@rule("symbol", r"(?<=\d) ?/ ?(?=\d)|(?<=\b\w) / (?=\w\b)", needs="/")
def _divided(match: re.Match[str]) -> str:
    return " divided by "


@rule(
    "symbol",
    r"\b(and/or|[Hh]e/she|[Ss]he/he|him/her|his/her|s/he|n/a|N/A|w/o|W/O|w/|b/c|c/o|AC/DC|"
    r"I/O|TCP/IP|CI/CD|A/C|a/c)(?![\w/])",
    needs="/",
)
def _slashed(match: re.Match[str]) -> str:
    words = {"and/or": "and or", "w/o": "without", "W/O": "without", "w/": "with", "b/c": "because",
             "c/o": "care of", "n/a": "not applicable", "N/A": "not applicable",
             "s/he": "she or he", "AC/DC": "A C D C",
             "I/O": "I O", "TCP/IP": "T C P I P", "CI/CD": "C I C D",
             "A/C": "A C", "a/c": "account"}  # fmt: skip
    return words.get(match[1]) or match[1].replace("/", " or ")


@rule(
    "symbol",
    r"(?<=[a-z])/(?=(?:second|minute|hour|day|night|week|month|year|person)\b)",
    needs="/",
)
def _per(match: re.Match[str]) -> str:
    return " per "


@rule("symbol", r"(?<=\w) ?/ ?(?=\w)|(?<=\s)/(?=\s)", needs="/")
def _slash(match: re.Match[str]) -> str:
    return " slash "


@rule("symbol", r"§§ ?", needs="§")
def _sections(match: re.Match[str]) -> str:
    return "sections "


@rule("symbol", rf"[{re.escape(''.join(SIGNS))}]", needs="".join(SIGNS))
def _sign(match: re.Match[str]) -> str | None:
    sign = match[0]
    if sign * 3 in match.string[max(0, match.start() - 2) : match.end() + 2]:
        return " "
    if sign in "<>≤≥≠≈" and _compares(match):
        return f" is {SIGNS[sign]} "
    return f" {SIGNS[sign]} "


def _compares(match: re.Match[str]) -> bool:
    """Whether a sign stands between two things."""
    before = match.string[max(0, match.start() - 2) : match.start()].rstrip()
    after = match.string[match.end() : match.end() + 2].strip()
    return bool(before and after) and (before[-1].isalnum() or before[-1] in ")²³")


@rule(
    "symbol",
    rf"[{''.join(_GREEK)}](?![\u0370-\u03ff])(?<![\u0370-\u03ff][\u0370-\u03ff])",
    needs="".join(_GREEK),
)
def _greek(match: re.Match[str]) -> str:
    before = match.string[match.start() - 1 : match.start()].isalnum()
    after = match.string[match.end() : match.end() + 1].isalnum()
    return (" " if before else "") + _GREEK[match[0]] + (" " if after else "")


@rule("symbol", rf"[{re.escape(_SILENT)}]", needs=_SILENT)
def _silent(match: re.Match[str]) -> str:
    return " " if match[0] in "_|·" else ""


FIRST: tuple[Rule, ...] = (_emoji, _emoticon, _slashed, _grade)
NUMBERS: tuple[Rule, ...] = (_about, _nearly, _sections)
RULES: tuple[Rule, ...] = (
    _plus_plus, _sharp, _hashtag, _number_sign, _ruled, _double, _minus, _star, _divided, _per,
    _slash, _sign, _greek, _silent,
)  # fmt: skip
