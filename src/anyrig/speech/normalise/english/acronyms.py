"""Acronyms, said as a word or spelled, and names made of letters and digits."""

from __future__ import annotations

import re

from anyrig.speech.normalise.english.words import STARTERS, label_number, letters, stop
from anyrig.speech.normalise.rules import Rule, rule

SAID = frozenset(
    "NASA NATO UNESCO UNICEF OPEC AIDS LASER RADAR SCUBA FIFA UEFA NAFTA NASDAQ OSHA FEMA POTUS "
    "SCOTUS COVID SARS MERS RAM ROM GIF PIN SIM LAN WAN SWAT AWOL CAPTCHA YOLO FOMO NIMBY ANOVA "
    "DOS BIOS CAD JSON GUI IKEA DARPA NOAA ASCII UNIX PEMDAS MENSA INTERPOL EBITDA ERISA HIPAA "
    "LIDAR SONAR TED WASP ZIP MIDI NAND PETA RICO SALT START STEM STEAM SPAM TASER SAT_ ICE NOW "
    "CERN ESA_ ASEAN BRICS NAFTA SNAP HUD TSA_ MASH SEAL SEALS NASCAR LEGO VISA TOEFL IELTS_ GIS_ "
    "WYSIWYG REST SOAP AJAX CRUD BASIC COBOL FORTRAN LISP YAML WAV TIFF MOMA SOHO NOHO TRIBECA "
    "COSPLAY CRISPR AMBER NICU_ WAC WAVES SAG DEFCON NORAD SIDS GATT INTELSAT EPCOT NIKE OK FAQ_ "
    "CAPEX OPEX SIG RIP_ DNF_ NAN LOL_ FLOTUS HAMAS ISIS OXFAM Hamas MAGA BAFTA OPEC AMOLED OLED_ "
    "SATA_ UNIVAC ENIAC TEFL CAM COP DORA".split()
)  # fmt: skip
_SAID = frozenset(word for word in SAID if not word.endswith("_"))
SPELLED = frozenset(
    "US IT UK EU UN AI TV PC ID OJ IQ DJ DC LA NY UV HR PR AC CEO CIA FBI USA API ATM GPS DNA RNA "
    "UFO VIP IRS EPA FDA IEEE NAACP ASPCA UCLA ESPN AARP ACLU YMCA YWCA USSR USDA NCAA OECD IAEA "
    "UAE ISBN IOU IPO IUD ETA EKG IBM AOL AMA ABA ACT_ AP_ SUV IPA ISO URL USB UPS UEA UCSF UNHCR "
    "AMD APR EMT ESL EU FAQ OED OLED MIT IMAX_ IMF IRA_ IVF IKE_ AAA AA OCR OCD ADHD ADD IBS HIV "
    "EEG ICU ER OR_ OPEC_ UPI UPC USPS USAF USMC USC UCL LSE ASAP RSVP DIY AKA EOD EOF EDM IDE "
    "IOS IP OS QA UI UX UAV EV ROI KPI EPS IPA AOC VAT APA MLA AIM ELO_ IPCC EOS AFL AFC NFC AWS "
    "SAAS_ IRL OMG IDK AMC NPR SUVs SAT GRE IELTS OAP TEN_ ESA TSA NICU GIS IED CEO CFO COO CTO "
    "CIO VP MVP LGBT LGBTQ EMS ABC BBC NBC CBS PBS HBO CNN MTV MLB NBA NFL NHL UFC WWE UK AC DC "
    "ADA_ IPOs WHO_ ITV RAF MI SOS BAC BA MA BSc MSc PhD MD JD MBA BS DDS RN LLC LLP PLC NGO ALS "
    "AV ATV SATs USS HMS EST PST CST MST GMT UTC EDT PDT BCE BC AD CE PM AM".split()
)  # fmt: skip
_WORDS = frozenset(
    "MAX A I AM AN AND ANY ARE AS AT BAD BE BIG BUT BY CAN DAD DAY DID DO END FAR FEW FOR FUN GET GO "
    "GOD GOT HAD HAS HE HER HEY HI HIM HIS HOW IF IN IS ITS JOB LAW LET LOT LOW MAN MAY ME MEN "
    "MOM MY NEW NO NOR NOT NOW OF OFF OH OK OLD ON ONE OR OUR OUT OWN PUT RED RUN SAD SAW SAY SEE "
    "SET SHE SIX SO SON TEN THE TO TOO TOP TRY TWO UP USE WAR WAS WAY WE WHO WHY WIN YES YET YOU "
    "BOY GUN CAR DOG CAT EAT SIR BUY FIX KEY RAW AGE AGO AIR ALL ART ASK BAR BED BIT BOX CUT DIE "
    "DRY EYE FLY HIT HOT ICE ILL LAY LEG LIE MAD MAP MIX NET ODD OIL PAY PER RAN SEA SIT SKY SUN "
    "TAX TEA VAN WET WON DIM MID SHH UGH HMM WOW YAY HA AH AHA EH UH UM HUH NAH PSST BOO BAM POW "
    "ZAP GRR BRR OW OOH HO YO WHAT STOP HELP".split()
)  # fmt: skip
_SPECIAL = {
    "PhD": "P H D", "PhDs": "P H Ds", "WWII": "World War two", "WWI": "World War one",
    "WW2": "World War two", "WW1": "World War one", "JPEG": "jay peg", "JPEGs": "jay pegs",
    "JPG": "J P G", "iOS": "i O S", "macOS": "mac O S", "IEEE": "I triple E",
    "NAACP": "N double A C P", "AAA": "triple A", "H2O": "H two O", "CO2": "C O two",
    "BSc": "B S C", "MSc": "M S C", "mRNA": "m R N A", "WiFi": "Wi-Fi", "WIFI": "Wi-Fi",
    "iPhone": "iPhone", "MLitt": "M Litt", "MPhil": "M Phil", "NCAA": "N C double A",
    "C-SPAN": "C-SPAN", "tRNA": "t R N A", "YouTube": "YouTube", "LGBTQ+": "L G B T Q plus",
    "LGBTQIA+": "L G B T Q I A plus", "vs": "versus", "JavaScript": "JavaScript",
    "TikTok": "TikTok", "LaTeX": "LaTeX", "pH": "P H", "MoMA": "MoMA", "DoD": "D O D",
    "PowerPoint": "PowerPoint", "GitHub": "GitHub", "LinkedIn": "LinkedIn", "PayPal": "PayPal",
    "FedEx": "FedEx", "OpenAI": "Open A I", "ChatGPT": "Chat G P T", "eSIM": "e SIM",
    "MySQL": "My S Q L", "NoSQL": "No S Q L", "PostgreSQL": "Postgres Q L", "kHz": "kilohertz",
    "MHz": "megahertz", "GHz": "gigahertz", "Hz": "hertz", "kWh": "kilowatt hours",
    "dB": "decibels", "Mbps": "megabits per second", "mph": "miles per hour",
    "N95": "N ninety-five",
}  # fmt: skip
_SHOUTED = re.compile(r"[A-Z']{2,}")


