"""Signs that are said, signs that are not, and emoji, which a reader of a book leaves out."""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache

from anyrig.text import values as v
from anyrig.text.recognizers import (
    RECOGNIZED_LANGUAGES,
    LazyPattern,
    Proposal,
    constant,
    per_language,
    recognizer,
)
from anyrig.text.recognizers.common import (
    SUBSCRIPT,
    after,
    before,
    close,
    one_of,
    parse_number,
)
from anyrig.text.recognizers.languages.shared import CAPITAL

SPOKEN = "&@+=<>±×÷§©®™°→←↔⇒⇔↑↓➜➔≈≠≤≥∞√∑∫∂∈∀∃∅∩∪⊂¬∧∨∝¶№%‰^\\$£€¥¢₹−℃℉∴∵♯♭℮∠⊥∥"
GREEK = "αβγδεζηθικλμνξοπρστυφχψωΓΔΘΛΞΠΣΦΨΩ"
SILENT = "*_~|†‡•·¦⁂◦▪■□●○★☆✓✔✗✘►◄▲▼¤`{}"
_EMOJI = (
    "[\U0001f000-\U0001faff\u2600-\u2604\u2607-\u2638\u263a\u2648-\u2653\u2660-\u266c"
    "\u267b-\u27bf\u2b00-\u2bff\u231a\u231b\u23e9-\u23fa"
    "\u25fb-\u25fe\u2934\u2935\u3030\u303d\u3297\u3299\u2764\U000e0020-\U000e007f\ufe0f\u20e3\u200d]"
)


@recognizer(
    "emoji", rf"[0-9#*]\ufe0f\u20e3|(?:{_EMOJI})+", languages=RECOGNIZED_LANGUAGES, weight=2
)
def propose_emoji(match: re.Match[str]) -> v.Value | Proposal:
    if match[0][0] in "0123456789":
        return v.Number(match[0][0])
    lead, rest = match.string[: match.start()], after(match, 6).lstrip(" \t")
    if not rest or rest[0] in ".,;:!?)":
        return Proposal(v.Silence(), start=len(lead.rstrip(" \t")))
    return v.Silence(lead[-1:].isalnum() and rest[0].isalnum() and rest == after(match, 6))


@recognizer(
    "emoji",
    r"(?:(?<=\s)|^)[:;=8xX][-'o^]?[)(DPpOo3/\\|*\]\[](?=\s|$|[.,!?])|(?<=\s)(?:\^_\^|<3|"
    r"xD|:'\()(?=\s|$|[.,!?])",
    languages=RECOGNIZED_LANGUAGES,
    needs=":;=8xX^<",
    weight=2,
)
def propose_emoticon(match: re.Match[str]) -> v.Value | None:
    if match[0][0] in "8xX=" and not match[0].endswith((")", "(", "D")):
        return None
    return None if match[0] in ("8)", "X)", "x)") else v.Silence()


_SLASHED = {
    "and/or": "and or", "w/o": "without", "W/O": "without", "w/": "with", "b/c": "because",
    "c/o": "care of", "n/a": "not applicable", "N/A": "not applicable", "s/he": "she or he",
    "a/c": "account", "a/k/a": "also known as", "y/y": "year over year",
    "q/q": "quarter over quarter", "m/m": "month over month", "Y/Y": "year over year",
    "f/u": "follow up", "F/u": "Follow up", "F/U": "follow up", "r/o": "rule out",
    "h/o": "history of", "s/p": "status post", "B/P": "blood pressure", "b/p": "blood pressure",
    "w/in": "within", "w/out": "without",
    "W/D": "washer and dryer", "T/F": "true or false", "Y/N": "yes or no", "y/n": "yes or no",
}  # fmt: skip
_SPELLED_WITH_SLASH = ("AC/DC", "TCP/IP", "CI/CD")


@recognizer(
    "slash",
    rf"\b([Hh]e/she|[Ss]he/he|him/her|his/hers?|"
    rf"{one_of([*_SLASHED, *_SPELLED_WITH_SLASH])}|(?<![./])[A-Z]/[A-Z])(?![\w/])",
    needs="/",
    weight=1.5,
)
def propose_slash_word(match: re.Match[str]) -> v.Value:
    if words := _SLASHED.get(match[1]):
        return v.Abbreviation(words)
    if match[1].isupper():
        return v.Phrase(tuple(v.Letters(part) for part in match[1].split("/")))
    return v.Abbreviation(match[1].replace("/", " or "))


