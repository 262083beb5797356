"""Plain numbers: fractions, ordinals, ranges, powers, thousands and millions, counts."""

from __future__ import annotations

import re
from dataclasses import replace

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
    COMMA_NUMBER,
    DASH,
    FRACTIONS,
    MINUS,
    NAMED,
    NOT_NOUNS,
    NUMBER,
    NUMBER_END,
    NUMBER_START,
    NUMBERS,
    ODDS,
    SIGNED,
    STARTS,
    SUBSCRIPT,
    SUPERSCRIPT,
    VULGAR,
    after,
    agree,
    before,
    close,
    is_span,
    parse_amount,
    parse_comma_number,
    parse_number,
    word_after,
    word_before,
)
from anyrig.text.recognizers.languages import ROMANCE, TABLES, english, spanish
from anyrig.text.recognizers.languages.shared import SMALL
from anyrig.text.recognizers.stops import stop_after

_IDIOMS = {
    "24/7": ("24", "7"), "9/11": ("9", "11"), "7/7": ("7", "7"), "50/50": ("50", "50"),
    "20/20": ("20", "20"), "4/20": ("4", "20"),
}  # fmt: skip
_PLACES = LazyPattern(
    rf"{NAMED}(?:numbers? |is |was |are )*(?:\d+[A-Z](?:,? and |, | or | to |[-–]))*$"
)
_RATED = LazyPattern(
    r"\b(?:rated?|rating|scored?|gave|give|got|gets|earned|a|quiz|test|mark) [^.]{0,20}$"
)
_SUPER = "⁰¹²³⁴⁵⁶⁷⁸⁹"


@recognizer(
    "fraction",
    r"(?<![\w./])(?:(\d+)(?: and |[ -]))?(\d{1,4})[/⁄](\d{1,5})(ths?|rds?|nds?)?(?![\w/]|[.,]\d|%)",
    needs="/⁄",
    weight=1.1,
)
def propose_fraction(match: re.Match[str]) -> v.Value | Proposal | None:
    whole, above, below, suffix = match.groups()
    if not whole and match[0] in _IDIOMS and not re.match(r" of\b", after(match, 4)):
        first, second = _IDIOMS[match[0]]
        return Proposal(v.Score((v.Number(first), v.Number(second)), "even"), weight=1.6)
    if not int(below):
        return None
    number = int(whole) if whole else None
    if not whole and len(above) == len(below) == 2 and int(above) + int(below) == 100:
        return v.Score((v.Number(above), v.Number(below)), "even")
    if not whole and not suffix and ODDS.search(before(match, 40)):
        return v.Score((v.Number(above), v.Number(below)))
    if not whole and len(above) > 1 and len(below) < 3 and _is_of_cricket(match):
        return v.Phrase((v.Number(above), "for", v.Number(below)))
    if not whole and _ACT.search(before(match, 30)):
        year: v.Value = v.Year(int(above)) if len(above) == 4 else v.Number(above)
        return v.Phrase((year, "slash", v.Number(below)))
    if (not whole and int(above) > 20 and int(below) > 20) or int(below) > 1000:
        return v.Fraction(int(above), int(below), number, style="over")
    if whole and int(above) >= int(below):
        return None
    if not whole and not suffix and above != "1" and _is_rating(match, above, below):
        return v.Fraction(int(above), int(below), style="rate")
    return v.Fraction(int(above), int(below), number)


_ACT = LazyPattern(
    r"\b(?:Reg\.|Regulation|Directive|Decision|Resolution|Res\.|Dec\.|Dir\.|Recommendation|"
    r"Opinion|Case|Order) (?:\((?:E[CU]|EEC)\) )?(?:No\.? )?$"
)
"""Before the number of an act, which is no fraction: Regulation (EU) 2016/679."""
_RUNS_MADE = LazyPattern(
    r"\b(?:made|reach\w*|score\w*|post\w*|slump\w*|collaps\w*|declar\w*|total\w*|were|on|at) $"
)
_OVERS = LazyPattern(r"[^.;]{0,30}\b(?:overs?|wickets?|innings|dec(?:lared)?)\b")


def _is_of_cricket(match: re.Match[str]) -> bool:
    """Whether runs stand with wickets: 287/6 in 50 overs."""
    if not _OVERS.match(match.string, match.end()):
        return False
    return int(match[2]) > 20 or bool(_RUNS_MADE.search(before(match, 16)))


@recognizer("fraction", r"(?<![\w./,$£€])(\d{1,2})/(?=[$£€]\d)", needs="/", weight=3)
def propose_several_for(match: re.Match[str]) -> v.Value:
    """An offer: 2/$5."""
    return v.Phrase((v.Number(match[1]), "for "))


def _is_rating(match: re.Match[str], above: str, below: str) -> bool:
    rest = after(match, 20)
    if above == below or rest.startswith(" stars"):
        return True
    if re.match(r" of\b", rest):
        return False
    if below in ("5", "10", "20", "100") and _RATED.search(before(match, 30)):
        return True
    # Some of a number of people: 9/10 dentists.
    people = re.match(r" ([a-z]{3,}s|people|men|women|children)\b", rest)
    counted = people is not None and people[1] not in NOT_NOUNS
    return below in ("3", "4", "5", "10", "20", "100") and counted


@recognizer(
    "range",
    rf"(?<![\w./,])(\d{{0,3}} ?[{VULGAR}]|\d{{1,3}})(?: ?[-–—] ?)"
    rf"(\d{{0,3}} ?[{VULGAR}]|\d{{1,3}}(?![\d{VULGAR}]))(?![\w/.,]\d|[-–])",
    needs=VULGAR,
    weight=1.3,
)
def propose_vulgar_range(match: re.Match[str]) -> v.Value | None:
    """Sizes 7½-13, a draw of ½–½."""
    if not any(sign in VULGAR for sign in match[0]):
        return None
    return v.Range(parse_amount(match[1]), parse_amount(match[2]))


constant("fraction", r"(?<![\w.])(?<!\d )½(?= (?:price|off|day|days|time|board|fare|pint|term|"
                     r"mast)\b)",
         v.Abbreviation("half"), needs="½", weight=3)  # fmt: skip


@recognizer("fraction", rf"(?<![\w.])(\d+)?[ -]?([{VULGAR}])", needs=VULGAR, weight=1.1)
def propose_vulgar(match: re.Match[str]) -> v.Value:
    return v.Fraction(*FRACTIONS[match[2]], int(match[1]) if match[1] else None)


