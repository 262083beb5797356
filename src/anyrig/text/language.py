"""Which language a text is in, and how sure that is.

py3langid knows 140 languages and guesses wildly on a word or two (`OK` is Serbian, `Yes.` is Kabyle
to it). So a script that few languages use decides first; a short text is judged by its common
words; and what says too little is answered with the default and no confidence. Near relatives that
few people mean (a Creole beside French) are counted to the language they resemble.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyrig.text.document import Document

# Below these, a text says too little: measured on single sentences of five languages.
_FEWEST_LETTERS = 12
_FEWEST_WORDS = 3
_SHORT = 6  # words
_PROSE = 8
_PLAIN = 0.95
_SURE = 0.6
_CERTAIN = 0.85
_DOUBT = 0.02  # a share of the default that still speaks for it in a short text
_NEVER = 0.01  # and one that does not, however unsure the rest is
_SAMPLE = 1500  # characters looked at: more changes nothing and costs time
_VOTES = 16  # paragraphs of a file that are asked
_UNANIMOUS = 5  # votes for one language and none for another: the rest need not be asked
_VOTE_CHARACTERS = 1000
_NO_PROSE = ("code", "page", "rule", "image")
_KIN = {
    "pcm": "en", "sco": "en", "gcf": "fr", "wa": "fr", "ext": "es", "an": "es", "lij": "it",
    "vec": "it", "scn": "it", "lmo": "it", "pms": "it", "bar": "de", "nds": "de", "yue": "zh",
    "wuu": "zh", "nn": "no", "nb": "no",
}  # fmt: skip
# Scripts and the languages written in them, the likeliest first.
_SCRIPTS: tuple[tuple[str, str], ...] = (
    ("\u3040-\u30ff", "ja"), ("\uac00-\ud7af\u1100-\u11ff", "ko"), ("\u4e00-\u9fff", "zh"),
    ("\u0370-\u03ff", "el"), ("\u0590-\u05ff", "he yi"), ("\u0e00-\u0e7f", "th"),
    ("\u10a0-\u10ff", "ka"), ("\u0530-\u058f", "hy"), ("\u0b80-\u0bff", "ta"),
    ("\u0400-\u052f", "ru uk be bg sr mk kk ky tg mn"), ("\u0600-\u06ff", "ar fa ur ps ckb"),
    ("\u0900-\u097f", "hi mr ne sa"), ("\u0980-\u09ff", "bn as"), ("\u0c00-\u0c7f", "te"),
)  # fmt: skip
# Common words that are not at the same time common in English.
_COMMON = {
    "en": "the of and to is was that it he she you they we with for this have not are be his her "
    "at on i my what there from as by do did will would can said hello yes please thank thanks",
    "es": "el los las una y de la que es está por para con se lo su pero muy más como qué aquí yo "
    "mi al del en hola gracias buenos buenas adiós señor favor tú él cómo dónde hoy",
    "fr": "le les une des de la du est ce c'est que qui pas je tu il elle nous vous dans avec "
    "mais très au aux ne se sur bonjour merci beaucoup salut oui voilà monsieur madame où était",
    "de": "der das und ist nicht ich du wir sie ein eine mit auf für zu den dem von im guten danke "
    "ja nein bitte herr frau auch aber sehr wie wo heute hallo",
    "it": "il lo gli una e di che è non con ma molto più sono della del nel grazie ciao buongiorno "
    "buona sera sì dove oggi questo quello io mi si",
    "pt": "o os uma e de que é não com mas muito mais são da na obrigado olá você eu para em "
    "bom dia",
}
_GREETINGS = {
    "bonjour": "fr", "merci": "fr", "bonsoir": "fr", "hola": "es", "gracias": "es",
    "danke": "de", "grazie": "it", "obrigado": "pt", "olá": "pt", "buongiorno": "it",
}  # fmt: skip
# An address is looked for from the start of its word only: anywhere, a long run costs its square.
_NOISE = re.compile(
    r"https?://\S+|www\.\S+|(?<!\S)\S*@\S*|\[\[[^\]]{0,200}\]\]|<[^<>]{0,200}>|[\d_]+"
)
_OTHER_SCRIPT = re.compile("[\u0370-\u1cff\u2c00-\ud7ff]")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")


@dataclass(frozen=True)
class Detected:
    """A language, with what speaks for it."""

    language: str
    confidence: float
    """From 0 to 1; 0 when the text says nothing and the default was taken."""
    reason: str

    @property
    def sure(self) -> bool:
        """Whether it may be acted upon."""
        return self.confidence >= _SURE


def detect(
    text: str, among: Sequence[str] | None = None, *, default: str = "en", thorough: bool = True
) -> Detected:
    """The language of a text.

    Args:
        text: of any length; its beginning, middle and end are looked at.
        among: the only languages it can be in, such as those that a table has.
        default: what little or odd text is taken for.
        thorough: whether the model is asked where script and common words do not tell.
    """
    clean = _NOISE.sub(" ", _take_sample(text)).encode("utf-8", "replace").decode("utf-8")
    words = _WORD.findall(clean)
    letters = sum(map(len, words))
    if script := _by_script(clean, letters, among):
        return script
    if plainly := _plainly(words, among):
        return Detected(plainly, _PLAIN, "its common words")
    enough = thorough and len(words) >= _FEWEST_WORDS and letters >= _FEWEST_LETTERS
    shares = _shares(" ".join(words), among) if enough else {}
    language, share = max(shares.items(), key=lambda pair: pair[1], default=(default, 0.0))
    common = _by_common_words(words, among) if share < _SURE or len(words) < _SHORT else ""
    if common:
        return Detected(common, max(_SURE, shares.get(common, 0.0)), "its common words")
    if not enough:
        return Detected(default, 0.0, f"too little text to tell, so {default}")
    other = shares.get(default, 0.0)
    if share < _SURE and other < _NEVER and len(words) >= _SHORT - 1:
        language, share = _among_common(shares, language, share)
        if other < _NEVER / 10 and len(words) >= _PROSE:  # Danish or Norwegian, but not this
            share = max(share, _SURE)
    if language != default and _doubtful(words, language, share, other):
        return Detected(default, other, f"unsure ({language}?), so {default}")
    return Detected(language, share, f"{share:.0%} by its letter sequences")


def detect_parts(texts: Sequence[str], *, default: str = "en") -> Detected:
    """The language that most of some paragraphs are in; confidence is its share of the letters.

    Paragraphs vote, so that a menu or a notice in another language does not decide. Where none
    tells by itself, all are judged together.
    """
    texts = [text for text in texts if len(text) >= _FEWEST_LETTERS]
    if len(texts) > _VOTES:
        texts = [texts[number * len(texts) // _VOTES] for number in range(_VOTES)]
    letters: Counter[str] = Counter()
    votes = 0
    for text in texts[::3] + texts[1::3] + texts[2::3]:  # the first are from all over it
        found = detect(text[:_VOTE_CHARACTERS], default=default)
        if found.sure:
            letters[found.language] += min(len(text), _VOTE_CHARACTERS)
            votes += 1
        if votes == _UNANIMOUS and len(letters) == 1:
            break
    if not letters:
        return detect("\n".join(texts), default=default)
    language, most = letters.most_common(1)[0]
    share = most / letters.total()
    return Detected(language, max(_SURE, share), f"{share:.0%} of the text")


def detect_document(document: Document, *, default: str = "en") -> Detected:
    """The language of a file by its text; what it declares counts where that tells too little.

    Templates and converters declare English for texts of any language. A region is kept: a text in
    English whose file says `en-GB` is `en-GB`.
    """
    declared = document.metadata.language.replace("_", "-").lower()
    base = declared.partition("-")[0]
    blocks = [
        block
        for chapter in document.chapters
        if chapter.role in ("body", "notes", "title")
        for block in chapter.blocks
        if block.kind not in _NO_PROSE
    ]
    texts = [block.text for block in blocks] or [block.text for block in document.blocks]
    paragraphs = [paragraph for text in texts for paragraph in text.split("\n\n")]
    found = detect_parts(paragraphs, default=base or default)
    if declared and (not found.sure or found.language == base):
        confidence = max(_SURE, found.confidence if found.language == base else 0.0)
        return Detected(declared, confidence, "declared by the file")
    return found


def num_words(text: str) -> int:
    """How many words a text has, numbers not counted."""
    return len(_WORD.findall(text))


def _take_sample(text: str) -> str:
    if len(text) <= 3 * _SAMPLE:
        return text
    middle = len(text) // 2
    return " ".join((text[:_SAMPLE], text[middle : middle + _SAMPLE], text[-_SAMPLE:]))


def _by_script(text: str, letters: int, among: Sequence[str] | None) -> Detected | None:
    if not _OTHER_SCRIPT.search(text):
        return None
    for ranges, written in _SCRIPTS:
        share = sum(map(len, re.findall(f"[{ranges}]+", text))) / max(1, letters)
        # Japanese is mostly kanji: a fifth of kana tells it from Chinese.
        if letters < 2 or share <= (0.2 if written == "ja" else 0.5):
            continue
        languages = [each for each in written.split() if not among or each in among]
        shares = _shares(text, languages) if len(languages) > 1 else {}
        best = max(shares, key=lambda each: shares[each]) if shares else written.split()[0]
        return Detected(best, max(_SURE, shares.get(best, 1.0)), "its script")
    return None


def _among_common(shares: dict[str, float], language: str, share: float) -> tuple[str, float]:
    """The likeliest of the great languages, when its small relatives took its share."""
    common = {each: shares.get(each, 0.0) for each in _COMMON}
    best = max(common, key=lambda each: common[each])
    sure = common[best] > _SURE * sum(common.values()) and common[best] > share / 3
    return (best, _SURE) if sure else (language, share)


def _doubtful(words: Sequence[str], language: str, share: float, other: float) -> bool:
    """Whether a text may as well be in the default language, whose share is `other`."""
    if share < _SURE or (language == "la" and len(words) < 20):  # names of plants and beasts
        return True
    if len(words) >= _SHORT:
        return False
    common = _common_words().get(language, frozenset())
    known = any(len(word) > 1 and word.lower() in common for word in words)
    return other > _DOUBT or not (known or share > _CERTAIN)


def _by_common_words(words: Sequence[str], among: Sequence[str] | None) -> str:
    """The one language that has most of the words, if it has two of them or a greeting."""
    if words and len(words) <= 2 and (greeting := _GREETINGS.get(words[0].lower())):
        return greeting if not among or greeting in among else ""
    (most, language), (next_most, _) = _count_common(words, among)
    return language if most >= 2 and most > next_most else ""


def _plainly(words: Sequence[str], among: Sequence[str] | None) -> str:
    """The language of ordinary prose, told by its common words: the model need not be loaded.

    The load is 0.8 s of CPU, most of what a short text costs. Prose has 30 to 50 % of such words;
    kindred languages share some, so the second must be far behind.
    """
    if len(words) < _PROSE:
        return ""
    (most, language), (next_most, _) = _count_common(words, among)
    return language if most >= 0.2 * len(words) and next_most <= 0.4 * most else ""


def _count_common(
    words: Sequence[str], among: Sequence[str] | None
) -> tuple[tuple[int, str], tuple[int, str]]:
    """How many words are common in a language: the best two."""
    lower = [word.lower().replace("’", "'") for word in words if len(word) > 1]
    counts = sorted(
        (sum(map(common.__contains__, lower)), language)
        for language, common in _common_words().items()
        if not among or language in among
    )
    return ((0, ""), (0, ""), *counts)[-1], ((0, ""), (0, ""), *counts)[-2]


@lru_cache(maxsize=1)
def _common_words() -> dict[str, frozenset[str]]:
    return {language: frozenset(text.split()) for language, text in _COMMON.items()}


def _shares(text: str, among: Sequence[str] | None) -> dict[str, float]:
    """How likely each language is, kin counted together."""
    shares: dict[str, float] = {}
    for label, share in _identifier().rank(text):
        language = _KIN.get(label, label)
        if label != "zxx" and (among is None or language in among):
            shares[language] = shares.get(language, 0.0) + share
    total = sum(shares.values()) if among else 1.0
    # With hardly anything in the languages allowed, their share among themselves says nothing.
    return {language: share / total for language, share in shares.items()} if total > 0.05 else {}


@lru_cache(maxsize=1)
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