@recognizer("sign", r"\bC\+\+|\b([CFJ])#(?!\w)", needs="+#", weight=1.5)
def propose_language(match: re.Match[str]) -> v.Value:
    return (
        v.Phrase((v.Letters(match[1]), "sharp"))
        if match[1]
        else v.Phrase((v.Letters("C"), "plus plus" + (" " if after(match, 1).isalnum() else "")))
    )


@recognizer(
    "sign",
    r"(?:(?<=\b[Aa] )|(?<=\b[Aa]n )|(?<=[tT]ype )|(?<=[tT]ype: )|(?<=grade ))"
    r"(AB|[A-DFO])([-+−–])(?=[\s.,;!?)]|$)",
    needs="A B C D F O AB".split(),
    at="needs",
    weight=1.6,
)
def propose_grade(match: re.Match[str]) -> v.Value:
    return v.Phrase((v.Letters(match[1]), "plus" if match[2] == "+" else "minus"))


@recognizer("sign", r"(?<=[A-Za-z]) > (?=[A-Z][a-z])", needs=">", weight=1.2)
def propose_menu(match: re.Match[str]) -> v.Value | None:
    """From a menu to its entry: File > Save As."""
    chosen = re.search(r"(?:^|[\s(\"'“])[A-Z][\w -]*$", before(match, 30))
    return v.Abbreviation(", ") if chosen else None


@recognizer("sign", r"(?<![\w|])\|([\w+−-]{1,12})\|(?!\|)", needs="|", weight=1.5)
def propose_absolute(match: re.Match[str]) -> v.Value:
    return v.Phrase(("the absolute value of", v.Identifier(match[1])))


@recognizer(
    "code", r"(?<![\w.])([fgh])\(([a-z]|-?\d{1,4})\)(?!\w)", needs="(", weight=1.6, at="word"
)
def propose_function(match: re.Match[str]) -> v.Value:
    """`f(x)`."""
    inner: v.Value = v.Letters(match[2].upper())
    if not match[2].isalpha():
        inner = v.Number(match[2].lstrip("-"), sign="-" if match[2][0] == "-" else "")
    return v.Phrase((v.Letters(match[1].upper()), "of", inner))


@recognizer(
    "number",
    r"\blog([₀-₉]+) ?\(?(\d+(?:\.\d+)?|[a-z])\b\)?",
    needs="₀₁₂₃₄₅₆₇₈₉",
    weight=2,
    at="any",
)
def propose_logarithm(match: re.Match[str]) -> v.Value:
    base = v.Number(match[1].translate(SUBSCRIPT))
    of: v.Value = parse_number(match[2]) if match[2][0].isdecimal() else v.Letters(match[2].upper())
    return v.Phrase(("log base", base, "of", of))


_DIED = {
    "en": ("died", "died", ""), "es": ("murió en", "murió", "murió en"),
    "fr": ("mort en", "mort", "mort à"),
}  # fmt: skip
"""Before a year, a date, a place."""


@per_language(
    "sign", rf"† ?(?=\d|[{CAPITAL}])", languages=RECOGNIZED_LANGUAGES, needs="†", weight=1.5
)
def propose_death_sign(language: str, match: re.Match[str]) -> v.Value | None:
    year, date, place = _DIED[language]
    rest = after(match, 5)
    words = place if rest[0].isalpha() else year if re.match(r"\d{4}\b", rest) else date
    return v.Abbreviation(f"{words} ") if words else None


@recognizer("sign", r"#(?=\d)|№ ?(?=\d)|~ ?(?=[\d$£€.])", needs="#№~", weight=1)
def propose_before_number(match: re.Match[str]) -> v.Value:
    return v.Abbreviation("approximately " if match[0][0] == "~" else "number ")


constant("sign", r"(?<= )# (?=of\b)", v.Abbreviation("number "), needs="#", weight=2)
constant("sign", r"(?<!\w)\$(?=[A-Z_]{2})", v.Abbreviation("dollar "), needs="$", weight=2)


@recognizer("sign", r"≈ ?(?=[\d$£€])", needs="≈", weight=1)
def propose_approximation(match: re.Match[str]) -> v.Value:
    lead = before(match, 3).rstrip()
    return v.Sign("≈", between=lead[-1:].isalnum())


@recognizer("sign", r"<=|>=|!=|==|->|=>|<-|--+", needs="<>!=-", weight=1.2)
def propose_double_sign(match: re.Match[str]) -> v.Value:
    if match[0][:2] == "--":
        return v.Abbreviation("—" if len(match[0]) < 4 else "")
    return v.Sign(match[0], between=match[0] in ("<=", ">=", "!="))