@recognizer(
    "ordinal",
    r"(?<![\w.,])(\d{1,3}(?:,\d{3})+|\d+)\^?(?:st|nd|rd|th|ˢᵗ|ⁿᵈ|ʳᵈ|ᵗʰ|"
    r"(?<=[23])d(?= (?:Cir|Dist|Dept|Div|ed|Sess|Cong|Lt|Cav|Inf|Bn|Regt|Armored)\b))(s?)\b",
    flags=re.IGNORECASE,
    weight=1.1,
)
def propose_ordinal(match: re.Match[str]) -> v.Value | None:
    digits = match[1].replace(",", "")
    return v.Ordinal(int(digits), plural=bool(match[2])) if len(digits) < 400 else None


@recognizer(
    "ordinal",
    r"(?<![\w.,])(\d{1,3})(?:st|nd|rd|th) ?[-–—] ?(\d{1,3})(?:st|nd|rd|th)(?!\w)",
    weight=1.6,
)
def propose_ordinal_span(match: re.Match[str]) -> v.Value:
    """`13th–14th`."""
    return v.Range(v.Ordinal(int(match[1])), v.Ordinal(int(match[2])))


@per_language(
    "number",
    lambda language: (
        rf"{STARTS[language]}([{MINUS}])?({NUMBERS[language]})(?: ?[×x·*] ?10(?:(?:\^|"
        rf"\*\*)\(?([-−+]?\d{{1,4}})\)?|([⁻⁺]?[{_SUPER}]+))|"
        r"[eE]([-+−]?\d{1,4}))(?![\w.]\w|\w)"
    ),
    languages=RECOGNIZED_LANGUAGES,
    weight=1.8,
)
def propose_scientific(language: str, match: re.Match[str]) -> v.Value | None:
    if language != "en" and match[5]:
        return None  # 3e: troisième
    exponent = (match[3] or match[4] or match[5]).translate(SUPERSCRIPT).replace("−", "-")
    if match[5] and (abs(int(exponent)) > 308 or _PLACES.search(before(match, 30))):
        return None  # Rm. 4E880, Gate 4E2
    factor = parse_amount(match[2], match[1], language=language)
    assert isinstance(factor, v.Number)
    return v.Power(v.Number("10"), exponent.removeprefix("+"), factor)


@per_language(
    "number",
    lambda language: (
        rf"{STARTS[language]}({NUMBERS[language]}|[A-Za-z])"
        rf"(?:\^\(?([-−]?\w{{1,4}})\)?|([⁻⁺]?[{_SUPER}]+))(?!\d)"
    ),
    languages=RECOGNIZED_LANGUAGES,
    needs="^⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺",
    weight=1.3,
    at="any",
)
def propose_power(language: str, match: re.Match[str]) -> v.Value:
    base: v.Value | str = (
        match[1] if match[1].isalpha() else parse_amount(match[1], language=language)
    )
    exponent = (match[2] or match[3]).translate(SUPERSCRIPT).replace("−", "-")
    return v.Power(base, exponent.removeprefix("+"))


_RUNS = LazyPattern(
    r" (?:run|race|runs|races|fun|walk|road|title|record|runner|runners|event|training|in \d)"
)


@recognizer(
    "number",
    rf"(?<![\w.,])({NUMBER})(?:(k|K|M|B|bn|mn|T)(\+)?(?![\w&]|-?[A-Z])(\.(?= [a-z]))?| (bn|"
    rf"mn|mil|tn)\b(\.(?= [a-z]))?)",
    weight=1.0,
)
def propose_short_scale(match: re.Match[str]) -> v.Value | Proposal | None:
    amount, scale, more = match[1], match[2] or match[5], match[3]
    lead, rest = before(match, 24), after(match, 12)
    if scale == "K" and len(amount) == 4 and amount.endswith("00"):
        return Proposal(
            v.Measure(parse_number(amount), "K"), end=match.end(2)
        )  # the light of a lamp
    if scale == "B" and (_PLACES.search(lead) or _is_bra(match, lead, rest)):
        return v.Phrase((v.Label(amount), v.Letters("B"))) if amount.isdecimal() else None
    if lead.endswith("-") and _MODEL_BEFORE.search(lead):
        return v.Phrase((v.Label(amount), v.Letters(scale))) if amount.isdecimal() else None
    if scale in "kK" and _is_letter_k(match, lead, rest):
        return Proposal(
            v.Phrase((parse_number(amount), v.Letters("K"))), end=match.end(2), weight=1.3
        )
    if match[0] == "3M" and (
        not re.match(r" [a-z]+", rest)
        or re.match(r" (?:is|was|has|made|makes|and|said|says|tape|products)\b", rest)
    ):
        return v.Phrase((parse_number(amount), v.Letters("M")))
    value: v.Value = parse_number(amount, None, english.SCALES[scale])
    return Proposal(
        v.Phrase((value, "plus")) if more else value,
        stop="abbreviation" if match[4] or match[6] else "none",
    )


_MODEL_BEFORE = LazyPattern(r"(?<![\w])[A-Z][A-Za-z]{0,2}-$")
"""Of an aircraft: the Tu-154M."""


def _is_bra(match: re.Match[str], lead: str, rest: str) -> bool:
    worn = re.search(r"\b(?:wears?|wore|sizes?|bras?)\b[^.;$]{0,8}$", lead)
    return len(match[1]) == 2 and bool(worn or re.match(r" (?:bras?|cup)\b", rest))


_SCREENS = LazyPattern(r" (?:screen|monitor|display|video|TV|resolution|film|footage|camera)\b")


def _is_letter_k(match: re.Match[str], lead: str, rest: str) -> bool:
    """Whether the letter is said: of a screen, or of a run."""
    crowd = re.match(r" runners?\b", rest) and match[1] not in ("5", "8", "10", "15")
    if re.match(r":? \d{1,2}:\d\d\b", rest) or re.search(r"\d:\d\d $", lead):
        return True  # 5K 15:20
    if match[0] in ("4K", "8K", "4k") or (_RUNS.match(rest) and not crowd) or _SCREENS.match(rest):
        return True
    if re.search(
        r"\b(?:[Rr]un|[Rr]an|[Rr]unning|[Ff]inish\w*|[Rr]aces?d?) (?:an?|the|his|her|my|their) $",
        lead,
    ):
        return match[1] in ("5", "8", "10", "12", "15", "20", "25", "30", "50", "100")
    if match[1] in ("21", "42") and re.search(r"(?i)marathon|\brace|\brun|\bran\b", lead):
        return True
    small = match[1] in ("5", "10", "15", "3", "8", "1.5", "20")
    if small and re.search(r"\b(?:[Tt]he|[Aa]n?|ran|run|[Hh]is|[Hh]er|[Mm]y|first|our) $", lead):
        return not re.match(
            r" (?:followers|fans|people|users|views|from|loan|salary|bonus|fee|budget|"
            r"deposit|prize|of|dollars|fine|raise)",
            rest,
        )
    return False


