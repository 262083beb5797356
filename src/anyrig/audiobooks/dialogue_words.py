"""The words that tell who speaks: `said`, `Mrs.`, `she`, `the`, in each language.

Only forms that stand beside a quotation are listed: third person in the past and the present, and
the first person where its form differs. A verb that is missing here costs an attribution; one too
many costs a wrong speaker, so the lists are short of the doubtful ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Gender = Literal["m", "f", ""]


@dataclass(frozen=True)
class DialogueWords:
    """What one language says around a speech."""

    verbs: frozenset[str]
    first_person: frozenset[str]
    """Verbs whose form alone says that the teller speaks: Spanish `dije`."""
    pronouns: dict[str, Gender]
    me: str
    """The teller's own pronoun."""
    articles: dict[str, Gender]
    titles: dict[str, Gender]
    """Without their full stop."""
    owners: frozenset[str]
    """`his`, `my`: a person who is not named."""
    ends: frozenset[str]
    """Small words that end a description: `the man | in the hat`."""
    fillers: frozenset[str]
    """Words that may stand between a name and its verb, or before the name."""
    no_names: frozenset[str]
    """Words that open a sentence with a capital and are no name."""


_EN = (
    "said says say asked asks replied replies answered answers cried cries exclaimed exclaims "
    "whispered whispers shouted shouts muttered mutters murmured murmurs called added adds "
    "continued continues remarked remarks observed returned rejoined repeated repeats began "
    "thought thinks growled screamed yelled sighed laughed snapped hissed interrupted inquired "
    "enquired demanded declared announced suggested explained insisted admitted agreed protested "
    "went ejaculated responded retorted stammered sobbed groaned grumbled moaned pleaded begged "
    "warned promised told concluded resumed proceeded croaked gasped shrieked squeaked bellowed "
    "roared mumbled breathed drawled chuckled giggled barked snarled wailed wondered commented "
    "confessed objected persisted urged commanded ordered chimed echoed pursued assented argued "
    "corrected lied joked teased mused complained hollered sang sneered scoffed quipped offered "
    "put faltered panted whimpered snorted grunted purred volunteered reminded advised "
    "assured cautioned conceded countered reasoned recited stated vowed swore stuttered spluttered"
)
_ES = (
    "dijo dice preguntó pregunta respondió responde contestó contesta exclamó exclama gritó grita "
    "murmuró murmura susurró susurra añadió añade repuso replicó replica agregó continuó continúa "
    "prosiguió siguió repitió insistió pensó explicó anunció afirmó aseguró confesó admitió "
    "protestó interrumpió ordenó pidió suplicó rogó advirtió declaró comentó observó objetó "
    "propuso sugirió concluyó terció intervino balbuceó masculló musitó gruñó chilló bramó rugió "
    "sollozó gimió suspiró rió sonrió bromeó mintió aclaró corrigió reconoció aconsejó prometió "
    "inquirió interrogó espetó soltó saludó llamó apuntó indicó señaló asintió negó"
)
_ES_I = (
    "dije pregunté respondí contesté exclamé grité murmuré susurré añadí repuse repliqué "
    "insistí pensé expliqué"
)
_FR = (
    "dit demanda demande répondit répond répliqua réplique s'écria s'écrie cria crie murmura "
    "murmure ajouta ajoute reprit reprend fit fait continua continue poursuivit s'exclama "
    "s'exclame répéta répète insista pensa expliqua déclara annonça affirma assura avoua admit "
    "protesta interrompit ordonna supplia observa remarqua objecta proposa suggéra conclut "
    "chuchota "
    "souffla balbutia bégaya grommela grogna hurla gémit soupira rit sourit plaisanta mentit "
    "corrigea conseilla promit interrogea questionna lança lâcha rétorqua riposta s'enquit gronda "
    "sanglota appela acquiesça bredouilla marmonna s'étonna s'indigna"
)
_FR_I = "dis répondis demandai m'écriai répliquai ajoutai murmurai repris fis pensai"
_DE = (
    "sagte sagt fragte fragt antwortete antwortet rief ruft schrie flüsterte murmelte erwiderte "
    "entgegnete meinte fügte ergänzte wiederholte dachte erklärte versetzte brummte stöhnte "
    "seufzte "
    "lachte befahl bat warnte versprach stammelte brüllte sprach begann unterbrach gestand hauchte"
)
_TABLES: dict[str, DialogueWords] = {
    "en": DialogueWords(
        verbs=frozenset(_EN.split()),
        first_person=frozenset(),
        pronouns={"he": "m", "she": "f", "they": "", "it": "", "i": "", "we": "", "you": ""},
        me="I",
        articles={"the": "", "a": "", "an": ""},
        titles={
            "mr": "m", "mister": "m", "mrs": "f", "ms": "f", "miss": "f", "dr": "", "doctor": "",
            "prof": "", "professor": "", "sir": "m", "lady": "f", "lord": "m", "madam": "f",
            "madame": "f", "mademoiselle": "f", "monsieur": "m", "m": "m", "mme": "f",
            "uncle": "m", "aunt": "f", "auntie": "f", "king": "m", "queen": "f", "prince": "m",
            "princess": "f", "father": "m", "mother": "f", "brother": "m", "sister": "f",
            "captain": "", "colonel": "", "major": "", "lieutenant": "", "sergeant": "",
            "inspector": "", "judge": "", "rev": "", "reverend": "", "capt": "", "col": "",
            "lt": "", "sgt": "", "gen": "", "general": "", "count": "m", "countess": "f",
            "duke": "m", "duchess": "f", "baron": "m", "baroness": "f", "st": "", "old": "",
            "little": "", "poor": "", "young": "", "señor": "m", "señora": "f", "herr": "m",
            "frau": "f", "president": "", "senator": "", "constable": "", "detective": "",
        },
        owners=frozenset("his her my our their your its another one someone somebody".split()),
        ends=frozenset(
            "in on at with to from of by as who whom whose which that and but or for into over "
            "under after before when while without through is was had has sitting standing "
            "looking smiling turning holding shaking rising leaning coming getting again then now "
            "aloud once quite very rather too so still also back up out down off softly".split()
        ),
        fillers=frozenset(
            "then just now only once again also had at last suddenly always never finally simply "
            "merely even still almost out up on back".split()
        ),
        no_names=frozenset(
            "the a an this that these those there then but and so what when where why how who if "
            "in on at after before his her our their its my as for yet no yes now not or nor all "
            "some one once still even only just perhaps maybe finally suddenly again here with "
            "without by from to of it its was were is are do did does had has have will would can "
            "could should shall may might must oh ah well please thank thanks good god every both "
            "each neither either nobody nothing everyone everybody someone somebody something "
            "outside inside behind upon until since while though although because instead later "
            "chapter part book monday tuesday wednesday thursday friday saturday sunday".split()
        ),
    ),
    "es": DialogueWords(
        verbs=frozenset((_ES + " " + _ES_I).split()),
        first_person=frozenset(_ES_I.split()),
        pronouns={"él": "m", "ella": "f", "ellos": "", "ellas": "", "usted": "", "yo": ""},
        me="yo",
        articles={"el": "m", "la": "f", "los": "", "las": "", "un": "m", "una": "f"},
        titles={
            "señor": "m", "señora": "f", "señorita": "f", "sr": "m", "sra": "f", "srta": "f",
            "don": "m", "doña": "f", "d": "m", "dña": "f", "doctor": "m", "doctora": "f",
            "dr": "m", "dra": "f", "padre": "m", "madre": "f", "fray": "m", "sor": "f",
            "capitán": "m", "rey": "m", "reina": "f", "tío": "m", "tía": "f", "san": "m",
            "coronel": "m", "general": "m", "profesor": "m", "profesora": "f",
        },
        owners=frozenset("su mi tu nuestro nuestra sus mis otro otra uno una".split()),
        ends=frozenset(
            "en con de del a al por para sin que y pero mientras cuando entre desde hacia hasta "
            "sobre como tras muy ya luego entonces otra".split()
        ),
        fillers=frozenset("le les me nos se lo la entonces luego también así ya no al fin".split()),
        no_names=frozenset(
            "el la los las un una unos unas y o pero no sí si que qué cuando cuándo como cómo "
            "donde dónde por para con sin en de del a al su sus mi mis tu este esta esto ese esa "
            "eso aquel aquella entonces luego después antes ahora ya todo toda todos nada nadie "
            "algo alguien aquí allí allá así también tampoco muy más menos bien mal era fue había "
            "estaba tal vez quizá quizás pues porque aunque mientras hasta desde entre sobre se lo "
            "le les me te nos usted ustedes capítulo".split()
        ),
    ),
    "fr": DialogueWords(
        verbs=frozenset((_FR + " " + _FR_I).split()),
        first_person=frozenset(_FR_I.split()),
        pronouns={"il": "m", "elle": "f", "ils": "", "elles": "", "on": "", "je": ""},
        me="je",
        articles={"le": "m", "la": "f", "l'": "", "les": "", "un": "m", "une": "f"},
        titles={
            "monsieur": "m", "madame": "f", "mademoiselle": "f", "m": "m", "mme": "f",
            "mlle": "f", "mr": "m", "mrs": "f", "dr": "", "docteur": "", "maître": "m",
            "père": "m", "mère": "f", "oncle": "m", "tante": "f", "roi": "m", "reine": "f",
            "capitaine": "m", "abbé": "m", "sir": "m", "lord": "m", "lady": "f", "mgr": "m",
            "saint": "m", "colonel": "m", "général": "m", "milady": "f", "inspecteur": "",
        },
        owners=frozenset("son sa mon ma notre votre ses mes leur autre quelqu'un".split()),
        ends=frozenset(
            "en avec de du des d' à au aux par pour sans qui que et mais dans sur sous comme "
            "tandis pendant vers chez entre très tout alors puis".split()
        ),
        fillers=frozenset("lui leur me nous se alors puis enfin aussi à son tour".split()),
        no_names=frozenset(
            "le la les l' un une des et ou mais non oui si que qui quoi quand comme comment où par "
            "pour avec sans en de du à au aux son sa ses mon ma mes ton ta ce cet cette ces cela "
            "ça alors puis après avant maintenant tout toute tous rien personne quelque ici là "
            "ainsi aussi très plus moins bien mal était fut avait peut-être donc car lorsque "
            "tandis pendant jusque depuis entre sur dans se y ne je tu il elle on nous vous ils "
            "elles c'est chapitre enfin voilà".split()
        ),
    ),
    "de": DialogueWords(
        verbs=frozenset(_DE.split()),
        first_person=frozenset(),
        pronouns={"er": "m", "sie": "f", "es": "", "ich": "", "wir": ""},
        me="ich",
        articles={"der": "m", "die": "f", "das": "", "ein": "m", "eine": "f"},
        titles={
            "herr": "m", "frau": "f", "fräulein": "f", "dr": "", "doktor": "", "prof": "",
            "professor": "", "graf": "m", "gräfin": "f", "könig": "m", "königin": "f",
            "onkel": "m", "tante": "f", "hauptmann": "m", "st": "",
        },
        owners=frozenset("sein seine ihr ihre mein meine unser unsere".split()),
        ends=frozenset(
            "in im mit zu zum zur von vom auf an am und aber der die das als ohne nach bei aus "
            "leise laut dann".split()
        ),
        fillers=frozenset("dann nun nur ihm ihr ihnen mir noch leise laut endlich".split()),
        no_names=frozenset(
            "der die das ein eine er sie es wir ich ihr du und aber so was wann wo warum wie wer "
            "wenn in im am nach vor dann doch nein ja sein mein man auf mit für da nun jetzt als "
            "nichts alle noch auch hier dort kapitel".split()
        ),
    ),
}  # fmt: skip
# First names that leave no doubt, for `he` and `she` alone; a book's own titles come before them.
_MEN = (
    "john tom thomas james william henry george charles robert edward david peter paul michael "
    "richard joseph harry jack frank fred arthur albert walter sam samuel ben daniel andrew mark "
    "stephen philip simon edgar oliver hugh ralph martin luke matthew adam alan roger eric juan "
    "josé pedro luis carlos miguel antonio manuel francisco diego fernando jorge pablo rafael "
    "javier andrés sancho jean pierre jacques louis françois henri philippe michel andré claude "
    "rené antoine marcel gaston émile jules hans karl fritz heinrich otto franz wilhelm"
)
_WOMEN = (
    "mary anne ann anna jane elizabeth margaret alice emma sarah emily charlotte catherine kate "
    "lucy susan helen ellen martha rose grace julia laura clara edith florence agnes amy beth "
    "lydia harriet dorothy eleanor isabella louisa maggie nancy polly rachel rebecca ruth sophia "
    "maría carmen josefa isabel dolores teresa rosa lucía elena marta pilar mercedes juana inés "
    "beatriz marie jeanne louise marguerite françoise catherine thérèse hélène sophie émilie "
    "juliette madeleine gretel greta liesel hanna gertrud ilse"
)