@recognizer("sign", r"(?<=[\w)\"']) ([-–−]) (?=[\w(])", needs="-–−", weight=0.8)
def propose_minus(match: re.Match[str]) -> v.Value | None:
    lead = re.search(r"(\S+)$", before(match, 20))
    rest = re.match(r"(\S+)", after(match, 20))
    if match[1] == "−":
        return v.Sign("-")
    if not lead or not rest:
        return None
    near = match.string[max(0, match.start() - 30) : match.end() + 30]
    summed = "=" in near or "+" in near
    digits = lead[1][-1].isdigit() and rest[1][0].isdigit()
    single = len(lead[1]) == 1 and len(rest[1]) == 1
    return v.Sign("-") if (summed and (digits or single or lead[1].isalnum())) or digits else None


@recognizer(
    "sign",
    r"(copyright )?(?:©|\(c\)(?= ?\d{4}|(?<=copyright \(c\)) ))(?: ?(copyright)(?!\w))? ?",
    needs="©(",
    flags=re.IGNORECASE,
    weight=1,
)
def propose_copyright(match: re.Match[str]) -> v.Value:
    """The sign beside its word is said once."""
    word = (match[1] or match[2] or "copyright").strip()
    return v.Abbreviation(f"{word} ")


@recognizer("sign", rf"§§|¶¶|[{re.escape(SPOKEN)}]", needs=SPOKEN, weight=0.5)
def propose_sign(match: re.Match[str]) -> v.Value:
    sign = match[0]
    if sign * 3 in match.string[max(0, match.start() - 2) : match.end() + 2]:
        return v.Silence(space=True)
    return v.Sign(sign, between=sign in "<>≤≥≠≈" and _compares(match))


_VERB = LazyPattern(r"\b(?:is|are|was|were|be|been|of|to|at|for|with|and|or|but|if)$")


_ASKED = LazyPattern(
    r"(?:^|[^\w)]|\b(?:[Aa]nd|[Oo]r|[Bb]ut|why|[Ii]f|whether) )"
    r"(?:[Ii]s|[Aa]re|[Ww]as|[Ww]ere) [^\s,;]{1,12} $"
)


def _compares(match: re.Match[str]) -> bool:
    """Whether a sign stands between two things."""
    lead = before(match, 8).rstrip()
    rest = after(match, 2).strip()
    if _VERB.search(lead) or _ASKED.search(before(match)):
        return False  # it is >30, is 5 > 3: the verb is there already
    return bool(lead and rest) and (lead[-1].isalnum() or lead[-1] in ")²³")


@recognizer(
    "sign",
    rf"[{GREEK}](?![\u0370-\u03ff])(?<![\u0370-\u03ff][\u0370-\u03ff])",
    needs=GREEK,
    weight=0.5,
)
def propose_greek(match: re.Match[str]) -> v.Value:
    return v.Sign(match[0])


@recognizer("sign", rf"[{re.escape(SILENT)}]", needs=SILENT, weight=0.4)
def propose_silent(match: re.Match[str]) -> v.Value:
    return v.Silence(space=match[0] in "_|·")


constant(
    "sign", r"(?<=[a-z.] )[x×](?= \d+ ?(?:days?|wks?|weeks?|months?|d)\b)", v.Abbreviation("for"),
    needs="x×", digits=True, weight=1.6,
)  # fmt: skip


# Between two airports: JFK–LHR.
constant("sign", r"(?<=\b[A-Z]{3}) ?– ?(?=[A-Z]{3}\b)", v.Abbreviation(" to "), needs="–", weight=2)
constant(
    "sign",
    r"(?<=[α-ωA-Za-z])[⁻](?!\w)",
    v.Abbreviation(" minus"),
    needs="⁻",
    weight=0.8,
)
constant("sign", "♩ ?", v.Abbreviation("quarter note "), needs="♩", weight=3)
constant("sign", "♪ ?(?==)", v.Abbreviation("eighth note "), needs="♪", weight=3)
# Keys that are drawn beside their names are said once.
constant("sign", r"[↵⏎⌅⇧⇪⌥⌃⌫⌦⎋⇥]", v.Silence(space=True), needs="↵⏎⌅⇧⇪⌥⌃⌫⌦⎋⇥", weight=1)
_DRAWN_KEYS = {"⌥": "Option", "⌃": "Control", "⇧": "Shift", "⌘": "Command"}