@recognizer(
    "version",
    r"(?<![\w.,])(v)?(\d{1,4}(?:\.\d{1,4})+)-?(rc|alpha|beta|dev|post|[ab])\.?(\d{1,4})(?!\w)",
    needs=".",
    weight=2,
    at="any",
)
def propose_prerelease(match: re.Match[str]) -> v.Value:
    """`2.0rc1`, `v1.10.2-rc1`."""
    stage = v.Letters(match[3]) if len(match[3]) < 3 else match[3]
    lead = ("version",) if match[1] else ()
    return v.Phrase((*lead, v.Version(tuple(match[2].split("."))), stage, v.Number(match[4])))


@recognizer(
    "version", r"(?<![\w.,])(\d{1,4}(?:\.\d{1,4})*)\.([xX])(?!\w|\.\w)", needs="xX", weight=2
)
def propose_any_version(match: re.Match[str]) -> v.Value:
    """`2.x`, `1.9.x`."""
    return v.Phrase((v.Version(tuple(match[1].split("."))), "point", v.Letters(match[2])))


@recognizer("measure", r"(?<![\w.])(\d{1,3}) ?st(?:\.(?= ?\d)|(?<= st)\.?(?!\w))?"
                       r"(?: ?(\d{1,2}) ?lbs?\b\.?)?(?!\w)",
            needs=("st",), weight=1.4, at="number")  # fmt: skip
def propose_stone(match: re.Match[str]) -> v.Value | Proposal | None:
    """Of a person: `14 st. 6 lb.`, `9st`; but not `21st`."""
    ordinal = match[1].endswith("1") and not match[1].endswith("11")
    spaced = " " in match[0]
    weighed = spaced and _WEIGHED.search(before(match, 60)) and int(match[1]) < 50
    if not match[2] and not weighed and (spaced or ordinal):
        return None
    stone = v.Phrase((v.Number(match[1]), "stone"))
    if not match[2]:
        return close(stone, match, digits_follow=False)
    value = v.Phrase((stone, v.Measure(v.Number(match[2]), "lb")))
    return close(value, match, digits_follow=False)


_WEIGHED = LazyPattern(
    r"(?i)\b(?:weigh(?:s|ed|ing)?|weight|lost|gained|put on|lb|stone|pounds|st)\b[^;]*$|"
    r"\b(?:is|was|am|are|about|around|nearly|almost|now|a) $"
)
_CALIBERS = frozenset("22 25 32 38 40 44 45 50 357 380".split())


@recognizer(
    "number",
    r"(?<![\w.])(\d{1,3}|[nkmr])!(?= ?[=/×*+÷≈)<>≤≥]|"
    r" ways\b)",
    needs="!",
    weight=2,
    at="any",
)
def propose_factorial(match: re.Match[str]) -> v.Value:
    """`5! = 120`."""
    base: v.Value = v.Number(match[1]) if match[1].isdecimal() else v.Letters(match[1].upper())
    return v.Phrase((base, "factorial"))


@recognizer("number", r"(?<=\b[Aa] )\.(\d{2,3})(?!\w|\.\d| ?%)", needs=".", weight=2)
def propose_caliber(match: re.Match[str]) -> v.Value | None:
    return v.Label(match[1]) if match[1] in _CALIBERS else None


@recognizer("number", rf"(?<![\w.,])({NUMBER})x(?!\w| ?[-+=*/^])", needs="x", weight=1)
def propose_times(match: re.Match[str]) -> v.Value:
    return v.Phrase((parse_number(match[1]), "times"))


@recognizer(
    "range",
    rf"(?<![\w.,/-])([{MINUS}])?({NUMBER})(k|K|M)?( ?[–—] ?|-| - )({NUMBER})(k|K|M|x)?(?! "
    rf"?[-–][\d]|\w|\.\d|/\d)",
    weight=0.8,
)
def propose_range(match: re.Match[str]) -> v.Value | None:
    sign, low, scale, dash, high, scale2 = match.groups()
    if (dash == " - " and re.search(r"[=+*/÷×] ?$", before(match, 2))) or re.match(
        r" ?[=+*÷×/]", after(match, 3)
    ):
        return None
    if dash == " - " and not sign and re.search(r"\d", low) and re.match(r" ?=", after(match, 3)):
        return None
    if dash == "-" and low.startswith("0") and len(low) > 1 and "." not in low:
        return v.Phrase((v.Digits((low,)), v.Digits((high,))))
    if dash == "-" and not (sign or scale or scale2) and _is_code(match, low, high):
        return v.Phrase((v.Label(low), v.Label(high)))
    if len(high) < len(low) and high[0] == "0" and is_span(low, high):
        high = low[: -len(high)] + high  # pages 101-04
    first = parse_number(low, sign, english.SCALES[scale] if scale else 0)
    last = parse_number(high, None, english.SCALES.get(scale2 or "", 0) if scale2 != "x" else 0)
    span = v.Range(first, last)
    return v.Phrase((span, "times")) if scale2 == "x" else span


_NUMBERED = LazyPattern(
    r"(?:\b[Nn]os?\.|#|\b[Nn]umber|\b[Cc]ase|\b[Dd]ocket|\b[Pp]art|\b[Ii]tem|\b[Ff]ig\.|"
    r"\b[Ff]igure|\b[Tt]able|\b[Ee]xhibit|\b[Ee]q\.|\b[Ee]quation|\b[Ee]xercise|\b[Pp]roblem) ?$"
)


def _is_code(match: re.Match[str], low: str, high: str) -> bool:
    """Whether a number in two parts names a thing: 747-400, No. 22-451."""
    if len(low) == 3 == len(high) and high.endswith("00") and not is_span(low, high):
        return True
    if not _NUMBERED.search(before(match, 10)):
        return False
    return not is_span(low, high) or len(high) > len(low) or len(low) - len(high) > 1


@recognizer(
    "number",
    r"(?<![\w.,])(\d{1,2})x(\d{1,2})s(?!\w)|"
    r"(?:(?<=[A-Za-z]-)|(?<=\d )|(?<=[a-z]['’]s ))(\d{1,4})s(?!\w)",
    needs="s",
    weight=2,
)
def propose_several(match: re.Match[str]) -> v.Value:
    """Of things with a number: 2x4s, MiG-21s."""
    if match[3]:
        return v.Label(match[3], "s")
    return v.Phrase((v.Number(match[1]), "by", v.Label(match[2], "s")))


@recognizer("number", r"(?<![\w.,])(\d{1,3}(?: \d{3})+)(?![\w]|[.,]\d| \d)", weight=0.9)
def propose_spaced_thousands(match: re.Match[str]) -> v.Value | None:
    many = match[1].count(" ") > 1 or match[1].endswith("000")
    return v.Number(match[1].replace(" ", "")) if many else None