def _is_shouted(match: re.Match[str], word: str) -> bool:
    """Whether the words beside it are in capitals too, and are no acronyms."""
    before = re.search(
        r"([A-Za-z']+)[^A-Za-z0-9]{1,3}$", match.string[max(0, match.start() - 30) : match.start()]
    )
    after = re.match(r"[^A-Za-z0-9]{1,3}([A-Za-z']+)", match.string[match.end() : match.end() + 30])
    return any(found and _plain_word(found[1]) for found in (before, after))


def _plain_word(word: str) -> bool:
    if not _SHOUTED.fullmatch(word) or word in SPELLED or word in SAID:
        return False
    return word in _WORDS or len(word) > 3 and _sayable(word)


def _sayable(word: str) -> bool:
    vowels = len(re.findall("[AEIOUY]", word))
    return bool(vowels) and not re.search("[^AEIOUY]{5}|^[^AEIOUY]{4}", word)


def _spell(word: str, match: re.Match[str]) -> bool:
    if word in _SAID:
        return False
    if word in SPELLED:
        return (
            not _is_shouted(match, word)
            or not _sayable(word)
            or word not in ("US", "IT", "ADD", "AM", "PM", "AD", "ID", "MA")
        )
    if word in _WORDS and len(word) > 1:
        return word == "WHO" and match.string[: match.start()].lower().endswith("the ")
    if len(word) <= 3:
        return not (_is_shouted(match, word) and _sayable(word))
    return not _sayable(word)


@rule(
    "acronym",
    rf"(?<![\w&])(?:{'|'.join(re.escape(one) for one in sorted(_SPECIAL, key=len, reverse=True))})(?![\w+])",
)
def _special(match: re.Match[str]) -> str | None:
    said = _SPECIAL[match[0]]
    return None if said == match[0] else said


