"""Shortened words, and the two hard ones: St. and Dr., which are a person's or a street's."""

from __future__ import annotations

import re

from anyrig.speech.normalise.english.words import DIGITS, STARTERS, stop
from anyrig.speech.normalise.rules import Rule, rule

STATES = dict(pair.split(":") for pair in (
    "AL:Alabama AK:Alaska AZ:Arizona AR:Arkansas CA:California CO:Colorado CT:Connecticut "
    "DE:Delaware FL:Florida GA:Georgia HI:Hawaii ID:Idaho IL:Illinois IN:Indiana IA:Iowa "
    "KS:Kansas KY:Kentucky LA:Louisiana ME:Maine MD:Maryland MA:Massachusetts MI:Michigan "
    "MN:Minnesota MS:Mississippi MO:Missouri MT:Montana NE:Nebraska NV:Nevada NH:New_Hampshire "
    "NJ:New_Jersey NM:New_Mexico NY:New_York NC:North_Carolina ND:North_Dakota OH:Ohio "
    "OK:Oklahoma OR:Oregon PA:Pennsylvania RI:Rhode_Island SC:South_Carolina SD:South_Dakota "
    "TN:Tennessee TX:Texas UT:Utah VT:Vermont VA:Virginia WA:Washington WV:West_Virginia "
    "WI:Wisconsin WY:Wyoming DC:D_C").split())  # fmt: skip