@recognizer(
    "sign", r"([⌥⌃⇧⌘]) ?\+? ?(?=([A-Z][a-z]*)\b|F\d|\d\b|[⌥⌃⇧⌘↵⌫⌦])", needs=_DRAWN_KEYS, weight=2
)
def propose_drawn_key(match: re.Match[str]) -> v.Value | None:
    """A key that stands for itself: `⇧A`, `⌥F4`; beside its name it is said once."""
    name = _DRAWN_KEYS[match[1]]
    return v.Abbreviation(f"{name} ") if match[2] != name else None


# Between prices in several currencies: £8/€10.
constant(
    "sign", r"(?:(?<=[$£€]\d)|(?<=[$£€]\d\d)|(?<=[$£€]\d{3}))/(?=[$£€]\d)", v.Abbreviation(", "),
    needs="/", digits=True, weight=3,
)  # fmt: skip
# A bolt or a thread and its length: M8 x 40.
for _code, _by in (("en", "by"), ("es", "por"), ("fr", "par")):
    constant(
        "sign", r"(?:(?<=\bM\d)|(?<=\bM\d\d)) ?[x×] ?(?=\d)", v.Abbreviation(f" {_by} "),
        languages=(_code,), needs="x×", digits=True, weight=2,
    )  # fmt: skip
# A line of a table that is drawn with signs.
constant(
    "sign", r"(?<![\w=|+-])(?=[=|+-]*[=|-]{3})[=|+-]+(?![\w=|+-])", v.Silence(space=True),
    languages=RECOGNIZED_LANGUAGES, needs="+=|-", weight=1.5,
)  # fmt: skip
constant("sign", r"(?<=[\d)]) ?\* ?(?=[\d(])|(?<=\b\w) \* (?=\w\b)", v.Sign("*"), needs="*")
constant(
    "sign", r"(?<!\w)(?:doi|DOI):? ?(?=10\.\d{4})", v.Phrase((v.Letters("DOI"), " ")), weight=2,
    languages=RECOGNIZED_LANGUAGES, needs=("doi", "DOI"), digits=True,
)  # fmt: skip
constant(
    "sign", r"(?<=\d) ?/ ?(?=\d)(?<!10\.\d{4}/)|(?<=\b\w) / (?=\w\b)", v.Sign("÷"), needs="/",
    weight=0.7,
)  # fmt: skip
constant(
    "sign", r"(?<=[a-z])/(?=(?:second|minute|hour|day|night|week|month|year|person|mo|yr|wk|hr)\b)",
    v.Abbreviation(" per "), needs="/",
)  # fmt: skip


_PERIODS = {
    "s": "second", "sec": "second", "min": "minute", "h": "hour", "hr": "hour", "day": "day",
    "wk": "week", "mo": "month", "yr": "year",
}  # fmt: skip


@recognizer(
    "rate",
    r"(?<=[a-z%])/(?:(min|sec|hr|wk|mo|yr|day)\b(?:\.(?![.\w]))?|([sh]|[a-z]{3,10}(?<!s)))(?![\w/])",
    needs="/",
    at="any",
    digits=True,
    weight=2,
)
def propose_each(match: re.Match[str]) -> Proposal | None:
    """Behind what is counted: `60 beats/min`, `2%/yr`, `2 kids/family`."""
    counted = r"\d ?(?:%|[a-z]{3,})$" if match[1] else r"\d[\d,.]* [a-z]+s$"
    if not re.search(counted, before(match, 24)):
        return None
    period = match[1] or match[2]
    words = f" per {_PERIODS.get(period, period)}"
    return close(v.Abbreviation(words), match, digits_follow=False)


@recognizer(
    "sign",
    r"(?:(?<=[Dd]ial )|(?<=[Pp]ress )|(?<=[Ee]nter )|(?<=[Hh]it )|(?<=[Tt]hen )|(?<= the ))"
    r"([*#])(?=\d|[\s.,;]|$)",
    needs="*#",
    weight=2,
)
def propose_dialled_sign(match: re.Match[str]) -> v.Value:
    gap = " " if after(match, 1).isdecimal() else ""
    return v.Abbreviation(("star" if match[1] == "*" else "pound") + gap)


constant("sign", r"[-−](?=\d+/\d)(?:(?<=[=(].)|(?<=[=(] .))", v.Abbreviation("minus "), needs="-−",
         digits=True, weight=2)  # fmt: skip