@recognizer(
    "number",
    r"(?<![\w.,])(1?0{1,6}|1,000|10,000|100,000|1,000,000|10)s( of\b)?(?!\w)",
    needs="0",
    weight=1.5,
)
def propose_tens_of(match: re.Match[str]) -> v.Value | None:
    names = {"10": "tens", "100": "hundreds", "1000": "thousands", "10000": "ten thousands",
             "100000": "hundred thousands", "1000000": "millions"}  # fmt: skip
    name = names.get(match[1].replace(",", ""))
    several = match[2] or "," in match[1] or (len(match[1]) > 2 and word_before(match) != "the")
    if not name or not several:
        return None
    return v.Phrase((name, "of")) if match[2] else v.Abbreviation(name)


@recognizer("number", r"(?<![\w.])(\d{1,3})ers\b", weight=1)
def propose_people(match: re.Match[str]) -> v.Value:
    return v.Label(match[1], "ers")


_MARKED = {
    "en": r"(?<![\w./])(\d+\.\d+)/(10|5|100|4\.0|4)(?![\w/]|\.\d)",
    **dict.fromkeys(ROMANCE, rf"{NUMBER_START}(\d{{1,3}}[.,]\d{{1,2}})/(5|10|20|100){NUMBER_END}"),
}
_OUT_OF = {"en": "out of", "es": "sobre", "fr": "sur"}


@per_language(
    "fraction", _MARKED.__getitem__, languages=RECOGNIZED_LANGUAGES, needs="/", weight=1.5
)
def propose_mark(language: str, match: re.Match[str]) -> v.Value:
    """Of a film or a school: 7.5/10, 12,5/20."""
    marks, most = (parse_amount(one, language=language) for one in match.groups())
    return v.Phrase((marks, _OUT_OF[language], most))


@recognizer(
    "number",
    rf"(?<![\w])([−]|(?<![\w.)\"'])[-–](?=[\d.])|"
    rf"\+(?=\d))?({NUMBER})(?!\d)(?:(?<=\d)([A-Za-z])(?![\w&]))?",
    weight=0.5,
)
def propose_number(match: re.Match[str]) -> v.Value | None:
    sign, text, letter = match.groups()
    start = match.start(2)
    if text.startswith(".") and match.string[max(0, start - 1) : start].isalnum():
        return None
    if not letter:
        return parse_number(text, sign)
    # The number of `221B` names, when it is short.
    number = (
        v.Label(text)
        if not sign and text.isdecimal() and len(text) <= 4
        else parse_number(text, sign)
    )
    return v.Phrase((number, v.Letters(letter)))


@recognizer("number", r"\d+", weight=0.3)
def propose_leftover_digits(match: re.Match[str]) -> v.Value:
    lead = match.string[match.start() - 1 : match.start()] if match.start() else ""
    follows = match.string[match.end() : match.end() + 1]
    number: v.Value = v.Label(match[0]) if lead.isalpha() else v.Number(match[0])
    if not lead.isalnum() and not follows.isalnum():
        return number
    return v.Phrase(
        ((" ",) if lead.isalnum() else ()) + (number,) + ((" ",) if follows.isalnum() else ())
    )


@recognizer("number", "[₀-₉]+|[⁰¹²³⁴-⁹]+", needs="₀₁₂₃₄₅₆₇₈₉⁰¹²³⁴⁵⁶⁷⁸⁹", weight=0.3, at="any")
def propose_small(match: re.Match[str]) -> v.Value:
    plain = match[0].translate(SUBSCRIPT).translate(SUPERSCRIPT)
    if match[0][0] in "₀₁₂₃₄₅₆₇₈₉":
        return v.Phrase((" ", v.Number(plain), " "))
    # Behind a word it is the number of a note, which nobody reads.
    word = re.search(r"[A-Za-z,.;]*$", before(match, 4))
    return v.Silence() if word and len(word[0]) > 2 else v.Power("", plain)


# Spanish and French


_NAMED_BEFORE = LazyPattern(r"[^\s.!?] [A-ZÀ-Ý][\w+#-]* $")
_POINTED = frozenset(
    "v. vers. "
    "salle bureau porte version v web article section point paragraphe figure tableau chapitre "
    "art. chap. fig. sect. "
    "python windows".split()
)
_NAMING = frozenset(
    "page numéro n° no chambre chapitre ligne salle place bus article quai voie".split()
)


@per_language("number", rf"{NUMBER_START}({SIGNED})(?![\d\w])(?![.,]\d)", weight=0.5)
def propose_count(language: str, match: re.Match[str]) -> v.Value | None:
    number = parse_comma_number(match[1])
    whole = int(number.digits[:30])
    if number.decimals:
        pointed = number.point and (
            word_before(match) in _POINTED
            or number.decimals == "0"
            or _NAMED_BEFORE.search(before(match, 30))
        )
        if language == "fr" and pointed:
            return v.Version((number.digits, number.decimals))
        return number
    if language == "fr" and word_before(match) in _NAMING:
        return v.Label(number.digits)
    if word_after(match) in TABLES[language].UNITS:
        return number
    gender = agree(language, match, whole)
    if language == "es" and whole == 1 and not gender and word_before(match) in ("la", "las"):
        gender = "f"
    number = replace(number, gender=gender) if gender else number
    if whole and whole % 1_000_000 == 0 and _is_counting(language, match, gender):
        return v.Phrase((number, "de"))
    return number


def _is_counting(language: str, match: re.Match[str], gender: str) -> bool:
    """Whether a noun follows: un millón de personas, un million de personnes."""
    if language == "es":
        return bool(gender)
    noun = word_after(match)
    counted = noun.islower() and noun not in TABLES["fr"].NO_NOUN and not noun.startswith("d'")
    return counted and noun[0] not in "aeiouyéèêhœ"


@per_language(
    "number",
    rf"{NUMBER_START}({COMMA_NUMBER}) ?([Mk])(?!\w)(?<!\d )|"
    rf"{NUMBER_START}({COMMA_NUMBER}) M(?= d['e])",
    needs="Mk",
)
def propose_romance_short_scale(language: str, match: re.Match[str]) -> v.Value | None:
    """3M, 20k: as counts of people are written; HCl 2 M is a concentration."""
    if match[2] == "M" and re.search(
        r"(?<!\w)(?=\w*[a-z\d])[A-Z]\w?[A-Z\d]\w* $", before(match, 12)
    ):
        return v.Phrase((parse_comma_number(match[1]), v.Letters("M")))
    return parse_comma_number(match[1] or match[3], 3 if match[2] == "k" else 6, "m")


