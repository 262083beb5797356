"""Words that are written alike and read differently: lead, wound, tears, record.

hibari's dictionary has most of them by part of speech, and its tagger is wrong about one in five.
Two things are done here before it reads: the part of speech of such a word is corrected where the
words around it leave no doubt, and words that differ in meaning are decided by what is near them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Token = Any
"""hibari's: `text`, `tag` (Penn Treebank), `alias` (read as another word), `phonemes`."""

_DETERMINERS = frozenset("a an the this that these those my your his her its our their no any "
                         "every each another some 's".split())  # fmt: skip
_BEFORE_VERBS = frozenset("to will would can could shall should may might must do does did cannot "
                          "please let's 'll 'd".split())  # fmt: skip
_SUBJECTS = frozenset("i you we they who".split())
_ADVERBS = frozenset("not n't never always often also only really then just ever usually still "
                     "soon sometimes first generally rarely seldom all both".split())  # fmt: skip
_DEGREES = frozenset("quite very so too more most less rather fairly perfectly completely "
                     "extremely really as".split())  # fmt: skip
_COPULAS = frozenset("be is are was were been being am 's 're 'm seem seems seemed feel feels felt "
                     "look looks looked remain remains remained become became stay stays stayed "
                     "keep keeps kept draw drew come came".split())  # fmt: skip
_PLURAL_NOUNS = frozenset("people men women children police".split())
_PLURAL_MODIFIERS = frozenset("sales sports arms games goods systems savings customs operations "
                              "communications earnings clothes news".split())  # fmt: skip
_ADJECTIVES = frozenset("close content live separate moderate minute invalid perfect compact "
                        "deliberate appropriate alternate intimate elaborate legitimate desolate "
                        "absent frequent present subordinate".split())  # fmt: skip
_NEAR = 7
"""Words to either side that show what a text is about."""


class WordRule(NamedTuple):
    """How a word is read if all its conditions hold."""

    reading: str
    """A tag in capitals, another word that sounds the same, or IPA between slashes."""
    before: str = ""
    """Words of which one is just before it."""
    after: str = ""
    """Words of which one is just after it."""
    near: str = ""
    """Words of which one is within seven words."""
    tags: str = ""
    """How its own tag may begin."""
    tags_after: str = ""
    """How the tag of the next word may begin; `.` is the end of a clause."""
    tags_before: str = ""


_SHIPS = "ship ships boat boats deck stern sea waves wave vessel hull yacht anchor sailor sailors"
_ROADS = "through around along up down past between its his her their the a round back across over"
_EYES = "eye eyes cheek cheeks cry cried crying wept weeping face shed single wiped joy grief sad"
_CLOTH = ("curtain cloth jacket paper sleeve dress shirt trousers jeans fabric muscle ligament "
          "sail sails seam stocking page coat skirt tent canvas hole sew knee")  # fmt: skip
_NOT_LEAD = "follow follows take takes took taking team race singer actor role"
_METAL = ("pipe pipes paint metal metals copper tin zinc iron steel bullet bullets poisoning heavy "
          "lined roof mine mines pencil battery batteries petrol gasoline weight weights shot cast "
          "contained contain contains soldiers melted molten ore toxic rays radiation")  # fmt: skip
_AMOUNTS = ("made sheet sheets strip strips lump lumps bar bars block blocks piece pieces pound "
            "pounds ounce ounces kilo kilos gram grams ton tons trace traces level levels amount "
            "amounts roof roofs")  # fmt: skip
_FISH = ("fish fishing lake caught catch river grilled fried fillet striped largemouth bait lemon "
         "trout salmon pond angler")  # fmt: skip
_DEER = "deer buck bucks stag stags fawn fawns herd rabbit rabbits hares bucks antlers"
_PIGS = "pig pigs piglets boar litter sty mud farmer pork"
_JOBS = ("send sent job jobs languages employer interview application experience skills hire "
         "hiring applicant applicants cv email attach attached recruiter position")  # fmt: skip
_PAPERS = "printed updated attached written typed one-page two-page polished signed"
_QUARRELS = "terrible noisy blazing furious fierce flaming heated bitter almighty violent awful"
_TINY = ("detail details trace traces amount amounts particle particles quantity quantities "
         "changes difference differences fraction fractions crystals insects holes creatures "
         "organisms inspection examination piece pieces specks variations grains")  # fmt: skip
_KIN = "mother father wife husband sister brother aunt uncle son daughter child parents parent"
_SEWING = "dress dresses needle thread fabric stitch stitches seamstress cloth tailor quilt skilled"
_PAST = "yesterday ago last once earlier before previously already had"
_HABITS = "every each always often usually daily sometimes weekly nightly regularly rarely seldom"
_HAVE = "have has had 've having be is are was were been being 's is get got well widely"

