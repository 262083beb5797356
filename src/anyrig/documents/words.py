"""The words of a text with their places, the forms under which they are compared, and those that
say little on their own.

Chinese, Japanese, Thai and their like do not part words by spaces: each of their characters counts
as one. Function words (articles, pronouns, plain verbs) are left out of searches; weak words
(`people`, `good`, `Monday`) also make no key phrase. Where a language has no table of these, a word
of up to three letters counts as one: that keeps most particles out of key phrases in any of them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Letters of scripts without spaces, for a class of a pattern."""
_UNSPACED = re.compile(f"[{UNSPACED}]")
_WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+(?:[-'’.](?=[^\W_])[^\W_{UNSPACED}]+)*['’]?")
# Words that lose their last letter before a vowel: l'homme, d'eau, dell'acqua.
_ELIDED = re.compile(
    r"(?i)(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quoiqu|dell|all|nell|sull|dall|un)['’]"
)
_LATIN = re.compile(r"[a-z]+\Z")
_LONGEST = 60
_SHORT = 3


class TextWord(NamedTuple):
    """A word where it stands."""

    text: str
    start: int
    end: int


def words(text: str) -> Iterator[TextWord]:
    """The words in order; what is elided stands apart: `l'`, `homme`."""
    for found in _WORD.finditer(text):
        start, piece = found.start(), found[0]
        elided = _ELIDED.match(piece)
        if elided and elided.end() <= len(piece):
            end = start + elided.end()
            yield TextWord(text[start:end], start, end)
            start, piece = end, piece[elided.end() :]
        piece = piece.rstrip("'’")
        if piece:
            yield TextWord(piece, start, start + len(piece))


@lru_cache(maxsize=65_536)
def plain(word: str) -> str:
    """A word in small letters, composed, with one kind of apostrophe."""
    return unicodedata.normalize("NFKC", word).lower().replace("’", "'")[:_LONGEST]


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """A plain word without accents and without its plural: what counts as the same word.

    Far from a real stemmer on purpose: `policy` and `police` must stay two.
    """
    bare = strip_accents(word)
    if not _LATIN.match(bare) or len(bare) < 4:
        return bare
    if bare.endswith("ies") and len(bare) > 4:
        return bare[:-3] + "y"
    if bare.endswith("aux") and len(bare) > 5:
        return bare[:-3] + "al"
    if bare.endswith("s") and not bare.endswith(("ss", "us", "is")):
        return bare[:-1].rstrip("e") if bare.endswith("es") else bare[:-1]
    return bare.rstrip("e") if len(bare) > 4 else bare


def is_unspaced(text: str) -> bool:
    """Whether a word is a character of a script that writes no spaces."""
    return bool(_UNSPACED.match(text))


def strip_accents(text: str) -> str:
    """A text without the marks on its letters; Korean stays whole."""
    if text.isascii():
        return text
    parts = unicodedata.normalize("NFD", text)
    return unicodedata.normalize(
        "NFC", "".join(one for one in parts if not unicodedata.combining(one))
    )


@lru_cache(maxsize=1 << 16)
def fold(text: str) -> str:
    """Lowercase without accents, as FTS5's tokenizer compares words."""
    return strip_accents(text.lower())


# -- words that say little -------------------------------------------------------------------------

_FUNCTION_WORDS = {
    "en": "a about all also am an and any are as at be been but by can could did do does for from "
    "get had has have he her his how i if in into is it its me my no not of on or our out "
    "she should so some than that the their them then there these they this to up was we "
    "were what when where which who whom whose why will with would you your",
    "es": "a al ante como con cuando de del desde donde e el ella en entre era es esta este fue "
    "ha hay la las le lo los más me mi muy no o para pero por porque que qué se ser si sin "
    "sobre son su sus también un una uno y ya cómo cuál cuándo cuánto dónde quién está",
    "fr": "a à au aux avec ce ces cette comment dans de des du elle en est et eux il ils je l la "
    "le les leur lui mais me ne nous on ou où par pas plus pour qu quand que quel quelle "
    "qui quoi sa se ses son sont sur un une vous y d s n c",
    "de": "aber als am an auch auf aus bei bin bis da das dass dem den der des die doch du ein "
    "eine einem einen einer er es für hat hatte ich ihr im in ist kann man mit nach nicht "
    "noch nur oder sein seine sich sie sind so über um und uns unter vom von vor wann war "
    "warum was wer wie wir wird wo zu zum zur",
    "it": "a ad ai al alla anche che chi ci come con da dal dei del della di dove e è era gli ha "
    "i il in io la le lo ma mi nel nella non o per perché più quale quando quanto questo se "
    "si sono su sul un una uno",
    "pt": "a ao aos as até com como da das de dela dele do dos e é ela ele em entre era essa esta "
    "este eu foi há isso já mais mas me na não nas no nos o onde os ou para pela pelo por "
    "qual quando quanto que quem se sem ser seu sua são também um uma",
    "nl": "aan als bij dat de den der die dit door een en er had heb het hij hoe ik in is je kan "
    "maar met naar niet nog of om onder ook op over te tot uit van voor waar wanneer was "
    "wat we wie wij worden zijn zo",
}
_WEAK_WORDS = {
    "en": "able above according across after again against almost alone along already although "
    "always among another anybody anyone anything april aren around ask asked asks august "
    "autumn away back became because become becomes before began begin behind being believe "
    "below beneath beside besides best better between beyond big billion both bring brings "
    "brought call called came cannot cent come comes coming couldn day days december didn "
    "different doesn doing don done down dozen due during each easy eight eighty either "
    "eleven else enough even ever every everybody everyone everything exactly example far "
    "february feel feels felt few fewer fifteen fifty finally find finds first five forty "
    "found four friday full further gave gets getting give given gives giving go goes going "
    "gone good got great hadn half happen happened happens hard hardly hasn haven having "
    "held help helped helps hence here hers herself him himself hold holds hour hours "
    "however hundred indeed inside instead isn itself january july june just keep keeps "
    "kept kind knew know known knows large last late later least leave leaves led left less "
    "lest let lets like likely little ll long longer look looked looks lot lots low made "
    "mainly make makes making many march may maybe mean means meant met might million "
    "millions mine minute minutes monday month months more moreover most mostly mr mrs ms "
    "much must myself near nearly need needed needs neither never nevertheless new next "
    "nine ninety nobody none nor nothing november now nowhere number numbers o'clock "
    "october off often once one ones only onto other others otherwise ours ourselves "
    "outside over own part people percent perhaps person plus possible put puts quarter "
    "quite ran rather re real really recent right run runs said same saturday saw say "
    "saying says second see seem seemed seems seen sees send sent september set seven "
    "seventy several shall shouldn show showed shown shows simply since six sixty small "
    "somebody somehow someone something sometimes somewhere soon spring start started "
    "starts still stop such summer sunday sure take taken takes taking tell tells ten "
    "tomorrow theirs themselves therefore thing things think thinks third thirty those "
    "though thought thousand three through throughout thursday thus till time times today "
    "together told too took toward towards tried tries true try tuesday turn turned turns "
    "twelve twenty twice two under until upon us use used uses using usually ve very want "
    "wanted wants wasn way ways wednesday week weeks well went weren whatever whenever "
    "whereas wherever whether while whoever whole winter within without won word wouldn "
    "year years oh ah yes yesterday yet young yours yourself",
    "es": "abril acá afirma afirmó agosto ahora ahí algo alguien alguna algunas alguno algunos "
    "algún allá allí ambos antes aquel aquella aquellas aquello aquellos aquí asegura "
    "aseguró así aun aunque año años aún bajo bastante bien buen buena buenas bueno buenos "
    "cada casi cerca cien ciento cientos cierta ciertas cierto ciertos cinco cincuenta "
    "conmigo contigo contra cosa cosas cual cuales cualquier cualquiera cuanto cuantos "
    "cuarenta cuatro cuáles da dan dar debe deben debería deberían debido decir dejar "
    "demasiado demás dentro después dice dicen dicha dicho diciembre diez dijo dio doce "
    "domingo dos durante día días ejemplo ellas ello ellos embargo encima enero entonces "
    "eran eres esa esas ese eso esos estaba estaban estado estamos estar estas esto estos "
    "estoy están esté etc ex explica explicó febrero fin forma fuera fueron fui gente gran "
    "grande grandes haber habrá había habían hace hacen hacer hacerlo hacia haciendo han "
    "hasta haya hayan he hecho hemos hizo hora horas hoy hubo iba iban igual incluso ir "
    "jamás jueves julio junio junto les llega llegar llegó lleva llevar luego lugar lunes "
    "manera martes marzo mayo mayor mayoría mediante medio mejor menor menos mes meses "
    "mientras mil millones millón minuto minutos mis misma mismas mismo mismos mitad "
    "miércoles modo momento mucha muchas mucho muchos mí mía mío nada nadie necesita ni "
    "ninguna ninguno ningún nos nosotras nosotros noviembre nuestra nuestras nuestro "
    "nuestros nueva nuevas nueve nuevo nuevos nunca ocho octubre once os otra otras otro "
    "otros parece parte pasa pasado pasar peor permite permiten persona personas poca pocas "
    "poco pocos podemos poder podrá podría podrían podía primer primera primeras primero "
    "primeros pronto propia propias propio propios pudo pueda puedan puede pueden puedo "
    "pues puesto quedar quedó quien quienes quiere quieren quince quiso quizá quizás "
    "resulta sabe saben saber sea sean segunda segundo según seis semana semanas septiembre "
    "será serán sería serían sesenta señala señaló sido siempre siendo siete siga sigue "
    "siguen siguiente sino sois solamente solo somos soy suya suyo sábado sé sí sólo tal "
    "tales tampoco tan tanta tantas tanto tantos te tenemos tener tengo tenía tenían tercio "
    "ti tiempo tiene tienen tipo toda todas todavía todo todos toma tomar tomó tras través "
    "treinta tres tu tus tuvieron tuvo tú u unas unos usted ustedes va vamos van varias "
    "varios veces veinte ver vez viene vienen viernes vino volver volvió vosotros voy "
    "vuelve yo él última últimas último últimos anoche anteayer ayer mañana",
    "fr": "affirme afin ai ailleurs ainsi ajoute alors an année années ans août après as assez "
    "aucun aucune aujourd'hui auprès auquel aura aurait auront aussi aussitôt autant autour "
    "autre autres avaient avait avant avez avoir avons avril ayant beaucoup bien bon bonne "
    "bonnes bons car ceci cela celle celles celui cent cependant certain certaine certaines "
    "certains cet ceux chacun chacune chaque chez chose choses ci cinq cinquante comme "
    "contre depuis derrière dessous dessus deux deuxième demain devait devant deviennent "
    "devient devoir devra devrait deçà dimanche dire disent dit dix doit doivent donc donne "
    "donnent donner donné dont douze durant dès début décembre déjà elles encore enfin "
    "ensuite entre environ es eu euros exemple explique faire faisait faisant fait faites "
    "faudra faut façon fin fois font forme furent fut février gens grand grande grandes "
    "grands grâce haut heure heures hier hors huit ici indique j jamais janvier jeudi jour "
    "jours juillet juin jusqu jusque juste laquelle lequel lesquelles lesquels leurs lieu "
    "loin lors lorsqu lorsque lundi là m ma mai maintenant mal malgré mardi mars mercredi "
    "mes met mettre mieux mille milliard milliards million millions minute minutes mis mise "
    "moi moindre moins mois moitié mon moyen même mêmes ni niveau non nos notre nouveau "
    "nouveaux nouvelle nouvelles novembre nul nôtre octobre ont onze parce parfois parmi "
    "part partie passe passer passé pendant permet permettent permis personne personnes "
    "petit petite petites petits peu peut peuvent peux place plusieurs plutôt point "
    "pourquoi pourra pourrait pourtant pouvait pouvoir premier premiers première premières "
    "prend prendre presque pris propre propres près pu puis puisque quant quarante quatre "
    "quelles quelqu quelque quelques quels quinze quoique rappelle rend rendre reste rester "
    "rien samedi sans sauf second seconde seize selon semaine semaines sept septembre sera "
    "serait seront seul seule seulement seules seuls si sien six soi soit soixante sorte "
    "souligne sous souvent suis suit suite suivant surtout t ta tandis tant te tel telle "
    "telles tels temps tes tiers toi ton toujours tous tout toute toutefois toutes treize "
    "trente trois trop trouve trouver très tu type unes uns va vais vendredi vers viennent "
    "vient vingt voici voilà voir vont vos votre vrai vu étaient était étant été être",
    "de": "ab alle allem allen aller alles also ander andere anderem anderen anderer anderes "
    "andern anders beide beiden beim bereits besonders bisher bist dabei dadurch dafür "
    "dagegen daher damit danach dann daran darauf daraus darf darin darum darüber davon "
    "davor dazu daß dein deine denen denn dennoch deren derer deshalb dessen dich dies "
    "diese diesem diesen dieser dieses dir dort drei durch dürfen eben ebenso eigen eigene "
    "eines einfach einige einigen einiger einmal erst erste ersten etwa etwas euch euer "
    "eure fast ganz ganze ganzen gar gegen geht gemacht gewesen gibt ging groß große großen "
    "gut habe haben hatten hier hin hinter ihm ihn ihnen ihre ihrem ihren ihrer ihres immer "
    "indem ins ja jahr jahre jahren je jede jedem jeden jeder jedes jedoch jene jetzt kam "
    "kaum kein keine keinem keinen keiner kommen kommt konnte können könnte lange lassen "
    "lässt läßt machen macht manche mehr mehrere mein meine meist mich mir muss musste muß "
    "möchte mögen müssen nachdem neben nein neu neue neuen nichts nun nämlich ob oben ohne "
    "schon sehr sei seien seinem seinen seiner seines seit selbst sogar solche sollen "
    "sollte sondern sonst soweit sowie später steht tag tage trotz unser unsere viel viele "
    "vielen vielleicht vier waren wegen weil weise weit weiter weitere welche welchem wenig "
    "wenige weniger wenn werden wieder will wohl wollen wollte worden wurde wurden während "
    "würde zeit ziehen zwar zwei zwischen",
    "it": "abbastanza abbia abbiamo adesso agli alcun alcuna alcune alcuni all alle allo allora "
    "almeno altra altre altri altro ancora anni anno anzi avere aveva avevano avuto ben "
    "bene c' ciascuno cinque cioè ciò comunque contro cosa cose così cui dagli dai dall "
    "dalla dalle dallo davanti de degli dell delle dello dentro deve devono dice dietro "
    "dire dopo dov due dunque durante ed erano essere fa fanno far fare fatto fin fino fra "
    "fu fuori giorno già grande grandi hanno ho infatti inoltre invece l lei li loro lui "
    "lungo là mai me meglio meno mentre mia mie mio modo molta molte molti molto ne negli "
    "nei nell nelle nello nessun nessuno niente no noi nostra nostro nuova nuove nuovi "
    "nuovo oggi ogni oppure ora parte perciò però piccolo po' poco poi possono prima primo "
    "proprio può qual qualche qualcosa quali quasi quattro quella quelle quelli quello "
    "questa queste questi qui quindi s sei sempre senza sia siamo siano sopra sotto sta "
    "stata state stati stato stesso sua sue sugli sui sull sulla sulle suo suoi sé tale "
    "tanto te tra tre troppo tu tutta tutte tutti tutto va vengono verso vi via viene voi "
    "volta vostro",
    "pt": "acima agora ainda algo algum alguma algumas alguns ali além ambos ano anos ante antes "
    "apenas após aquela aquelas aquele aqueles aquilo assim através bem boa bom cada coisa "
    "coisas contra contudo delas deles demais depois desde dessa desse desta deste deve "
    "devem dez dia dias disse diz dois duas durante elas eles embora enquanto entanto eram "
    "essas esse esses estar estas estava estavam estes está estão faz fazem fazer feita "
    "feito fez fora foram forma grande grandes houve isto lhe lhes logo lá mediante meio "
    "melhor menos mesma mesmo meu meus minha muita muitas muito muitos nada nem nenhum "
    "nessa nesse nesta neste nossa nosso nova novas novo novos num numa nunca nós ontem "
    "outra outras outro outros parte pelas pelos perto pode podem poder pois porque porém "
    "pouco primeira primeiro própria próprio quais qualquer quase quatro segundo seja "
    "sempre sendo será seus si sido sob sobre suas só tal tanto te tem tempo tendo ter teve "
    "tinha toda todas todo todos três tu tudo tão têm umas uns vai vez vezes você vocês vão "
    "às última último",
}
# Words after which a verb follows: what comes then is no name of a thing.
_BEFORE_VERBS = {
    "en": "to they we you he she it i who will would can could may might must should cannot not",
    "es": "se no le les lo nos me te quien quienes yo tú ellos ellas él ella ya ha han había",
    "fr": "se ne n s il ils elle elles on je j tu nous vous qui a ont avait avaient pas",
    "de": "zu ich er sie es wir ihr man wer nicht",
    "it": "si non lo ci mi ti io lui lei loro chi ha hanno",
    "pt": "se não lhe eu ele ela eles elas quem tem têm",
}
# Small words that may stand inside a phrase: `consejo de administración`, `mise en œuvre`.
_JOINTS = {
    "en": "of",
    "es": "de del de-la de-los de-las",
    "fr": "de du des d' de-la de-l' à",
    "it": "di del della dei delle degli dell' d'",
    "pt": "de do da dos das",
}


@lru_cache(maxsize=32)
def list_function_words(language: str) -> frozenset[str]:
    """Articles, pronouns and the like; empty where there is no table."""
    return frozenset(_FUNCTION_WORDS.get(language, "").split())


@lru_cache(maxsize=32)
def _list_stop_words(language: str) -> frozenset[str]:
    """Function words and weak words, with and without accents; empty where there is no table."""
    if language not in _WEAK_WORDS:
        return frozenset()
    words = f"{_FUNCTION_WORDS.get(language, '')} {_WEAK_WORDS[language]}"
    return frozenset((*words.split(), *strip_accents(words).split()))


@lru_cache(maxsize=32)
def before_verbs(language: str) -> frozenset[str]:
    """Words after which a verb follows; empty where there is no table."""
    return frozenset(_BEFORE_VERBS.get(language.partition("-")[0].lower(), "").split())


@lru_cache(maxsize=32)
def joints(language: str) -> frozenset[str]:
    """What may join two words to one phrase, each as its words parted by a space."""
    found = _JOINTS.get(language.partition("-")[0].lower(), "").split()
    return frozenset(one.replace("-", " ") for one in found)


def is_stop(word: str, language: str) -> bool:
    """Whether a word, in small letters, says little on its own."""
    known = _list_stop_words(language.partition("-")[0].lower())
    if known:
        # `I'm`, `don't`, `she'll` are what they begin with; `twenty-six` is all small.
        bare = word.partition("'")[0]
        return bare in known or word in known or all(part in known for part in bare.split("-"))
    return len(word) <= _SHORT and word.isalpha() and word[0] < "\u0900"