@per_language(
    "number",
    rf"{NUMBER_START}({COMMA_NUMBER})([A-Za-z]{{1,4}})(?!\w)|{NUMBER_START}({COMMA_NUMBER})(?=[^\W\d_])"
    r"|(?<=[^\W\d_])(\d+)(?![.,]?\d)", weight=0.45,
)  # fmt: skip
def propose_number_beside_letters(language: str, match: re.Match[str]) -> v.Value | None:
    """A number that touches letters: 5G, 802.11ac."""
    if match[4]:
        rest = " " if match.string[match.end() : match.end() + 1].isalpha() else ""
        return v.Phrase(("", v.Label(match[4]), *([""] if rest else [])))
    number = parse_comma_number(match[1] or match[3])
    figure: v.Value = v.Version((number.digits, number.decimals)) if number.point else number
    if match[3]:
        return v.Phrase((figure, ""))
    letters = match[2]
    if letters.islower() and len(letters) > 2:
        return v.Phrase((figure, letters))
    return v.Phrase((figure, v.Letters(letters.upper())))


@per_language(
    "number",
    rf"(?<=[{SMALL}0-9] )(?<!\d )(\d{{1,2}})([sScCxX])(?!\w)",
    needs="sScCxX", weight=3,
)  # fmt: skip
def propose_model(language: str, match: re.Match[str]) -> v.Value | None:
    """A thing's name: iPhone 6s."""
    named = re.search(r"(?:[A-ZÉ]\w*|[a-z][A-Z]\w*) $", before(match))
    return v.Phrase((v.Number(match[1]), v.Letters(match[2].upper()))) if named else None


@recognizer(
    "label",
    r"(?<![\w-])([HJ]) ?([-−–+]) ?(\d{1,3})(?!\w)",
    languages=("fr",),
    at="capital",
    weight=1.6,
)
def propose_countdown(match: re.Match[str]) -> v.Value:
    """The day or the hour before something: J-1, H+2."""
    sign = "+" if match[2] == "+" else "-"
    return v.Phrase((v.Letters(match[1]), v.Number(match[3], sign=sign)))


# A number that stands free is a count.
_LEFT = r"(?<!\d)(?:(?<![\s(])|(?<=\d\s)|(?=\d++(?:\s\d|[.,:]\d|[^\s.,;:!?)])))\d++"


@per_language("number", _LEFT, weight=0.2)
def propose_rest(language: str, match: re.Match[str]) -> v.Value:
    """Whatever digits are left: no figure goes unsaid."""
    lead = match.string[max(0, match.start() - 1) : match.start()].isalnum()
    rest = match.string[match.end() : match.end() + 1].isalnum()
    return v.Phrase((*([""] if lead else []), v.Number(match[0]), *([""] if rest else [])))


@recognizer(
    "number",
    rf"{NUMBER_START}1(?= de cada {COMMA_NUMBER} ([a-záéíóúñ]+))",
    languages=("es",),
    weight=2,
    needs=("cada",),
)
def propose_one_in(match: re.Match[str]) -> v.Value:
    """One of them has their gender: una de cada tres mujeres."""
    return v.Abbreviation("una" if spanish.find_gender(match[1]) == "f" else "uno")


@recognizer(
    "number",
    r"(?<!\w)([Dd])e (?=1(?:/\d| (?!(?:à|et|ou|sur|000)\b)[a-zà-ÿA-Z°%€$]))",
    languages=("fr",), needs=("de",), at="needs", weight=2,
)  # fmt: skip
def propose_number_behind_elision(match: re.Match[str]) -> v.Value:
    """D'un kilomètre, but de un à dix."""
    return v.Abbreviation(f"{match[1]}'")


# A law has a number in parts, no span: loi n° 2015-123.
_CODED = LazyPattern(r"(?:\bn°|\bnuméro|\b[LRD]\.) ?$")


@per_language(
    "range",
    rf"{NUMBER_START}({COMMA_NUMBER}){DASH}({COMMA_NUMBER}){NUMBER_END}(?!{DASH}\d)",
    weight=0.6,
    needs="-–—",
)
def propose_romance_range(language: str, match: re.Match[str]) -> v.Value | None:
    written = match[2]
    if len(written) < len(match[1]) and written.isdecimal() and word_before(match) in _PAGES:
        written = match[1][: -len(written)] + written  # pp. 345-57
    first, last = parse_comma_number(match[1]), parse_comma_number(written)
    if match[1] == match[2] == "50":
        return v.Phrase((first, last))
    spaced = re.search(r"\s[-\u2013]\s", match[0]) and not word_after(match)
    if spaced and int(first.digits) >= int(last.digits):
        return v.Phrase((first, "menos" if language == "es" else "moins", last))
    if language == "fr" and _CODED.search(before(match, 9)):
        return v.Phrase((first, "tiret", last))
    gender = agree(language, match, int(last.digits))
    between = word_before(match) == "entre"
    link = TABLES[language].AND if between else TABLES[language].TO
    if language == "es":
        first = parse_comma_number(match[1], gender=gender)
    return v.Range(first, parse_comma_number(written, gender=gender), link)


_PAGES = frozenset("p. pp. pág. págs. páginas pages página".split())


_RUN = {
    "es": LazyPattern(r"(?i)\b(?:corr|gan|marc|nad|tiempo|récord|dur|acab|termin|minuto)"
                      r"\w*[^.;]* (?:en|de|con) $"),
    "fr": LazyPattern(r"(?i)\b(?:cour|gagn|nag|temps|record|chrono|dur|termin|boucl|minute)"
                      r"\w*[^.;]* (?:en|de|avec) $"),
}  # fmt: skip
"""What is done in a time."""


@per_language(
    "ratio", rf"{NUMBER_START}(\d{{1,4}}):({COMMA_NUMBER}){NUMBER_END}(?!:)", needs=":", weight=0.6
)
def propose_ratio(language: str, match: re.Match[str]) -> v.Value:
    seconds = match[2].isdecimal() and len(match[2]) == 2 and int(match[2]) < 60
    if (
        seconds
        and len(match[1]) == 2
        and (match[2][0] == "0" or _RUN[language].search(before(match)))
    ):
        return v.Duration(minutes=int(match[1]), seconds=int(match[2]))  # 10 km en 31:05
    return v.Range(v.Number(match[1]), parse_comma_number(match[2]), TABLES[language].TO)


_VERSIONED = LazyPattern(r"(?i)\bversi[oó]n(?:es|s)? $")