RULES: Mapping[str, tuple[WordRule, ...]] = {
    "lead": (
        WordRule("NN", before=_NOT_LEAD),
        WordRule("led", near=_METAL, tags="NN JJ VBD VBN"),
        WordRule("led", before="of with", near=_METAL),
        WordRule("led", before="of", near=_AMOUNTS),
        WordRule("led", after="pipe pipes paint poisoning bullet bullets weight weights"),
    ),
    "wound": (
        WordRule(
            "VBN", before="was were is been be being", after="up down around round tightly into"
        ),
        WordRule("VB", before="to will would could can may might not n't did do does"),
        WordRule("NN", tags_before="DT PRP$ JJ CD"),
        WordRule("VBD", after=_ROADS, tags_before="N PRP W"),
    ),
    "tear": (
        WordRule("VB", before="and", near="wear"),
        WordRule("NN", near=_EYES, tags="N"),
        WordRule("VB", near=_CLOTH),
        WordRule("VB", after="in"),
    ),
    "tears": (WordRule("VBZ", near=_CLOTH, tags_before="N PRP"),),
    "bow": (
        WordRule("bough", near=_SHIPS),
        WordRule("bough", before="a", near="take took takes taking taken actor actors curtain"),
        WordRule("beau", tags_before="DT PRP$ JJ"),
        WordRule("bough", tags_before="TO MD NNS PRP"),
    ),
    "row": (
        WordRule("/ˈɹaʊ/", before=_QUARRELS),
        WordRule(
            "/ˈɹaʊ/", after="about over between with", near="had have has having started money"
        ),
    ),
    "resume": (
        WordRule("/ˈrɛzəˌmeɪ/", tags_before="DT PRP$ JJ"),
        WordRule("/ˈrɛzəˌmeɪ/", near=_JOBS, tags="N"),
        WordRule("/ˈrɛzəˌmeɪ/", before=_PAPERS),
    ),
    "read": (
        WordRule(
            "VB", before="to will would can could shall should may might must do does did not"
        ),
        WordRule("VBN", before=_HAVE),
        WordRule("VBD", before="he she it"),
        WordRule("VB", near=_HABITS),
        WordRule("VBD", near=_PAST),
        WordRule("VBN", before="you", near="have had"),
    ),
    "does": (
        WordRule("doze", near=_DEER, tags_before="CD DT JJ IN"),
    ),
    "sow": (
        WordRule("NN", tags_before="DT PRP$ JJ", near=_PIGS),
        WordRule("NN", before="the a"),
        WordRule("VB", tags_before="N PRP MD TO"),
    ),
    "sewer": (WordRule("sower", near=_SEWING),),
    "bass": (
        WordRule("NN", near=_FISH),
        WordRule("NN", before="sea striped black largemouth smallmouth"),
        WordRule("base"),
    ),
    "dove": (
        WordRule("VBD", after="into in off for under down through from to deep headfirst behind",
             tags_before="N PRP W"),
    ),
    "minute": (
        WordRule("JJ", after=_TINY),
        WordRule("JJ", tags_before="VB", tags_after="NNS"),
        WordRule("JJ", before="with", tags_after="NNS"),
    ),
    "conduct": (
        WordRule(
            "VB", after="electricity heat business research experiments interviews tests surveys"
        ),
    ),
    "invalid": (
        WordRule("NN", after=_KIN),
        WordRule("NN", before="old poor elderly chronic bedridden helpless an the this that",
             tags_after="V MD IN . RB"),
        WordRule("NN", tags_before="DT JJ", near="chair bed wheelchair nurse nursed"),
    ),
    "crooked": (WordRule("JJ"),),
    "learned": (
        WordRule("JJ", before="a the this that my your his her our their most very",
             tags_after="NN"),
    ),
    "aged": (
        WordRule("/ˈeɪdʒɪd/", after=_KIN + " man woman men women people couple face hands"),
        WordRule("/ˈeɪdʒɪd/", before="the", tags_after=". V CC"),
    ),
    "blessed": (
        WordRule("/ˈblɛsɪd/", before="the every this that", tags_after="N"),
    ),
    "axes": (
        WordRule(
            "VBZ", near="wood chop chopped trees swords spears hammers shields saws woodcutters"
        ),
    ),
    "job": (WordRule("/ˈdʒoʊb/", before="of", near="book bible patience prophet sufferings"),),
}  # fmt: skip

_CITIES = {"Nice": "/ˈniːs/", "Reading": "/ˈrɛdɪŋ/"}
_BEFORE_CITIES = frozenset("in to from near at for".split())


