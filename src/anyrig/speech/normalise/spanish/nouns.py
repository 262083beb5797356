"""Whether a number stands before a Spanish noun, and of which gender."""

from __future__ import annotations

import re

from anyrig.speech.normalise.romance.sentences import word_before, words_after
from anyrig.speech.normalise.spanish.numbers import Gender

# Words that may follow a number without being counted by it.
_NO_NOUN = frozenset(
    "a al ante aunque así bajo cada como con contra cuando cuya cuyo de del desde después donde "
    "durante e el ella ellas ellos en entonces entre era eran es esa ese eso esta este esto está "
    "están están fue fueron ha había hace hacia han hasta hay igual la las le les lo los luego me "
    "mi mientras más menos muy ni no nos o para pero por porque pues que quien se sea ser será si "
    "sin sino sobre son su sus sí tal también tan tiene tienen tras tu u un una uno va y ya yo "
    "antes además ahora aquí allí casi sólo solo según era contiene trata dice habla "
    "empieza termina comienza explica muestra aparece menos entre más".split()
)
# A number after one of these is its name: page one, room two hundred.
_LABELS = frozenset(
    "página pagina pág. págs. capítulo cap. número núm. n.º nº día siglo año años habitación sala "
    "puerta línea tomo volumen vol. figura fig. tabla apartado artículo art. nivel fase grupo "
    "versión lección unidad tema ejercicio paso piso planta aula vuelo canal ruta autobús tren "
    "kilómetro punto sección anexo calle avenida plaza código nota grado curso episodio temporada "
    "parte apartamento edificio bloque casilla vía andén mesa edición acto escena enero febrero "
    "marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre clase "
    "el del al desde".split()
)
# Words after a half or an ordinal that it does not belong to.
AFTER_HALF = frozenset("de del y o más menos es en a por con para que al la el los las".split())
_FEMININE = frozenset(
    "mujer noche vez clase calle parte llave nave torre flor mano foto moto radio red ley voz luz "
    "cruz imagen serie base frase fuente gente nube tarde sangre leche carne muerte suerte mente "
    "corriente superficie especie tesis crisis dosis síntesis hipótesis sede cárcel piel miel sal "
    "señal postal catedral capital central sucursal vocal orden pared nariz raíz matriz actriz "
    "perdiz codorniz vejez costumbre cumbre legumbre certidumbre variable nieve llave clave fase "
    "fiebre sílaba hambre línea diócesis elipsis tribu labor razón prisión "
    "corte suite barbarie planicie intemperie índole mole prole sien crin res tos hoz coz paz "
    "faz vid salud virtud juventud actitud altitud latitud longitud multitud solicitud magnitud "
    "amplitud libertad amistad mitad ciudad".split()
)
_MASCULINE = frozenset(
    "día mapa planeta cometa poeta atleta profeta pirata tranvía sofá guardia policía cura espía "
    "guía colega camarada problema sistema tema programa poema idioma clima drama síntoma fantasma "
    "aroma panorama pijama carisma cromosoma diploma enigma estigma dogma magma plasma prisma "
    "reuma trauma genoma ozono gorila puma koala panda yoga vodka gramma avión camión gorrión "
    "guion "
    "guión millón billón trillón escorpión campeón bastión sarampión embrión anfitrión "
    "dálmata patriarca monarca jerarca dentista indígena demócrata euro".split()
)  # fmt: skip
_FEMININE_END = re.compile(r"(?:a|ción|sión|xión|gión|nión|tión|dad|tad|tud|umbre|triz|ez)$")
_MASCULINE_END = re.compile(r"(?:[^rygdl]ema|grama|ista|cida|nauta|crata|iatra|arca|auta|ómetra)$")


def agreement(match: re.Match[str], number: int, *, plural: bool = True) -> Gender:
    """The gender of what the number counts; empty where it stands by itself."""
    following = words_after(match, 2)
    if not following or following[0].lower() in _NO_NOUN or following[0][:1].isupper():
        return ""
    if word_before(match) in _LABELS and number == 1:
        return ""
    word = following[0].lower()
    if word == "mil" and number >= 200 and len(following) > 1 and following[1].endswith("s"):
        return gender(following[1])  # Quinientas mil mujeres.
    if word in ("mil", "millón", "millones", "billón", "billones"):
        return "m"
    if number != 1 and plural and not word.endswith("s"):
        return ""
    if word in ("grandes", "nuevas", "primeros", "últimos", "mejores", "posibles", "jóvenes") and (
        len(following) > 1
    ):
        word = following[1].lower()
    return gender(word)


def gender(noun: str) -> Gender:
    """What gender a noun most likely has, by its end and by lists."""
    for one in _singulars(noun.lower()):
        if one in _FEMININE:
            return "f"
        if one in _MASCULINE:
            return "m"
    one = _singulars(noun.lower())[-1]
    if _MASCULINE_END.search(one):
        return "m"
    return "f" if _FEMININE_END.search(one) else "m"


def _singulars(noun: str) -> list[str]:
    """What the singular may be: luces, luz; ciudades, ciudad; canciones, canción; casas, casa."""
    found = [noun]
    if noun.endswith("ces"):
        found.append(f"{noun[:-3]}z")
    if noun.endswith("s"):
        found.append(noun[:-1])
    if noun.endswith("ágenes"):
        found.append(f"{noun[:-6]}agen")
    elif noun.endswith("iones"):
        found.append(f"{noun[:-5]}ión")
    elif noun.endswith("ones"):
        found.append(f"{noun[:-4]}ón")
    elif re.search(r"[dlrnsyz]es$", noun):
        found.append(noun[:-2])
    return found