STATES = {code: name.replace("_", " ") for code, name in STATES.items()}
# Before a name.
_TITLES = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Prof": "Professor", "Gen": "General",
    "Col": "Colonel", "Sgt": "Sergeant", "Capt": "Captain", "Lt": "Lieutenant", "Maj": "Major",
    "Rev": "Reverend", "Hon": "Honorable", "Sen": "Senator", "Rep": "Representative",
    "Gov": "Governor", "Pres": "President", "Cpl": "Corporal", "Pvt": "Private",
    "Cmdr": "Commander", "Adm": "Admiral", "Brig": "Brigadier", "Insp": "Inspector",
    "Det": "Detective", "Supt": "Superintendent", "Mme": "Madame", "Mlle": "Mademoiselle",
    "Messrs": "Messieurs", "Fr": "Father", "Br": "Brother", "Mt": "Mount", "Ft": "Fort",
    "Atty": "Attorney", "Drs": "Doctors", "Sr": "Sister", "Cdr": "Commander", "Amb": "Ambassador",
    "Sec": "Secretary", "Pt": "Point", "Ven": "Venerable",
    "Mses": "Mizzes", "Msgr": "Monsignor", "Wm": "William", "Chas": "Charles", "Geo": "George", "Thos": "Thomas",
}  # fmt: skip
# After a name or in the middle of a sentence; the full stop stays where it ends the sentence.
_AFTER = {
    "Inc": "Incorporated", "Ltd": "Limited", "Corp": "Corporation", "Co": "Company",
    "Bros": "Brothers", "Jr": "Junior", "Sr": "Senior", "Esq": "Esquire", "Ave": "Avenue",
    "Av": "Avenue", "Blvd": "Boulevard", "Rd": "Road", "Ln": "Lane", "Pkwy": "Parkway",
    "Hwy": "Highway", "Sq": "Square", "Ct": "Court", "Pl": "Place", "Ter": "Terrace",
    "Cir": "Circle", "Expy": "Expressway", "Univ": "University", "Dept": "Department",
    "Assn": "Association", "Assoc": "Association", "Govt": "Government", "Bldg": "Building",
    "Natl": "National", "Intl": "International", "Mfg": "Manufacturing", "Apt": "Apartment",
    "Ste": "Suite", "Rm": "Room", "Tpke": "Turnpike", "Rte": "Route", "Twp": "Township",
    "Cty": "County", "Calif": "California", "Mass": "Massachusetts", "Penn": "Pennsylvania",
    "Tenn": "Tennessee", "Conn": "Connecticut", "Ariz": "Arizona", "Fla": "Florida",
    "Ill": "Illinois", "Mich": "Michigan", "Minn": "Minnesota", "Wash": "Washington",
    "Wis": "Wisconsin", "Okla": "Oklahoma", "Ont": "Ontario", "Inst": "Institute",
    "Acad": "Academy", "Tech": "Tech", "Mgr": "Manager", "Asst": "Assistant", "Dir": "Director",
    "Dist": "District", "Ed": "Ed", "Est": "Established", "Ph": "Ph", "Ext": "Extension",
    "Tel": "Telephone", "Jct": "Junction", "Ctr": "Center", "Hts": "Heights", "Tues": "Tuesday",
}  # fmt: skip
_LOWER = {
    "etc": "et cetera", "vs": "versus", "approx": "approximately", "dept": "department",
    "govt": "government", "misc": "miscellaneous", "max": "maximum", "avg": "average",
    "temp": "temperature", "est": "estimated", "ext": "extension", "tel": "telephone",
    "assoc": "associate", "asst": "assistant", "bldg": "building", "apt": "apartment",
    "mgmt": "management", "mgr": "manager", "mtg": "meeting", "pkg": "package", "qty": "quantity",
    "ref": "reference", "req": "required", "viz": "namely", "cont": "continued",
    "incl": "including", "excl": "excluding", "resp": "respectively", "abbr": "abbreviation",
    "dist": "district", "hwy": "highway", "ave": "avenue", "blvd": "boulevard", "rd": "road",
    "cf": "compare", "ibid": "ibid", "et al": "et al", "feat": "featuring", "prev": "previous",
    "esp": "especially", "orig": "originally", "var": "variable", "intl": "international",
    "natl": "national", "corp": "corporation", "inc": "incorporated", "ltd": "limited",
    "yr": "year", "yrs": "years", "hrs": "hours", "hr": "hour", "mins": "minutes",
    "lbs": "pounds", "oz": "ounces", "tbsp": "tablespoon", "tsp": "teaspoon", "secs": "seconds",
    "appt": "appointment", "ca": "circa", "gov't": "government", "lb": "pound", "wk": "week",
    "sq": "square", "ft": "feet", "prof": "professor", "cu": "cubic", "tbs": "tablespoon",
    "pt": "pint", "qt": "quart",
}  # fmt: skip
_NUMBERED = {
    "No": "Number", "Nos": "Numbers", "no": "number", "nos": "numbers", "p": "page",
    "pp": "pages", "vol": "volume", "Vol": "Volume", "vols": "volumes", "Vols": "Volumes",
    "ch": "chapter", "Ch": "Chapter", "chap": "chapter", "Chap": "Chapter", "fig": "figure",
    "Fig": "Figure", "figs": "figures", "Figs": "Figures", "eq": "equation", "Eq": "Equation",
    "sec": "section", "Sec": "Section", "sect": "section", "art": "article", "Art": "Article",
    "ver": "version", "Ver": "Version", "pt": "part", "Pt": "Part", "ep": "episode",
    "Ep": "Episode", "l": "line", "ll": "lines", "c": "circa", "ca": "circa", "op": "opus",
    "Op": "Opus", "bk": "book", "Bk": "Book", "para": "paragraph", "par": "paragraph",
    "tab": "table", "Tab": "Table", "ser": "series", "est": "established", "Est": "Established",
    "P": "Page", "App": "Appendix", "app": "appendix", "ed": "edition", "n": "note",
    "fn": "footnote", "Rm": "Room", "rm": "room", "Apt": "Apartment", "apt": "apartment",
    "Ste": "Suite", "Rte": "Route", "Hwy": "Highway", "hwy": "highway", "Bldg": "Building",
    "v": "verse", "vv": "verses", "b": "born", "d": "died", "r": "ruled", "v": "verse",
    "Flt": "Flight", "Lot": "Lot", "ex": "example", "Ex": "Example", "Q": "Question",
    "Sq": "Square", "Prob": "Problem",
}  # fmt: skip
_FIXED = {
    r"e\.g\.,?": "for example,", r"eg\.,?": "for example,", r"i\.e\.,?": "that is,",
    r"ie\.,?": "that is,", r"[Aa]\.k\.a\.": "also known as", r"a/k/a": "also known as",
    r"op\. cit\.": "op cit", r"et al\.": "et al", r"P\.P\.S\.": "P P S", r"q\.v\.": "which see",
    r"Ph\.D\.s": "P H Ds", r"Ph\. ?D\.": "P H D", r"B\.Sc\.": "B S C", r"M\.Sc\.": "M S C",
    r"D\.Phil\.": "D Phil", r"M\.Phil\.": "M Phil", r"Ed\.D\.": "E D D", r"Psy\.D\.": "Psy D",
    r"r\.p\.m\.": "revolutions per minute", r"m\.p\.h\.": "miles per hour", r"LL\.B\.": "L L B",
    r"LL\.M\.": "L L M", r"Litt\.D\.": "Litt D", r"sq\. ?ft\.": "square feet",
    r"fl\. ?oz\.": "fluid ounces", r"n\.b\.": "N B", r"o\.k\.": "okay", r"c\.v\.": "C V",
    r"p\.a\.": "per annum", r"w\.r\.t\.": "with respect to", r"E\.g\.,?": "For example,",
    r"I\.e\.,?": "That is,",
}  # fmt: skip
_SAINTS = frozenset(
    "Louis Paul Mary Peter Petersburg John Joseph Patrick Helens Lucia Clair Francis Augustine "
    "Thomas George Andrew Andrews Pancras Nicholas Bernard Moritz Tropez Kitts Vincent James "
    "Stephen Anthony Michael Mark Martin Catherine Elizabeth Albans Ives Germain Lawrence Helena "
    "Luke Matthew Jude Barts Croix Cloud Albert Christopher Valentine Basil Benedict Charles "
    "Johns Pauls Jerome Ignatius Lucie Pete Joan Bart Anne Agnes Clare Ambrose Teresa Denis David "
    "Edward Columba".split()
)  # fmt: skip