# What people are called who have no name: by it a description is known, and a pronoun in doubt.
_MALE = (
    "man boy gentleman fellow husband father brother son uncle nephew servant guy lad hombre niño "
    "viejo muchacho chico marido padre hermano hijo joven homme garçon mari père frère fils "
    "vieillard mann junge vater bruder sohn"
)
_FEMALE = (
    "woman girl lady wife mother sister daughter aunt niece maid nurse mujer niña vieja muchacha "
    "chica esposa madre hermana hija señora femme fille dame mère sœur épouse frau mädchen mutter "
    "schwester tochter"
)
_NEITHER = "stranger voice someone somebody person child extraño voz alguien inconnu voix"


@lru_cache(maxsize=64)
def get_words(language: str) -> DialogueWords:
    """The words of a language; English ones for a language that is not known."""
    return _TABLES.get(language.partition("-")[0].lower(), _TABLES["en"])


@lru_cache(maxsize=2)
def _build_genders(men: str, women: str, neither: str = "") -> dict[str, Gender]:
    lists: tuple[tuple[str, Gender], ...] = ((men, "m"), (women, "f"), (neither, ""))
    return {word: gender for words, gender in lists for word in words.split()}


def list_unnamed_genders(words: Iterable[str]) -> set[Gender]:
    """The genders of people who are spoken of without a name: `a man`, `the stranger`."""
    kinds = _build_genders(_MALE, _FEMALE, _NEITHER)
    return {kinds[word] for word in words if word in kinds}


def guess_gender(name: str, language: str) -> Gender:
    """Of a person, by title, then by first name; nothing where neither tells."""
    words = get_words(language)
    parts = name.casefold().replace("’", "'").split()
    if parts and parts[0] in words.articles:
        parts = parts[1:]
    if parts and (known := words.titles.get(parts[0].rstrip("."), "")):
        return known
    kinds = _build_genders(_MALE, _FEMALE, _NEITHER)
    for part in parts:
        if kind := kinds.get(part, ""):
            return kind
    first = [part for part in parts if part.rstrip(".") not in words.titles]
    return _build_genders(_MEN, _WOMEN).get(first[0], "") if first else ""
