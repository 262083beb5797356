"""Roman numerals in French: kings and popes, chapters, acts."""

from __future__ import annotations

import re

from anyrig.speech.normalise.french.numbers import cardinal
from anyrig.speech.normalise.romance.figures import roman
from anyrig.speech.normalise.romance.letters import shouted
from anyrig.speech.normalise.rules import Rule, rule

_NUMERAL = r"[IVXLCDM]+"
_COUNTED = (
    "chapitre|chap\\.|ch\\.|tome|t\\.|volume|vol\\.|livre|partie|titre|acte|scène|annexe|appendice|"
    "section|phase|niveau|tableau|figure|fig\\.|planche|degré|type|classe|groupe|chant|épisode|"
    "saison|"
    "article|art\\.|leçon|unité|thème|module|étape|série|apollo|plan|division|numéro|n°|psaume|"
    "sonnet|"
    "bloc|semestre|trimestre|factum|mark|rocky|star wars"
)
_FULL = {
    "chap.": "chapitre", "ch.": "chapitre", "t.": "tome", "vol.": "volume", "fig.": "figure",
    "art.": "article", "n°": "numéro",
}  # fmt: skip
_KINGS = frozenset(
    "louis charles henri françois philippe jean napoléon robert hugues guillaume édouard georges "
    "jacques richard albert léopold baudouin pie léon grégoire benoît clément innocent urbain "
    "sixte "
    "jules adrien boniface nicolas eugène paul alexandre pierre catherine élisabeth elisabeth "
    "marie "
    "anne christine frédéric joseph ferdinand alphonse isabelle maximilien othon rodolphe ivan "
    "gustave christian harald olaf ramsès ptolémée darius xerxès constantin théodose justinien "
    "michel "
    "basile hassan mohammed soliman rainier victor humbert carlos juan felipe amédée étienne "
    "martin "
    "célestin honorius thoutmôsis aménophis antiochos séleucos mithridate lothaire pépin clovis "
    "childebert dagobert thierry clotaire béla sigismond ladislas casimir stanislas cléopâtre "
    "vittorio marguerite wilhelmine guillaumette juliana jeanne urbain".split()
)


@rule(
    "roman",
    rf"(?<!\w)((?:{_COUNTED})s?\s+)({_NUMERAL})(?:(\s*[-\u2013]\s*|\s+(?:et|à|ou)\s+)({_NUMERAL}))?(?!\w)",
    flags=re.IGNORECASE,
)
def _counted(match: re.Match[str]) -> str | None:
    first = roman(match[2])
    if first is None or match[2].islower() or match[2] in ("L", "C", "D", "M"):
        return None
    head = _FULL.get(match[1].strip().lower())
    lead = f"{head} " if head else match[1]
    if head and match[1][0].isupper():
        lead = lead.capitalize()
    words = f"{lead}{cardinal(first)}"
    last = roman(match[4] or "")
    if last is None:
        return words if not match[4] else None
    link = match[3].strip() if match[3].strip().isalpha() else "à"
    return f"{words} {link} {cardinal(last)}"


@rule("roman", rf"(?<!\w)([A-ZÀÂÇÉÈÊËÎÏÔÛŒ][a-zà-ÿœ]+)(\s+)({_NUMERAL})(?!\w)(?!\.\s?[A-ZÉ]\.)")
def _ruler(match: re.Match[str]) -> str | None:
    name, number = match[1].lower(), roman(match[3])
    if number is None or (name not in _KINGS and (len(match[3]) < 2 or number > 30)):
        return None
    if match[3] in ("C", "D", "M", "L", "CD", "DC", "MD", "CV", "CM", "MM", "XL"):
        return None
    words = "premier" if match[3] == "I" else cardinal(number)
    return f"{match[1]}{match[2]}{words}"


@rule(
    "roman",
    r"(?<![\w.])(X{1,3}(?:IX|IV|V?I{1,3})|X{2,3}V?|XI{1,3}|XIV|XVI{0,3}|VI{1,3}|I{2,3}|IV|IX|XX|"
    r"M[CDMLXVI]{3,})(?![\w.]\w|\w)",
)
def _alone(match: re.Match[str]) -> str | None:
    number = roman(match[1])
    return cardinal(number) if number and not shouted(match) else None


RULES: tuple[Rule, ...] = (_counted, _ruler, _alone)