constant("sign", r"(?<=\d)#(?= [a-z])", v.Abbreviation(" pound"), needs="#", weight=1.5)
constant(
    "sign",
    r"(?<=\w) ?/ ?(?=\w)|(?<=[a-z]\.)/(?=[A-Za-z])|"
    r"(?<=\s)/(?=\s)",
    v.Sign("/"),
    needs="/",
    weight=0.5,
)
constant("sign", r"(?<=\d),(?=\d)", v.Abbreviation(", "), needs=",", weight=0.2)
constant("sign", r"(?<=[A-Za-z]{2})-(?=\d)", v.Abbreviation(" "), needs="-", weight=0.4)


# Spanish and French


_PLACE = r"([a-h])([1-8])([+#]?)(?!\w)"
_MEN = {
    "en": {"K": "king", "Q": "queen", "R": "rook", "B": "bishop", "N": "knight"},
    "es": {"R": "rey", "D": "dama", "T": "torre", "A": "alfil", "C": "caballo"},
    "fr": {"R": "roi", "D": "dame", "T": "tour", "F": "fou", "C": "cavalier"},
}
_TAKES = {
    "en": ("takes", "check", "mate"), "es": ("por", "jaque", "mate"),
    "fr": ("prend", "échec", "mat"),
}  # fmt: skip
_OF_CHESS = LazyPattern(
    r"\d\.(?:\.\.)? ?(?:[RDTACF]?[a-h][1-8]|O-O|0-0)|(?i:ajedrez|blancas|negras|jaque|peón|alfil|"
    r"caballo|échecs|les blancs|les noirs|pion|cavalier)"
)


@per_language(
    "chess", rf"(?<![\w.])(\d{{1,3}})\.(?:\.\.)? ?(?=[RDTACF]?[a-h]?[1-8]?x?{_PLACE}|O-O|0-0)",
    needs=".", weight=2, at="number", digits=True,
)  # fmt: skip
def propose_move_number(language: str, match: re.Match[str]) -> Proposal:
    """1. e4 e5 2. Cf3."""
    gap = ("",) if match[0].endswith(" ") else (",", "")
    return Proposal(v.Phrase((v.Number(match[1]), *gap)), "abbreviation")


@per_language(
    "chess",
    lambda language: (
        rf"(?<!\w)(?<!\w\.)([KQRBN]|[a-h])([a-h]?[1-8]?)(x){_PLACE}"
        if language == "en"
        else rf"(?<!\w)([RDTACF])([a-h]?[1-8]?)(x?){_PLACE}"
    ),
    languages=RECOGNIZED_LANGUAGES, needs=lambda language: "x" if language == "en" else "RDTACF",
    weight=2, at="any", digits=True,
)  # fmt: skip
def propose_move(language: str, match: re.Match[str]) -> v.Value | None:
    """A man and the place where he goes or takes: Cf3, `Qxd4+`; in English, what takes."""
    man = _MEN[language].get(match[1], match[1] if match[1].islower() else "")
    if not man or (language != "en" and not _OF_CHESS.search(match.string)):
        return None
    takes, check, mate = _TAKES[language]
    from_place = [v.Number(one) if one.isdecimal() else one for one in match[2]]
    ending = {"+": [check], "#": [mate]}.get(match[6], [])
    parts = [man, *from_place, *([takes] if match[3] else []), match[4], v.Number(match[5])]
    return v.Phrase((*parts, *ending))


@per_language("sign", r" ?\+ ?/ ?[-−–] ?(?=\d)", needs="+", weight=2, at="any")
def propose_plus_or_minus(language: str, match: re.Match[str]) -> v.Value:
    return v.Phrase(("", v.Sign("±"), ""))


for _code, _less, _more in (("es", "menos", "más"), ("fr", "moins", "plus")):
    for _sign, _words in (("-", _less), ("+", _more)):
        constant(
            "sign", rf"{re.escape(_sign)}(?= de \d+ (?:ans|años)\b)(?<=s .)",
            v.Abbreviation(_words), languages=(_code,), needs=_sign, digits=True, weight=2,
        )  # fmt: skip
for _code, _during in (("es", "por"), ("fr", "pendant")):
    constant(
        "sign",
        r"(?<=[a-z.] )[x×](?= \d+ ?(?:d(?:ías?)?|j(?:ours?)?|sem(?:anas?|aines?)?|mes(?:es)?|"
        r"mois)\b)",
        v.Abbreviation(_during), languages=(_code,), needs="x×", digits=True, weight=1.6,
    )  # fmt: skip