def _following(match: re.Match[str]) -> str:
    found = re.match(r"['\"]?\s*([A-Za-z][\w-]*)", match.string[match.end() : match.end() + 30])
    return found[1] if found else ""


def _preceding(match: re.Match[str]) -> tuple[str, bool]:
    """The word before, and whether it begins the sentence."""
    before = match.string[max(0, match.start() - 60) : match.start()].rstrip(" ")
    found = re.search(r"([\w'.-]+)$", before)
    if not found:
        return "", True
    lead = before[: found.start()].rstrip(" \"'(")
    titled = re.search(r"\b(?:Mrs?|Ms|Dr|St|Prof|Jr|Sr|Rev|Gen|Col|Capt|[A-Z])\.$", lead)
    return found[1], not lead or (lead[-1] in ".!?:\n" and not titled)


def _is_street(match: re.Match[str]) -> bool:
    """Whether the word before is a street's name, and what follows is no person's."""
    word, starts = _preceding(match)
    following = _following(match)
    named = bool(re.match(r"[A-Z][\w'-]+$|\d+(?:st|nd|rd|th)$", word))
    if not named or word in (
        "Lake",
        "Mount",
        "Mt",
        "East_",
        "Port",
        "Fort",
        "Dear",
        "Professor",
        "And",
        "But",
    ):
        return False
    if (
        not following
        or not following[0].isupper()
        or match.string[match.end() : match.end() + 1] == ","
    ):
        return not starts or not following or bool(re.match(r"\d", word))
    numbered = re.search(
        r"\b\d+[A-Z]? (?:[NSEW]\.? )?(?:[A-Z][\w'-]+ ?){1,3}$", match.string[: match.start()]
    )
    if following in STARTERS or numbered or re.match(r"\d", word):
        return True
    return following in (
        "NW",
        "NE",
        "SW",
        "SE",
        "Station",
        "Bridge",
        "North",
        "South",
        "East",
        "West",
        "Apt",
        "Suite",
        "Ste",
    )


@rule("abbreviation", r"\bSt\b\.?(?!\w)", needs="S")
def _street(match: re.Match[str]) -> str | None:
    following = _following(match).removesuffix("'s")
    word, _ = _preceding(match)
    if (
        following in _SAINTS
        and not re.match(r"\d", word)
        and not re.search(r"\b\d+ \w+ $", match.string[: match.start()])
    ):
        return "Saint"
    if _is_street(match):
        return "Street" + stop(match)
    if following[:1].isupper() or "-" in match.string[match.end() : match.end() + 1]:
        return "Saint"
    return "Street" + stop(match) if word[:1].isupper() else None


@rule("abbreviation", r"\bDr\b\.?(?!\w)", needs="D")
def _doctor(match: re.Match[str]) -> str | None:
    if _is_street(match):
        return "Drive" + stop(match)
    if _following(match)[:1].isupper() or "." in match[0]:
        return "Doctor" + (stop(match) if not _following(match) else "")
    return None


@rule(
    "abbreviation",
    rf"\b({'|'.join(_TITLES)})\.(?= ?[A-Z]| and (?:Mr|Ms|Dr|Prof)| & )|\b(Mrs|Mr|Ms|Prof|Sgt|Capt|Lt|Mt)(?= [A-Z][a-z])",
    needs="ABCDFGHILMPRSV",
)
def _title(match: re.Match[str]) -> str | None:
    short = match[1] or match[2]
    word, starts = _preceding(match)
    if short == "Sr" and word[:1].isupper() and not starts:
        return "Senior"
    if short in ("Pt", "Sec") and not match.string[match.end() :].startswith(" "):
        return None
    space = "" if match.string[match.end() : match.end() + 1] == " " else " "
    return _TITLES[short] + space