def resolve(tokens: Sequence[Token], has_forms: Any) -> list[str]:
    """The reading of each token that is a homograph, as in `Rule`; empty for all others.

    Args:
        tokens: of a sentence.
        has_forms: tells whether the dictionary reads a word by its part of speech.
    """
    words = [token.text.lower() for token in tokens]
    found = []
    for index, word in enumerate(words):
        reading = ""
        if tokens[index].phonemes is None and tokens[index].text.isalpha():
            reading = _apply_rules(tokens, words, index)
            if not reading and has_forms(word):
                reading = _correct_tag(tokens, words, index)
        found.append(reading)
    return found


def _apply_rules(tokens: Sequence[Token], words: Sequence[str], index: int) -> str:
    token, word = tokens[index], words[index]
    if token.text in _CITIES and index and words[index - 1] in _BEFORE_CITIES:
        return _CITIES[token.text] if _get(words, index + 1) != "and" else ""
    if token.text == "A":
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        return "/ˈeɪ/" if _is_letter(tokens, index) else "DT" if following.isalpha() else ""
    if token.text == "Polish" and not index and _get(words, 1) in _DETERMINERS:
        return "polish"
    if word == "job" and token.text != "Job":
        return ""
    for rule in RULES.get(word, ()):
        if _holds(rule, tokens, words, index):
            return rule.reading
    return ""


def _is_letter(tokens: Sequence[Token], index: int) -> bool:
    """Whether a capital A is the letter: among other letters, or inside a sentence."""
    start, end = index, index + 1
    while start and _is_capital(tokens[start - 1].text):
        start -= 1
    while end < len(tokens) and _is_capital(tokens[end].text):
        end += 1
    if any(token.text[0] not in "AI" for token in tokens[start:end]):
        return True  # "A M", "C I A"
    inside = start and tokens[start - 1].text[-1].isalnum() and not tokens[start - 1].text.isupper()
    following = tokens[end].text if end < len(tokens) else ""
    return bool(inside) and not following[:1].isupper()  # not in a title or in capitals


def _is_capital(text: str) -> bool:
    return text[:1].isupper() and len(text.rstrip(".")) == 1


def _holds(rule: WordRule, tokens: Sequence[Token], words: Sequence[str], index: int) -> bool:
    near = {*words[max(0, index - _NEAR) : index], *words[index + 1 : index + 1 + _NEAR]}
    return (
        (not rule.before or _get(words, index - 1) in rule.before.split())
        and (not rule.after or _get(words, index + 1) in rule.after.split())
        and (not rule.near or not near.isdisjoint(rule.near.split()))
        and (not rule.tags or tokens[index].tag.startswith(tuple(rule.tags.split())))
        and (not rule.tags_before or _tag(tokens, index - 1).startswith(
            tuple(rule.tags_before.split())))
        and (not rule.tags_after or _tag(tokens, index + 1).startswith(
            tuple(rule.tags_after.split())))
    )  # fmt: skip


def _get(words: Sequence[str], index: int) -> str:
    return words[index] if 0 <= index < len(words) else ""


def _tag(tokens: Sequence[Token], index: int) -> str:
    if index < 0 or index >= len(tokens):
        return "."
    tag = str(tokens[index].tag)
    return "." if tag in (",", ":", "''", "``", "-RRB-") else tag


def _correct_tag(tokens: Sequence[Token], words: Sequence[str], index: int) -> str:
    """The part of speech that the words around leave no doubt about; empty if they do."""
    word, after = words[index], _tag(tokens, index + 1)
    place = index - 1
    while place >= 0 and words[place] in _ADVERBS and words[place] not in _DEGREES:
        place -= 1
    before = _get(words, place)
    if word in _ADJECTIVES:
        if before in _DEGREES or (before in _COPULAS and not after.startswith(("DT", "PRP"))):
            return "JJ"
        if before in _DETERMINERS and after.startswith("NN"):
            return "JJ"
    if before in _BEFORE_VERBS or before in _SUBJECTS:
        return "VB"
    if before in _DETERMINERS and place == index - 1:
        return "" if after.startswith("NN") else "NN"
    if _tag(tokens, place).startswith("JJ") and _get(words, place - 1) in _DETERMINERS:
        return "" if after.startswith("NN") else "NN"
    if place < 0 and _get(words, index + 1) in _DETERMINERS | {"all"}:
        return "VB"  # "Close the door", "First separate the eggs"
    is_plural = _tag(tokens, place) in ("NNS", "NNPS") or before in _PLURAL_NOUNS
    if (
        is_plural
        and before not in _PLURAL_MODIFIERS
        and not word.endswith("s")
        and _tag(tokens, place - 1).startswith((".", "DT", "PRP$", "JJ", "CD", "CC", "IN"))
        and after.startswith(("IN", "DT", "PRP", "RB", "WRB", "TO", "JJ", "."))
    ):
        return "VB"  # "The banks close at noon", "Metals contract when they cool"
    return ""