_DOUBLE_SIGNS = ("<=", ">=", "!=", "==", "->", "=>", "§§")
_SIGNS = SPOKEN + GREEK + SILENT + "#/²³µ∆ºª[]"


@per_language(
    "sign",
    rf" {{0,4}}({one_of(_DOUBLE_SIGNS)}|[{re.escape(_SIGNS)}]) {{0,4}}",
    needs=_SIGNS,
    weight=0.1,
)
def propose_romance_sign(language: str, match: re.Match[str]) -> v.Value:
    sign = match[1]
    if sign * 3 in match.string[max(0, match.start(1) - 2) : match.end(1) + 2]:
        return v.Silence(space=True)
    closed = after(match, 1) in tuple(".,;:!?)")
    return v.Phrase(("", v.Sign(sign))) if closed else v.Phrase(("", v.Sign(sign), ""))


_QUOTE = '"\u201c\u201d\u201e\u201f\u00ab\u00bb\u2039\u203a'


@lru_cache(maxsize=4)
def _find_quotes(text: str) -> list[int]:
    """The places of quotation marks; no inches."""
    return [match.start() for match in re.finditer(rf'\d ?"|[{_QUOTE}]', text) if len(match[0]) < 2]


@per_language("quote", rf" ?[{_QUOTE}] ?|''", needs=_QUOTE + "'", weight=0.2)
def propose_quote(language: str, match: re.Match[str]) -> Proposal:
    """A quotation mark with the space inside the quotation."""
    text, start, end = match.string, match.start(), match.end()
    mark = start + (text[start] == " ")
    spaced_left = start == 0 or text[start] == " " or text[start - 1] in " (¿¡—\u2013-'"
    spaced_right = text[end - 1] == " " or text[end : end + 1] in (
        "",
        ".",
        ",",
        ";",
        ":",
        "!",
        "?",
        ")",
    )
    count = bisect_left(_find_quotes(text), mark)
    opens = spaced_left and (not spaced_right or count % 2 == 0)
    if opens:
        return Proposal(v.Silence(), start=mark)
    # A sentence may begin behind a closing mark: the space before it stays.
    keeps = text[end : end + 1].isupper() or (start and text[start - 1] in ".!?")
    closed = mark + 1
    return Proposal(
        v.Silence(), start=mark if keeps and text[closed : closed + 1] == " " else start, end=closed
    )


@per_language(
    "quote",
    r"(?<!\w)'(?=\w[^'\n]{0,200}'(?!\w))|(?<=[\w.,!?\u2026])'(?!\w)", needs="'", weight=0.2,
)  # fmt: skip
def propose_single_quote(language: str, match: re.Match[str]) -> v.Value | None:
    opens = not re.search(r"[\w.,!?\u2026]$", before(match, 1))
    if not opens and not re.search(r"(?:^|[\s(\u00bf\u00a1])'\w[^\n]*$", before(match, 200)):
        return None
    return v.Silence()


_DASHES = "\u2014\u2013-"


@per_language(
    "dash", r" {0,4}(?:[\u2014\u2013]|(?<=\s)--?(?=\s)|--+) {0,4}", needs=_DASHES, weight=0.15
)
def propose_dash(language: str, match: re.Match[str]) -> v.Value | Proposal:
    """A dash in a sentence is a pause, unless another mark makes one beside it."""
    lead, rest = before(match, 1), after(match, 1)
    if lead in (".", "!", "?", "\u2026", '"'):
        # The space before it may part two sentences.
        return Proposal(v.Silence(), start=match.end() - len(match[0].lstrip()))
    if not lead or lead in "\n,;:\u00bf\u00a1(" or not rest or rest == "\n":
        return v.Silence(space=True)
    return v.Silence() if rest in ".,;:!?)\u2026" else v.Abbreviation(", ")


# A dash that begins a speech, what was left out of a quotation, the number of a note.
_OTHERS = ("es", "fr")
constant(
    "dash", r"^[ \t]*(?:[\u2014\u2013]|--?(?=\s))[ \t]*", v.Silence(), languages=_OTHERS,
    needs=_DASHES, weight=0.3,
)  # fmt: skip
constant("ellipsis", r"\(\.{3}\)", v.Abbreviation("..."), languages=_OTHERS, needs="(", weight=1.5)
constant(
    "note", r"(?<=[\w.,;:!?\"])\[\d{1,3}\]", v.Silence(), languages=_OTHERS, needs="[", weight=2
)
