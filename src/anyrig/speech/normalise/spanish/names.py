"""Roman numerals in Spanish: kings and popes, chapters, congresses, wars."""

from __future__ import annotations

import re

from anyrig.speech.normalise.romance.figures import roman
from anyrig.speech.normalise.romance.letters import shouted
from anyrig.speech.normalise.romance.sentences import word_after
from anyrig.speech.normalise.rules import Rule, rule
from anyrig.speech.normalise.spanish.nouns import gender
from anyrig.speech.normalise.spanish.numbers import cardinal, ordinal, short_ordinal

_NUMERAL = r"[IVXLCDM]+"
# What is counted through in order, and read with plain numbers.
_COUNTED = (
    "capítulo|capitulo|cap\\.|caps\\.|tomo|t\\.|volumen|vol\\.|libro|parte|título|acto|escena|"
    "anexo|apéndice|"
    "sección|fase|nivel|tabla|figura|fig\\.|lámina|grado|tipo|clase|grupo|canto|episodio|temporada|"
    "artículo|art\\.|apartado|lección|unidad|tema|módulo|etapa|serie|apolo|plan|división|guerra|"
    "número|núm\\.|n\\.º|rocky|fascículo|versión|salmo|soneto|bloque|semestre|trimestre"
)
_ORDINAL_PARTS = {"acto": "m"}
_QUEENS = frozenset(
    "isabel maría juana catalina ana cristina victoria margarita cleopatra berenice leonor blanca "
    "urraca "
    "sofía beatriz constanza teresa petronila mary elizabeth carlota guillermina".split()
)
_KINGS = (
    frozenset(
        "felipe carlos alfonso fernando luis enrique juan pedro sancho jaime ramiro garcía ordoño "
        "bermudo "
        "fruela pablo pío león gregorio benedicto clemente inocencio urbano sixto julio adriano "
        "bonifacio "
        "nicolás eugenio celestino honorio alejandro martín esteban jorge eduardo ricardo "
        "guillermo jacobo "
        "napoleón federico francisco josé leopoldo maximiliano otón rodolfo iván catalina manuel "
        "alberto "
        "balduino humberto víctor gustavo cristián haakon harald olaf ramsés tutmosis ptolomeo "
        "amenofis "
        "darío jerjes artajerjes antíoco seleuco mitrídates constantino teodosio justiniano "
        "miguel basilio "
        "abderramán muhammad mohamed hassan selim solimán murad mehmed hasán rainiero raniero "
        "hugo roberto "
        "malcolm david kenneth olav erico canuto valdemar segismundo ladislao casimiro bela "
        "andrés duarte "
        "sebastián dionisio teobaldo wamba alarico teodorico recaredo teodosia enrico filippo "
        "henry louis charles philip william george edward richard james paul ii".split()
    )
    | _QUEENS
)


@rule(
    "roman",
    rf"(?<!\w)((?:{_COUNTED})s?\s+)({_NUMERAL})(?:(\s*[-\u2013]\s*|\s+(?:y|a|al)\s+)({_NUMERAL}))?(?!\w)(\.[ªº])?",
    flags=re.IGNORECASE,
)
def _counted(match: re.Match[str]) -> str | None:
    first = roman(match[2])
    if first is None or match[2].islower() or match[2] in ("L", "C", "D", "M"):
        return None
    words = f"{_full(match[1])}{cardinal(first)}"
    last = roman(match[4] or "")
    if last is None:
        return words if not match[4] else None
    link = match[3].strip() if match[3].strip().isalpha() else "a"
    return f"{words} {link} {cardinal(last)}"


def _full(head: str) -> str:
    short = {
        "cap.": "capítulo", "caps.": "capítulos", "t.": "tomo", "vol.": "volumen", "fig.": "figura",
        "art.": "artículo", "núm.": "número", "n.º": "número",
    }  # fmt: skip
    word = short.get(head.strip().lower())
    if not word:
        return head
    return f"{word.capitalize() if head[0].isupper() else word} "


@rule("roman", rf"(?<!\w)([A-ZÁÉÍÓÚÑ][a-záéíóúñü]+)(\s+)({_NUMERAL})(?!\w)(?!\.\s?[A-ZÁÉÍÓÚ]\.)")
def _ruler(match: re.Match[str]) -> str | None:
    name, number = match[1].lower(), roman(match[3])
    if number is None or (name not in _KINGS and (len(match[3]) < 2 or number > 30)):
        return None
    if match[3] in ("C", "D", "M", "L", "CD", "DC", "MD", "CV", "DVD", "CM", "MM", "LCD", "XL"):
        return None
    words = ordinal(number, "f" if name in _QUEENS else "m") if number <= 10 else cardinal(number)
    if name not in _KINGS:
        words = cardinal(number)
    return f"{match[1]}{match[2]}{words}"


@rule("roman", rf"(?<![\w'])({_NUMERAL})(?:\.?[ºª])?(?=\s+[A-Za-zÁÉÍÓÚñáéíóú])(?<!\b[CDLM])")
def _ordinal(match: re.Match[str]) -> str | None:
    """Before what is counted: la II Guerra Mundial, el XIV Congreso."""
    number, noun = roman(match[1]), word_after(match)
    marked = len(match.group()) > len(match[1])
    if number is None or not (marked or _event(noun)):
        return None
    if match.group().endswith("ª") or (not match.group().endswith("º") and gender(noun) == "f"):
        return ordinal(number, "f")
    return short_ordinal(number)


def _event(noun: str) -> bool:
    return bool(_EVENTS.match(noun.lower()))


_EVENTS = re.compile(
    r"(?:guerra|congreso|edición|república|reich|concilio|festival|foro|cumbre|jornada|encuentro|"
    r"simposio|asamblea|premio|certamen|feria|semana|conferencia|legislatura|dinastía|plan|torneo|"
    r"copa|campeonato|juegos|cruzada|internacional|curso|concurso|aniversario|centenario|imperio|"
    r"maratón|trofeo|gala|bienal|milenio|región|convenio|ciclo|seminario|muestra|salón|carrera|vuelta|"
    r"marcha|conde|duque|marqués|distrito|ejército|cuerpo|flota|división|regimiento|batallón|mundial)s?$"
)


@rule(
    "roman",
    r"(?<![\w.])(X{1,3}(?:IX|IV|V?I{1,3})|X{2,3}V?|XI{1,3}|XIV|XVI{0,3}|VI{1,3}|I{2,3}|IV|IX|XX|M[CDMLXVI]{3,})(?![\w.]\w|\w)",
)
def _alone(match: re.Match[str]) -> str | None:
    number = roman(match[1])
    return cardinal(number) if number and not shouted(match) else None


RULES: tuple[Rule, ...] = (_counted, _ruler, _ordinal, _alone)