@rule("acronym", r"(?<![\w&])([A-Z]{1,4}(?:&(?:amp;)?[A-Z]{1,3})+)(s|'s)?(?![\w&])", needs="&")
def _ampersand(match: re.Match[str]) -> str:
    return letters(match[1].replace("amp;", "")) + (match[2] or "")


@rule(
    "acronym",
    r"(?<![\w&])([A-Z]{2,6})-?(\d{1,4})(?:[-.](\d{1,3}))?(s|'s)?(?![\w&]|-\d)",
    needs="0123456789",
)
def _numbered(match: re.Match[str]) -> str | None:
    word, digits, more, tail = match.groups()
    said = word if word in _SAID or (len(word) > 3 and _sayable(word)) else letters(word)
    number = label_number(digits)
    if more:
        number += f"{' point' if '.' in match[0] else ''} {label_number(more)}"
    return f"{said} {number}{tail or ''}"


@rule("acronym", r"(?<![\w&.])([A-Z])-(\d{1,4})([A-Z])?(s|'s)?(?![\w&]|-\d)", needs="-")
def _lettered(match: re.Match[str]) -> str:
    return (
        f"{match[1]} {label_number(match[2])}{' ' + match[3] if match[3] else ''}{match[4] or ''}"
    )


@rule("acronym", r"(?<![\w&.,])(?=[A-Za-z0-9-]{0,12}\d)(?=[0-9-]{0,10}[A-Z])((?:[A-Z]{1,4}|\d{1,4})(?:-?(?:[A-Z]{1,4}|\d{1,4}))+)(s|'s|i)?(?![\w&]|-[A-Za-z0-9])",
      needs="0123456789")  # fmt: skip
def _mixed(match: re.Match[str]) -> str:
    parts = re.findall(r"[A-Z]+|\d+", match[1])
    said = [
        label_number(part) if part.isdecimal() else part if part in _SAID else letters(part)
        for part in parts
    ]
    return " ".join(said) + (f" {match[2]}" if match[2] == "i" else match[2] or "")


@rule("acronym", r"(?<![\w&])([A-Z]{2,5})-([A-Z]{1,5})(?![\w&-])", needs="-")
def _hyphened(match: re.Match[str]) -> str | None:
    said = [_one(word, match) for word in match.groups()]
    return " ".join(said) if said != list(match.groups()) else None


def _one(word: str, match: re.Match[str]) -> str:
    return letters(word) if len(word) == 1 or _spell(word, match) else word


@rule(
    "acronym",
    r"(?<![\w&'])([A-Z]{2,8})(s|'s|es|ed|'d|ing)?(?![\w&])",
    needs="ABCDEFGHIJKLMNOPQRSTUVWXYZ",
)
def _acronym(match: re.Match[str]) -> str | None:
    word, tail = match[1], match[2] or ""
    if re.match(r"'[A-Z]", match.string[match.end() : match.end() + 2]) or not _spell(word, match):
        return None
    return letters(word) + tail


@rule("acronym", r"(?<![\w.])((?:[A-Z]\.){2,6})([A-Z](?![\w.]))?('s|s)?(?!\w)", needs=".")
def _dotted(match: re.Match[str]) -> str:
    said = (
        " ".join(match[0].replace(".", "").removesuffix("'s"))
        if not match[3]
        else " ".join(re.findall("[A-Z]", match[0])) + match[3]
    )
    return said + stop(match)


@rule("initials", r"(?<![\w.'])((?:[A-Z]\.[ -]?)+)(?=[A-Z][a-z'])", needs=".")
def _initials(match: re.Match[str]) -> str | None:
    rest = match.string[match.end() : match.end() + 12]
    many = match[1].count(".") > 1
    starts = re.match(r"[A-Z][a-z']*", rest)
    if starts and starts[0] in STARTERS and not many:
        return None
    before = match.string[: match.start()].rstrip()
    if not many and match[1][0] == "I" and before[-1:].islower():
        return None
    return " ".join(re.findall("[A-Z]", match[1])) + " "


RULES: tuple[Rule, ...] = (
    _special, _ampersand, _numbered, _lettered, _mixed, _hyphened, _acronym,
)  # fmt: skip
DOTTED: tuple[Rule, ...] = (_initials, _dotted)
