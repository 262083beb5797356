"""Chemical formulas: `Na2SO4`, `Fe₂O₃`, `Ca(OH)2`, `SO4 2-`."""

from __future__ import annotations

import re

from anyrig.text import values as v
from anyrig.text.recognizers import RECOGNIZED_LANGUAGES, recognizer
from anyrig.text.recognizers.common import SUBSCRIPT, SUPERSCRIPT

_ELEMENTS = frozenset(
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga "
    "Ge As Se Br "
    "Kr Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Sm Eu Gd Tb Dy Ho Er "
    "Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am".split()
)
_COUNT = "[0-9₀-₉]{0,3}"
_PARTS = re.compile(r"[A-Z][a-z]?|\d+|[+-]")


@recognizer(
    "formula",
    rf"(?<![\w.-])(?:\d{{0,2}}(?=[A-Z]))?((?:[A-Z][a-z]?{_COUNT}|"
    rf"\((?:[A-Z][a-z]?{_COUNT}){{1,4}}\){_COUNT}){{2,12}}|[A-Z][a-z]?[₂-₉])"
    r"((?:[0-9⁰¹²³⁴-⁹]?[⁺⁻])|\^\d?[+-])?(?![\w-])",
    languages=RECOGNIZED_LANGUAGES,
    needs=("innerDigit",),
    weight=1.4,
)
def propose_formula(match: re.Match[str]) -> v.Value | None:
    written = match[0].translate(SUBSCRIPT).translate(SUPERSCRIPT).replace("^", "")
    symbols = re.findall(r"[A-Z][a-z]?", written)
    if not all(symbol in _ELEMENTS for symbol in symbols) or not re.search(r"\d", written):
        return None
    # Two capitals and a number are a model more often than a molecule: "KC135", "WO3" is fine.
    single = all(len(symbol) == 1 for symbol in symbols)
    known = any(symbol in ("H", "O", "N", "C", "S") for symbol in symbols)
    if single and (
        not known or re.search(r"\d{3}", written) or re.search(r"^[A-Z]{2,}\d{2,}$", written)
    ):
        return None
    if not single and re.fullmatch(r"[A-Z][a-z][A-Z]?\d{3,}", written):
        return None
    return v.Formula(tuple(_PARTS.findall(written)))


@recognizer(
    "formula",
    r"(?<![\w.-])([A-Z][a-z]?)(\d?[⁺⁻]|[²³⁴][⁺⁻]|(?<=[a-z])\d?\+)(?!\w)",
    languages=RECOGNIZED_LANGUAGES,
    needs="⁺⁻+",
    weight=3,
    at="capital",
)
def propose_ion(match: re.Match[str]) -> v.Value | None:
    if match[1] not in _ELEMENTS:
        return None
    return v.Formula((match[1], *_PARTS.findall(match[2].translate(SUPERSCRIPT))))


@recognizer(
    "formula",
    r"(?<![\w.-])(?:(SO[34]|CO3|HPO4|CrO4|SiO3|C2O4|Cr2O7|S2O3)(2)([-−])|(PO4)(3)([-−])|(NH4|H3O)()(\+)|"
    r"(NO[23]|HCO3|MnO4|ClO[34]?|HSO4|HSO3|H2PO4)()([-−]))(?!\w)",
    languages=RECOGNIZED_LANGUAGES,
    needs="-−+",
    digits=True,
    weight=3,
    at="capital",
)
def propose_known_ion(match: re.Match[str]) -> v.Value:
    """`SO42-`, `NH4+`."""
    body, charge, sign = (one for one in match.groups() if one is not None)
    return v.Formula((*_PARTS.findall(body), *filter(None, (charge, "+" if sign == "+" else "-"))))


@recognizer(
    "formula",
    r"(?<![\w.-])(?:NaCl|NaOH|NaF|NaBr|HCl|HBr|KCl|KOH|KBr|LiCl|LiOH|MgO|CaO|CuO|ZnO|FeO|AgCl|AgBr|"
    r"GaAs|GaN|SiC|TiN)(?![\w-])",
    languages=RECOGNIZED_LANGUAGES,
    weight=1.4,
    at="capital",
)
def propose_simple(match: re.Match[str]) -> v.Value:
    return v.Formula(tuple(_PARTS.findall(match[0])))


@recognizer(
    "formula",
    r"(?<![\w.,-])(\d{1,3})([A-Z][a-z]?)(?![\w-])",
    weight=1.6,
    needs="0123456789",
    at="number",
)
def propose_isotope(match: re.Match[str]) -> v.Value | None:
    """A mass number and an element of two letters: `206Pb`."""
    if len(match[2]) < 2 or match[2] not in _ELEMENTS:
        return None
    return v.Phrase((v.Label(match[1]), *(v.Letters(match[2].upper()),)))


_WORDS = frozenset("He I In As At No Be Am La Ce Se Te Os Y Ne".split())
"""Elements that look like the first word behind the number of a note."""


_ISOTOPE = r"(?<![\w⁰¹²³⁴-⁹.)])([⁰¹²³⁴-⁹]{1,3}m?)([A-Z][a-z]?)(?![\w₀-₉-])"


@recognizer(
    "formula", _ISOTOPE, languages=RECOGNIZED_LANGUAGES, needs="⁰¹²³⁴⁵⁶⁷⁸⁹", at="any", weight=2
)
def propose_marked_isotope(match: re.Match[str]) -> v.Value | None:
    """`¹⁴C`."""
    return None if match[2] in _WORDS else _name_isotope(match[2], match[1].translate(SUPERSCRIPT))


@recognizer(
    "formula",
    r"(?<![\w.-])([A-Z][a-z]?)-(\d{2,3}m)(?!\w)",
    languages=RECOGNIZED_LANGUAGES,
    needs="-",
    digits=True,
    at="capital",
    weight=2,
)
def propose_excited_isotope(match: re.Match[str]) -> v.Value | None:
    """`Tc-99m`."""
    return _name_isotope(match[1], match[2])


def _name_isotope(symbol: str, mass: str) -> v.Value | None:
    if symbol not in _ELEMENTS:
        return None
    state = (v.Letters("M"),) if mass.endswith("m") else ()
    return v.Phrase((v.Letters(symbol.upper()), v.Label(mass.rstrip("m")), *state))


@recognizer(
    "formula",
    r"(?<![\w.-])([A-Z]{2,3}|Cl|Br|I|F|HCO3|NO3|MnO4)[-−](?=[\s,.;)]|$)",
    languages=RECOGNIZED_LANGUAGES,
    needs="-−",
    weight=1.6,
    at="capital",
)
def propose_negative_ion(match: re.Match[str]) -> v.Value | None:
    """`OH−`."""
    if match[1].isupper() and match[1].isalpha() and match[1] not in ("OH", "CN", "HS"):
        return None
    return v.Formula((*_PARTS.findall(match[1]), "-"))