@rule(
    "abbreviation",
    rf"(?<![\w.])({'|'.join(sorted(_NUMBERED, key=len, reverse=True))})\. ?(?=\d|[IVX]+\b(?!'))",
    needs=DIGITS + "IVX",
)
def _numbered(match: re.Match[str]) -> str | None:
    short = match[1]
    if short in ("n", "l", "d", "b", "r", "v", "Q", "c", "P") and (
        match[0].endswith(".") and not match.string[match.end()].isdigit()
    ):
        return None
    if short in ("no", "art", "ed", "tab", "app", "ex", "par") and " " in match[0]:
        word, _ = _preceding(match)
        if re.match(r"\d+\. [A-Z]", match.string[match.end() :]) or word.lower() in (
            "said",
            "oh",
            "say",
        ):
            return None
    return _NUMBERED[short] + " "


@rule("abbreviation", r"№ ?(?=\d)", needs="№")
def _numero(match: re.Match[str]) -> str:
    return "number "


@rule("abbreviation", rf"(?<![\w.])(?:{'|'.join(f'({one})' for one in _FIXED)})(?!\w)", needs="./")
def _fixed(match: re.Match[str]) -> str:
    said = tuple(_FIXED.values())[(match.lastindex or 1) - 1]
    if said.endswith(","):
        return said
    return said + stop(match)


@rule("abbreviation", rf"(?<![\w.])({'|'.join(sorted(_AFTER, key=len, reverse=True))})\.(?!\w)|(?<=[a-z] )(Ave|Blvd|Rd|Ln|Pkwy|Hwy|Jr|Inc|Ltd|Corp)\b(?![.\w'])",
      needs="ABCDEFGHIJLMNOPRSTUW")  # fmt: skip
def _after(match: re.Match[str]) -> str | None:
    short = match[1] or match[2]
    if (
        short
        in (
            "Ed",
            "Tech",
            "Ph",
            "Ill",
            "Mass",
            "Wash",
            "Ter",
            "Cir",
            "Ct",
            "Pl",
            "Est",
            "Dir",
            "Tues",
            "Fla",
        )
        and not _preceding(match)[0][:1].isupper()
    ):
        if not match.string[: match.start()].rstrip().endswith(",") and match.string[match.end() : match.end() + 1] != ",":
            return None
    said = _AFTER[short]
    return said + stop(match)


@rule("abbreviation", rf"(?<![\w.'])({'|'.join(sorted(map(re.escape, _LOWER), key=len, reverse=True))})\.(?!\w)|(?<![\w.'])(vs|approx|etc|dept|govt|hrs|yrs|mins|lbs)(?![\w.'])",
      needs=".vaedghyml")  # fmt: skip
def _lower(match: re.Match[str]) -> str | None:
    short = match[1] or match[2]
    said = _LOWER[short]
    ends = not match.string[match.end() :].strip("\"') \n")
    if (
        short
        in (
            "max",
            "temp",
            "ref",
            "var",
            "inc",
            "req",
            "corp",
            "pt",
            "cont",
            "dist",
            "esp",
            "prev",
            "ext",
            "sq",
            "resp",
            "cu",
        )
        and ends
    ):
        return None
    return said + stop(match, before_names=short != "vs")


@rule("abbreviation", r"(?<![\w.])v\. (?=[A-Z])", needs="v")
def _versus(match: re.Match[str]) -> str:
    return "versus "


@rule(
    "abbreviation",
    r"\b([NSEW])\. (?=(?:[A-Z][a-z]+|\d+(?:st|nd|rd|th)) (?:St|Ave|Rd|Blvd|Dr|Ln|Street|Avenue|Road|Drive|Lane|Boulevard)\b)",
    needs="NSEW",
)
def _direction(match: re.Match[str]) -> str:
    return {"N": "North ", "S": "South ", "E": "East ", "W": "West "}[match[1]]


@rule(
    "abbreviation",
    r"(?:(?<=\w\. )|(?<=\w\w, )|(?<=reet )|(?<=enue )|(?<=Road ))(NW|NE|SW|SE)(?![\w])",
    needs="NS",
)
def _corner(match: re.Match[str]) -> str:
    return {"NW": "Northwest", "NE": "Northeast", "SW": "Southwest", "SE": "Southeast"}[match[1]]


@rule("abbreviation", rf"(?<=[a-z], )({'|'.join(STATES)})(?![\w.&-])", needs=",")
def _state(match: re.Match[str]) -> str | None:
    before = re.search(r"([A-Z][\w'.]+), $", match.string[: match.start()])
    return (
        STATES[match[1]]
        if before
        and match[1] not in ("OK", "ME", "HI", "OH", "IN", "OR", "ID", "MD", "MA")
        or before
        and match[1] in ("OH", "OR", "IN", "MA", "MD")
        else None
    )


RULES: tuple[Rule, ...] = (
    _fixed, _direction, _street, _doctor, _numbered, _numero, _title, _after, _lower, _versus, _corner, _state,
)  # fmt: skip