@per_language(
    "version",
    r"(?<!\w)([vV])(\d+(?:\.\d+){1,4})(?!\w)|"
    r"(?<![\w.,])(\d{1,3}(?:\.\d{1,3}){2,})(?![\w.,]\d)(?!\d)",
    needs=".",
    at="any",
    weight=1.1,
)
def propose_version(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    parts = tuple((match[2] or match[3]).split("."))
    named = _VERSIONED.search(before(match, 10))
    if match[1] and not named:
        return v.Phrase((match[1], v.Version(parts)))
    if named:
        return Proposal(v.Version(parts), weight=2)
    if all(len(part) == 3 for part in parts[1:]) and parts[0] not in ("192", "255", "127"):
        return None
    return v.Version(parts)


@recognizer(
    "date",
    r"(?<=l )(\d{1,2})(?:-([MSFNJODAE])|([MSFNJ]))(?![\w-])",
    languages=("es",), needs="MSFNJODAE", weight=1.5,
)  # fmt: skip
def propose_day_letter(match: re.Match[str]) -> v.Value | None:
    """A day known by its month's first letter: el 8M, el 11-S."""
    if not re.search(r"(?<!\w)(?:el|del|al) $", before(match, 5).lower()):
        return None
    names = dict(zip("MSFNJODAE", "eme ese efe ene jota o de a e".split(), strict=True))
    return (
        v.Phrase((v.Number(match[1]), names[match[2] or match[3]])) if int(match[1]) < 32 else None
    )


_SIDES = frozenset("se fue izq izda izdo dcho dcha izquierda derecha izqda puerta letra".split())
_AFTER_ORDINAL = frozenset("de del y o más menos es en a por con para que al la el los las".split())
_DEGREE_WORDS = frozenset(
    "bajo sobre centígrados celsius fahrenheit norte sur este oeste latitud longitud kelvin "
    "alcohólicos n s e o w".split()
)
_NO_ORDERED = frozenset(
    "dentro fuera arriba abajo siempre durante hasta desde entre según cuando mientras "
    "aunque pero como tras sin unos unas nada ayer "
    "hoy mañana ahora también luego después antes donde porque ante contra".split()
)
"""Small words behind a number with º that are not what it orders."""
_FINISHED = LazyPattern(
    r"\b(?:qued|termin|acab|lleg|entr|finaliz|clasific|sal)[a-záéíóú]+ $", re.IGNORECASE
)
_DEGREE_CONTEXT = LazyPattern(
    r"\b(?:amanec\w+|mediodía|madrugada|helada|hubo|hace|hac[ií]a|hará|hizo|haga|temperatura|temp\.|fiebre|ángulo|gir\w+|inclin\w+|latitud|"
    r"longitud|alcohol|frío|calor|horno|hornea\w*|hornee|termómetro|pendiente|rot\w+|máxim\w*|"
    r"mínim\w*|máx\.?|mín\.?|sombra|marc\w+|mercurio|calient\w+|hierve|congel\w+|grados|vino|"
    r"cerveza|agua|norte|sur|clima|termostato|precalient\w+|desvi\w+|arco|vuelta|viraje|lava\w*)\b",
    re.IGNORECASE,
)  # fmt: skip
_RANKED = LazyPattern(
    r"\b(?:qued\w+|termin\w+|acab\w+|lleg\w+|entr\w+|es|fue|finaliz\w+|puesto|clasific\w+|número|"
    r"art\.|artículo|en|piso|planta) $"
)


def is_degrees(match: re.Match[str], number: str) -> bool:
    """Whether a Spanish number with º or ° measures heat or an angle: 40º a la sombra."""
    rest = word_after(match)
    if rest.lower() in _DEGREE_WORDS:
        return True
    lead = word_before(match)
    small = rest in _AFTER_ORDINAL or rest in _SIDES or rest in _NO_ORDERED
    noun = rest.islower() and len(rest) > 2 and not small
    if lead == "entre":
        return True
    if int(number) <= 20 and _FINISHED.search(before(match, 20)):
        return False  # quedó 5º
    if lead in ("el", "la", "del", "al", "su", "mi", "tu", "este", "ese", "cada", "nuestro"):
        return False
    if noun:
        return "°" in match[0] and lead in ("a", "de", "hasta", "los", "unos")
    if _DEGREE_CONTEXT.search(before(match, 60)):
        return True
    if lead == "a" and (not rest or small):
        return True
    return int(number) > 20 and not _RANKED.search(before(match, 20))


@recognizer(
    "ordinal",
    r"(?<![\w.,])(?<![-\u2212\u2013])(\d{1,3})(?:\.?(º|ª|°(?=\s?[a-z]{4,}))|\.?(os|as)(?!\w)"
    r"|\.?(er|ero|ro|do|to|mo|vo|no|era|ra|da|ta|ma|va|na|o|a)(?!\w))"
    r"(?:\.(?= [a-z]|\s?[A-ZÁÉÍÓÚ][a-z]+\.))?(s?)(?![\da-zá-ú])",
    languages=("es",),
)
def propose_spanish_ordinal(match: re.Match[str]) -> v.Value | None:
    number, ending = int(match[1]), (match[2] or match[3] or match[4]).lower()
    noun = word_after(match)
    before_noun = noun.islower() and noun not in _AFTER_ORDINAL and noun not in _SIDES
    dotted = "." in match[0]
    if not number or (
        match[4] and len(ending) == 1 and not dotted and not (before_noun and len(noun) > 3)
    ):
        return None
    if ending in ("º", "°") and not dotted and is_degrees(match, match[1]):
        return None
    before_noun = before_noun or bool(re.match(r" [A-ZÁ][a-zóé]{1,4}\.", after(match)))
    feminine = ending in ("ª", "as") or ending.endswith("a")
    short = ending == "er" or (ending == "º" and before_noun)
    plural = bool(match[5]) or ending in ("os", "as")
    value: v.Value = v.Ordinal(number, "f" if feminine else "m" if short else "", plural)
    joined = after(match, 1).isalpha()
    return v.Phrase((value, "")) if joined else value


@recognizer(
    "ordinal", r"(?<![\w.])(\d{1,3})\.?º\.(\d{1,2})(?![\w.])", languages=("es",), weight=1.6
)
def propose_spanish_article(match: re.Match[str]) -> v.Value:
    """Of a law: el artículo 5.º.2."""
    return v.Phrase((v.Ordinal(int(match[1])), v.Number(match[2])))


_IN_ORDER = (
    "premièrement deuxièmement troisièmement quatrièmement cinquièmement sixièmement septièmement "
    "huitièmement neuvièmement dixièmement"
).split()


_FRENCH_LIST = LazyPattern(
    r"(?<![\d,-])1[°º] (?!et\b|ou\b|à\b)[^\W\d_][^°º]{3,300}(?<![\d,-])2[°º] "
)


@recognizer(
    "ordinal",
    r"(?:(?<=\d, )|(?<=[IVX], )|(?<=\b[Aa]u )|(?<=\b[Dd]u )|(?<=\b[Ll]e ))"
    r"([1-9]|10)[°º](?=[,;]| d(?:e l|u|es)\b)|(?:^|(?<=[:;] ))([1-9]|10)[°º](?= [A-ZÀ-Ý]|"
    r" (?!au\b|aux\b|à\b|en\b|les?\b|la\b|de\b|ce\b|dans\b|et\b|sur\b|ou\b)[a-zà-ÿ]{3})|"
    rf"{NUMBER_START}([1-9]|10)[°º](?= [^\W\d_])",
    languages=("fr",),
    weight=1.6,
)
def propose_french_item(match: re.Match[str]) -> v.Value | None:
    """Of a law or a list: II, 2°, du code; au 3° de l'article; il faut 1° signer, 2° dater."""
    number = int(match[1] or match[2] or match[3])
    near = max(0, match.start() - 300)
    if match[3] and not _FRENCH_LIST.search(match.string, near, match.end() + 300):
        return None
    return v.Abbreviation(_IN_ORDER[number - 1]) if number else None


@recognizer(
    "ordinal",
    r"(?<![\w.,])(\d{1,7})(?:(ers|er|res|re|ères|ère)|(ème|eme|ième|ieme|è|e|nde|nd|de|d)(s?))(?!\w)",
    languages=("fr",), weight=1.4,
)  # fmt: skip
def propose_french_ordinal(match: re.Match[str]) -> v.Value | None:
    number, first, ending = int(match[1]), match[2], match[3]
    if first:
        if number != 1:
            return v.Ordinal(number) if number % 10 == 1 else None
        return v.Ordinal(1, "m" if first[0] == "e" else "f", first.endswith("s"))
    if not number or (ending in ("nd", "nde", "d", "de") and number != 2):
        return None
    if ending in ("nd", "d", "nde", "de"):
        return v.Abbreviation(f"second{'e' if ending.endswith('e') else ''}{match[4]}")
    return v.Ordinal(number, "m" if number > 1 else "", bool(match[4]))


_FRACTION = (
    rf"{NUMBER_START}([-\u2212]?)(?:(\d{{1,3}}) ?)?([{VULGAR}])(?!\w)"
    rf"|{NUMBER_START}(?:(?<!\d )([-\u2212]))?(?:(\d{{1,3}}) )?(\d{{1,3}})[/\u2044](\d{{1,4}})"
    rf"{NUMBER_END}(?!/)"
)
_GRADED = {
    "es": LazyPattern(
        r"nota|puntu|calific|sacó|saqué|obtuv|valor|examen|apgar|escala|glasgow|\beva\b"
    ),
    "fr": LazyPattern(
        r"not[eé]|obten|\beu\b|score|moyenne|évalu|examen|apgar|échelle|glasgow|\beva\b"
    ),
}
_PART_OF = {"es": LazyPattern(r" del?\b"), "fr": LazyPattern(r" d(?:es?\b|u\b|')")}
"""What is divided stands behind: dos quintos del capital."""
_HALF_AFTER = {"es": _AFTER_ORDINAL, "fr": TABLES["fr"].NO_NOUN}


@per_language("fraction", _FRACTION, needs="/\u2044" + VULGAR, weight=0.9)
def propose_romance_fraction(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    sign = "-" if match[1] or match[4] else ""
    whole = match[2] or match[5]
    above, below = FRACTIONS[match[3]] if match[3] else (int(match[6]), int(match[7]))
    if (above, below) in ((24, 7), (50, 50)) and not whole:
        return v.Phrase((v.Number(str(above)), v.Number(str(below))))
    if 1900 <= below <= 2100:
        slash = "barra" if language == "es" else "slash"
        return v.Phrase((v.Number(str(above)), slash, v.Number(str(below))))
    if whole and above >= below:
        return None
    number = int(whole) if whole else None
    pressure = whole is None and above > below >= 30  # 140/90
    if above == below or pressure or _is_graded(language, match, above, below):
        return v.Fraction(above, below, number, sign, "over")
    if (above, below) == (1, 2):
        return _half(language, match, number)
    noun = word_after(match)
    if above > 1 and below in (5, 10, 20, 100) and noun.islower() and noun.endswith("s"):
        # Nueve de cada diez dentistas, neuf dentistes sur dix; but dos quintas partes, de los.
        counts = noun not in _HALF_AFTER[language] and noun not in ("partes", "parts", "des")
        if counts and language == "es":
            return v.Phrase((v.Number(str(above)), "de cada", v.Number(str(below))))
        if counts:
            parts = (v.Number(str(above)), noun, "sur", v.Number(str(below)))
            return Proposal(v.Phrase(parts), end=match.end() + 1 + len(noun))
    if above == 1 and not whole and word_before(match) in ("un", "une"):
        return v.Fraction(above, below, None, sign, "bare")  # The article is there: un 1/4.
    return v.Fraction(above, below, number, sign)


_TO = {"es": "a", "fr": "sur"}


@per_language(
    "fraction", rf"{NUMBER_START}1/(\d{{1,3}}(?:[ .]\d{{3}})+){NUMBER_END}", needs="/", weight=1.6
)
def propose_scale(language: str, match: re.Match[str]) -> v.Value:
    """Of a map: 1/50 000."""
    number = v.Number(re.sub(r"\D", "", match[1]))
    return v.Phrase((v.Number("1"), _TO[language], number))


_DOSES = {"es": "veces", "fr": "fois"}


@per_language("rate", r"(?<=\d) ?[x×] ?/ ?(?=[a-zí])", needs="/", weight=3, at="any", digits=True)
def propose_times_each(language: str, match: re.Match[str]) -> Proposal | None:
    """3 x/j, 2x/día: the period is read by itself."""
    period = re.match(r"([a-zí]+)\.?(?!\w)", after(match, 12))
    words = TABLES[language].PER_WORDS.get(period[1]) if period else None
    if not period or not words:
        return None
    end = match.end() + len(period[0])
    stop = stop_after(match.string, end, language) if period[0].endswith(".") else "none"
    return Proposal(v.Abbreviation(f" {_DOSES[language]} {words}"), stop=stop, end=end)


@recognizer(
    "fraction",
    rf"{NUMBER_START}(\d)/([3-9]|1[0-2])(?= partes?\b)",
    languages=("es",),
    needs="/",
    weight=1.4,
)
def propose_spanish_parts(match: re.Match[str]) -> v.Value:
    """Tres cuartas partes."""
    above = int(match[1])
    return v.Phrase((v.Number(match[1], gender="f"), v.Ordinal(int(match[2]), "f", above > 1)))


def _is_graded(language: str, match: re.Match[str], above: int, below: int) -> bool:
    """Marks are out of ten or twenty; other fractions are parts."""
    marked = _GRADED[language].search(before(match).lower()) and below in (5, 10, 15, 20, 100)
    marked = marked and not _PART_OF[language].match(after(match, 8))
    improper = above > below and below not in (2, 3, 4)
    return bool(
        below == 0 or improper or above > below * 3 or marked or (above > 1 and below in (20, 100))
    )


def _half(language: str, match: re.Match[str], whole: int | None) -> v.Value:
    """A half agrees with what it halves: media taza, dos y medio."""
    noun = word_after(match).lower()
    counts = bool(noun) and noun not in _HALF_AFTER[language]
    gender = TABLES[language].find_gender(noun) if counts else ""
    if language == "es":
        half = "media" if gender == "f" else "medio"
        if whole is not None:
            return v.Phrase((v.Number(str(whole), gender=gender if whole == 1 else ""), "y", half))
        return v.Abbreviation(half if gender else "un medio")
    if whole is not None:
        return v.Phrase((v.Number(str(whole)), "et", "demie" if gender == "f" else "demi"))
    return v.Abbreviation("un demi")


_PARTS_OF_HOURS = {
    "es": {"1/2": "y media", "½": "y media", "1/4": "y cuarto", "¼": "y cuarto"},
    "fr": {"1/2": "et demie", "½": "et demie", "1/4": "et quart", "¼": "et quart"},
}


@per_language(
    "time", rf"{NUMBER_START}(\d{{1,2}}) ?h(?:oras?|eures?)? ?(1/[24]|[½¼])(?![\w/])", weight=2
)
def propose_hours_and_part(language: str, match: re.Match[str]) -> v.Value:
    """Two and a half hours, and half past two in French: 2 h 1/2."""
    return v.Phrase((v.Duration(int(match[1])), _PARTS_OF_HOURS[language][match[2]]))


@per_language("fraction", rf"{NUMBER_START}(\d{{1,3}})(?: 1/2| ?½) ([{SMALL}]+)(?!\w)", needs="/½")
def propose_and_half(language: str, match: re.Match[str]) -> v.Value | None:
    """Behind what is counted: dos tazas y media, deux heures et demie."""
    noun = match[2]
    if noun in _HALF_AFTER[language] or noun in TABLES[language].UNITS:
        return None
    gender = TABLES[language].find_gender(noun)
    number = v.Number(match[1], gender=gender)
    if language == "fr":
        return v.Phrase((number, noun, "et", "demie" if gender == "f" else "demi"))
    if match[1] == "1":
        noun = re.sub(r"(?<=[lrnd])es$|s$", "", noun)
    return v.Phrase((number, noun, "y", "media" if gender == "f" else "medio"))


@per_language(
    "fraction",
    r"(?<![\w/])(?:(\d{0,2})([α-ωa-z])|(\d{1,3}))/(?:(\d{0,3})([α-ω])|(\d{1,3}))(?![\w/])"
    r"( ?rad\b)?",
    needs="/",
    digits=False,
    at="any",
    weight=2,
)
def propose_greek_fraction(language: str, match: re.Match[str]) -> v.Value | None:
    """Of a formula: π/2, 3π/4, n/2; but 5/8 is a plain fraction."""
    many, letter, number, last, below, part, radians = match.groups()
    if not (letter or below) or (
        letter and letter.isascii() and not _IN_FORMULA.search(match.string)
    ):
        return None
    if letter and letter.isascii() and not part:
        return None
    parts: list[v.Value | str] = []
    for count, sign in ((many or number, letter), (last or part, below)):
        parts += [TABLES[language].OVER] if parts else []
        parts += [v.Number(count)] if count else []
        parts += [v.Sign(sign) if not sign.isascii() else sign] if sign else []
    parts += [v.Measure(None, "angle-radian")] if radians else []
    return v.Phrase(tuple(parts))


@per_language(
    "law",
    r"(?<![\w.,])(\d{1,3}(?:\.\d{1,2})?)\.([a-z])(\))?(?![\w.])",
    needs=["innerDot", "."],
    at="number",
    digits=True,
    weight=1.6,
)
def propose_lettered_part(language: str, match: re.Match[str]) -> v.Value | None:
    """El artículo 3.1.b), l'article 5.a."""
    if not re.search(
        r"\b(?:[Aa]rts?\.|[Aa]rt[íi]c[ul]\w+|[Aa]pdo\.|[Aa]ps?\.|[Aa]partados?|[Pp]unto|[Aa]l\.|"
        r"alinéa) $",
        before(match, 16),
    ):
        return None
    return v.Phrase((v.Version(tuple(match[1].split("."))), v.Letters(match[2].upper())))


_IN_FORMULA = LazyPattern(r"[=+²³√<>≤≥]")


@per_language("fraction", rf"{NUMBER_START}(\d+)/(\d+)(?= ?=)", needs="/", weight=1.2)
def propose_quotient(language: str, match: re.Match[str]) -> v.Value:
    by = "entre" if language == "es" else "divisé par"
    return v.Phrase((v.Number(match[1]), by, v.Number(match[2])))


@recognizer(
    "fraction", rf"{NUMBER_START}1/(2|4|8|16) (?:de )?(?=finales?\b)", languages=("fr",), weight=2
)
def propose_round(match: re.Match[str]) -> v.Value:
    """Of a cup: la demi-finale, le quart de finale."""
    rounds = {"2": "demi-", "4": "quart de ", "8": "huitième de ", "16": "seizième de "}
    return v.Abbreviation(rounds[match[1]])


@per_language(
    "fraction", r"(?:(?<=\w y )|(?<=\w et ))(?:1/2|½)(?![\w/]| [^\W\d_]{3})", needs="/½", weight=2
)
def propose_and_a_half(language: str, match: re.Match[str]) -> v.Value:
    """1 h y 1/2, 3 kg et 1/2."""
    counted = re.search(r"([^\W\d_]+) (?:y|et) $", before(match, 30))
    noun = counted[1].lower() if counted else ""
    feminine = noun in ("h", "t") or TABLES[language].find_gender(noun) == "f"
    if language == "es":
        return v.Abbreviation("media" if feminine else "medio")
    return v.Abbreviation("demie" if feminine else "demi")


@recognizer(
    "fraction",
    r"(?<=[a-z] )(?:1/2|½)(?![\w/])",
    languages=("fr",), needs="/½", weight=1.2,
)  # fmt: skip
def propose_noun_and_half(match: re.Match[str]) -> v.Value | None:
    """Behind what is counted: sept ans et demi."""
    noun = word_before(match)
    if noun not in ("an", "ans", "mois", "jours", "kilos", "litres", "heure", "heures"):
        return None
    return v.Abbreviation("et demie" if noun.startswith("heure") else "et demi")


@recognizer(
    "fraction",
    rf"{NUMBER_START}(?:1/2|½) (?=([{SMALL}]+))",
    languages=("fr",),
    needs="/½",
    weight=1.2,
)
def propose_half_of(match: re.Match[str]) -> v.Value | None:
    """Joined to what it halves: une demi-heure."""
    if match[1] in TABLES["fr"].NO_NOUN:
        return None
    return v.Abbreviation(f"{'une' if TABLES['fr'].find_gender(match[1]) == 'f' else 'un'} demi-")
