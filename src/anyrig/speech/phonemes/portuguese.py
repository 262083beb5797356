"""How Brazilian Portuguese is read: by its spelling, with tables for x and for open vowels."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from anyrig.speech.phonemes.spelling import mark_stress

_UNSTRESSED = frozenset(
    "a à às ao aos as com da das de do dos e é eu foi lhe lhes mas me meu meus na nas no nos nós "
    "o os ou por que se ser seu seus são te tem têm ter um uns".split()
)
_WEAK = frozenset(
    "aquela aquele até desde ela elas ele eles em entre era essa esse esta estava este está estão "
    "minha minhas não numa onde para pela pelo sem sempre sua suas tenho tinha uma umas você "
    "vocês".split()
)
"""With a second stress only."""
# Stressed e and o without an accent are closed, except in these words and endings.
_OPEN = frozenset(
    "aberta abertas aberto abertos adora agora alegre anexo até atleta bela belo bode bodes bola "
    "bolas bota botas certa certo cobra coberta completa completo copo copos corda cordas costa "
    "costas descoberta deserto dez ela elas entrega era eram espera esperam exceto febre ferro "
    "festa festas floresta florestas forte fortes gosta gostam guerra guerras hora horas hotel "
    "idosa inferno inverno janela janelas jogos jovem jovens leste leve logo loja lojas manhosa "
    "melhor menor maior mestre metro metros moda modelo moderno mora moram morre morte mostra "
    "mostram mulher nega neta neto neve nobre norte nota notas nova novas novos objeto obra obras "
    "oeste olhos oposta ovos papel pede pega perde perna pernas perto pobre pobres pode poeta "
    "porta portas portos posta povos prefere projeto promessa prosa prova provas quer quero regra "
    "regras reta reto resposta restos resto roda rodas rosa rosas secreto serra serve sete sobe "
    "sofre sogra sol sorte suporte tela terra terras testa teto transporte velha velhas velho "
    "velhos verso vela velas volta voltas voto zero horta corre escola escolas anel aluguel mel "
    "pastel coronel fiel cruel miguel rafael israel manuel isabel nela dela aquela aquelas delas "
    "nelas esforços ossos postos corpos fogos tijolos ideia cobre sobra sobram dobra exporta "
    "importa acorda concorda demora melhora chora choram namora joga jogam cola toca tocam".split()
)
_OPEN_ENDINGS = re.compile(
    r"(?:[^n]el[oa]s?|est[ra]*as?|er[tnrs][ao]s?|os[ao]s|osa|ort[ae]s?|o[tvlcgd][ae]s?|or(?:a|as|e)"
    r"|ob[re]+s?|ol|el|est[rt]es?|eg[ar]+s?|ep[oa]s?|oss[ae]s?|orr[ae]s?)$"
)
_CLOSED = frozenset(
    "estrela estrelas toda todas todo boa pessoa coroa lagoa outra outras soa moça esposa gota "
    "boca bocas roupa louca pouca forra agosto gosto rosto posto oposto morto porto torto corpo "
    "mesa presa surpresa cabelo pelo selo camelo gelo sobre sogro todos outros colo bolo tolo "
    "senhor".split()
)
_X_KS = re.compile(
    r"t[aá]xi|fix|t[oó]xic|sex[oua]|nex[oã]|flex|plex|oxig|oxid|maxil|ortodox|paradox|t[oó]rax"
    r"|asfix"
    r"|axil|saxof|l[aá]tex|prolix|cl[ií]max|ex$"
)
_X_S = re.compile(r"pr[oó]xim|m[aá]xim|aux[ií]li|troux|sintax")
# Where the u of qu and gu is heard before e and i.
_QU_W = re.compile(r"cinquent|tranq|freq|seq[uü][eê]|eques|delinq|eloq|eq[uü]i[dn]|quinqu|consequ")
_GU_W = re.compile(r"aguent|ling[uü][ií]|ping[uü]|bil[ií]ng|sagui|unguent|ambigui|arguir|ensangu")
_FOREIGN = {
    "facebook": "feissibuque", "google": "gúgol", "hotel": "otél", "internet": "internéti",
    "jazz": "djéz",
    "john": "djón", "marketing": "márquetin", "new": "niu", "pizza": "pitsa",
    "shakespeare": "xêicspir",
    "shopping": "xópin", "show": "xôu", "site": "sáiti", "software": "sófituer",
    "washington": "uóxinton",
    "web": "uébi", "whatsapp": "uátzapi", "wi": "uái", "windows": "uíndous", "york": "iórqui",
    "youtube": "iutúbi",
}  # fmt: skip
_VOWELS = "aeiouáéíóúâêôãõàü"
_PLAIN = str.maketrans("áéíóúâêôãõàü", "aeiouaeoaoau")
_STRESS_MARKS = "áéíóúâêô"
_NASAL = {"a": "ɐ\u0303", "e": "A", "i": "i", "o": "o", "u": "u\u0303"}
_FALLING = {
    "ai": "I", "ei": "A", "oi": "oɪ", "ui": "uɪ", "au": "W", "eu": "eʊ", "iu": "iʊ", "ou": "ow",
    "ɛi": "ɛɪ", "ɔi": "Y", "ɛu": "ɛʊ", "ao": "W",
}  # fmt: skip
_L_CODA = {"a": "W", "e": "eʊ", "ɛ": "ɛʊ", "i": "iʊ", "o": "ow", "ɔ": "ɔʊ", "u": "uw"}
_LETTERS = {
    "b": "b", "ç": "s", "d": "d", "f": "f", "j": "ʒ", "k": "k", "l": "l", "m": "m", "n": "n",
    "p": "p",
    "q": "k", "t": "t", "v": "v", "w": "w", "y": "i",
}  # fmt: skip
_VOICED = frozenset("bdɡvzʒʤmnlɾrj")
_ENDS_REDUCED = re.compile("[^ieoɛɪˈˌaA\u0303][yʊ]$")
_SOUND_VOWELS = frozenset("aeiouæɐɔɛʊyɪIAWOYũ")


def read_clause(words: Sequence[str]) -> list[str]:
    sounds = [_read_word(word, alone=len(words) == 1) for word in words]
    return [
        _join(sound, sounds[index + 1] if index + 1 < len(sounds) else "")
        for index, sound in enumerate(sounds)
    ]


def _join(sound: str, after: str) -> str:
    """A final s is voiced, a final r tapped and a final vowel short before the next word."""
    start = after.lstrip("ˈˌ")[:1]
    before_vowel = start in _SOUND_VOWELS if start else False
    if sound.endswith("s") and (before_vowel or start in _VOICED):
        return sound[:-1] + "z"
    if sound.endswith("r") and before_vowel:
        return sound[:-1] + "ɾ"
    if before_vowel and _ENDS_REDUCED.search(sound):
        if sound.endswith("y"):
            return sound[:-1] + ("i" if sound.endswith("ry") else "j")
        return sound[:-1] + "w" if "ˈ" in sound else sound
    return sound


def _read_word(word: str, *, alone: bool) -> str:
    plain = word.lower().replace("'", "").rstrip("-")
    if plain == "muito" or (plain.startswith("muit") and len(plain) <= 6):
        return "mwˈiŋt" + {"o": "ʊ", "a": "æ", "os": "ʊs", "as": "æs"}.get(plain[4:], plain[4:])
    plain = _FOREIGN.get(plain, plain)
    if not alone and plain in _UNSTRESSED:
        return _Syllables(plain).write("")
    return _Syllables(plain).write("ˌ" if not alone and plain in _WEAK else "ˈ")


@dataclass
class _Syllables:
    """The letters of a word, parsed into sounds."""

    word: str
    units: list[str] = field(default_factory=list)
    nuclei: list[int] = field(default_factory=list)
    vowels: list[str] = field(default_factory=list)
    """The letter of each nucleus."""
    accented: int = -1

    def __post_init__(self) -> None:
        place = 0
        while place < len(self.word):
            if self.word[place] in _VOWELS:
                place += self._add_vowel(place)
            else:
                sounds, length = _read_consonant(self.word, place)
                self.units += sounds
                place += length
        if self.accented < 0:
            tilde = [index for index, vowel in enumerate(self.vowels) if vowel in "ãõ"]
            self.accented = tilde[-1] if tilde else -1

    def _add_vowel(self, place: int) -> int:
        """Add a vowel, a diphthong or a glide; how many letters that took."""
        word, letter = self.word, self.word[place]
        after = word[place + 1 : place + 2]
        plain = letter.translate(_PLAIN)
        if self._is_glide(place):
            self.units.append("j" if plain == "i" else "w")
            return 1
        if letter in _STRESS_MARKS:
            self.accented = len(self.nuclei)
        self.nuclei.append(len(self.units))
        self.vowels.append(letter)
        if letter in "ãõ":
            return self._add_nasal_diphthong(place, letter, after)
        sound = {"é": "ɛ", "ó": "ɔ"}.get(letter, plain)
        if after and after in "mn" and self._is_coda(place + 1):
            return self._add_nasal(place, plain, after)
        if self._is_falling(place):
            self.units.append(_FALLING.get(sound + after, sound + after))
            return 2
        if after == "l" and self._is_coda(place + 1):
            self.units.append(_L_CODA[sound])
            return 2
        if plain == "a" and word[place + 1 : place + 3] == "nh":
            sound = "ɐ\u0303"
        elif plain == "u" and word[place + 1 : place + 3] == "nh":
            sound = "u\u0303"
        self.units.append(sound)
        return 1

    def _add_nasal_diphthong(self, place: int, letter: str, after: str) -> int:
        base = "ɐ\u0303" if letter == "ã" else "o\u0303"
        tail = {"ão": "ʊ\u0303", "ãe": "y", "õe": "j"}.get(letter + after)
        self.units.append(base + (tail or ("ŋ" if letter == "õ" else "")))
        return 2 if tail else 1

    def _add_nasal(self, place: int, plain: str, letter: str) -> int:
        rest = self.word[place + 2 :]
        if plain == "a" and letter == "m" and not rest:
            self.units.append("ɐ\u0303ʊ\u0303")
        else:
            self.units.append(_NASAL[plain] + ("m" if rest[:1] in ("p", "b") else "ŋ"))
        return 2

    def _is_coda(self, place: int) -> bool:
        """Whether the consonant at a place ends its syllable."""
        after = self.word[place + 1 : place + 2]
        return after == "" or (after not in _VOWELS and after != "h" and after != self.word[place])

    def _is_glide(self, place: int) -> bool:
        """An i or u that begins the next vowel's syllable: família, quatro, água, língua."""
        word, letter = self.word, self.word[place]
        after = word[place + 1 : place + 2]
        if not after or after not in _VOWELS:
            return False
        if letter in "uü" and word[place - 1 : place] in ("q", "g") and place:
            return True
        has_mark = any(mark in word[:place] for mark in _STRESS_MARKS)
        return (
            letter in "iu"
            and has_mark
            and re.fullmatch(r"[aeo]s?|[aeo]m?", word[place + 1 :]) is not None
        )

    def _is_falling(self, place: int) -> bool:
        """A vowel and the i or u after it in one syllable."""
        word, letter = self.word, self.word[place]
        after, then = word[place + 1 : place + 2], word[place + 2 : place + 4]
        if after not in ("i", "u") or letter.translate(_PLAIN) == after:
            return word[place:] in ("ao", "aos") and place == 0
        if letter == "i" and after == "u" and then[:1] and then[:1] not in "s":
            return False
        if then.startswith("nh") or (
            then[:1] in tuple("lrzmn") and then != "rr" and then[1:2] not in tuple(_VOWELS + "d")
        ):
            return False
        return letter not in "íú"

    def write(self, stress: str) -> str:
        if not self.nuclei:
            return "".join(self.units)
        stressed = self._find_stress()
        for index, nucleus in enumerate(self.nuclei):
            self.units[nucleus] = self._color(index, stressed, stress)
        if stress == "ˈ":
            last = len(self.nuclei) - 1
            second = [0] if stressed >= 2 or (stressed == 1 and stressed < last) else []
            marked = mark_stress(self.units, self.nuclei, stressed, second)
        else:
            marked = mark_stress(self.units, self.nuclei, -1, [stressed] if stress else [])
        return _palatalize(marked)

    def _find_stress(self) -> int:
        last = len(self.nuclei) - 1
        if self.accented >= 0:
            return self.accented
        is_penultimate = re.search(r"(?:[aeo]s?|am|em|ens)$", self.word) is not None
        falls = re.search(r"[aeou][iu]s?$", self.word) is not None
        return max(0, last - 1) if is_penultimate and not falls else last

    def _color(self, index: int, stressed: int, stress: str) -> str:
        """A vowel by its place: open or closed where stressed, reduced at the end."""
        sound = self.units[self.nuclei[index]]
        is_final = index == len(self.nuclei) - 1 and index > stressed - (not stress)
        if index == stressed and stress:
            return self._open(sound, index)
        if is_final and sound in ("e", "o") and self._ends_plain():
            return self._reduce(sound)
        if sound == "a" and index > stressed and stress:
            return "æ"
        if sound == "a" and self._before_nasal(index):
            return "æ"
        return sound

    def _reduce(self, sound: str) -> str:
        if sound == "o":
            return "ʊ"
        return "i" if self.word == "e" else "y"

    def _ends_plain(self) -> bool:
        return re.search(r"[eo]s?$", self.word) is not None

    def _before_nasal(self, index: int) -> bool:
        after = self.nuclei[index] + 1
        return after < len(self.units) and self.units[after] in ("m", "n", "ɲ")

    def _open(self, sound: str, index: int) -> str:
        if sound == "a" and self._before_nasal(index) and index < len(self.nuclei) - 1:
            return "ɐ\u0303"
        if self.vowels[index] not in "eo" or sound not in ("e", "o", "eʊ", "ow"):
            return sound
        if sound in ("eʊ", "ow") and "l" not in self.word:
            return sound
        is_open = self.word in _OPEN or (
            self.word not in _CLOSED
            and index >= len(self.nuclei) - 2
            and _OPEN_ENDINGS.search(self.word) is not None
        )
        return sound.replace("e", "ɛ").replace("ow", "ɔl").replace("o", "ɔ") if is_open else sound


def _palatalize(sounds: str) -> str:
    """t and d before i, and before an e that is said like one."""
    sounds = re.sub("t(?=[ˈˌ]?[iyj](?!\u0303))", "ʧ", sounds)
    return re.sub("d(?=[ˈˌ]?[iyj](?!\u0303))", "ʤ", sounds)


def _read_consonant(word: str, place: int) -> tuple[list[str], int]:
    """The sounds at a place, and how many letters they are written with."""
    letter, after = word[place], word[place + 1 : place + 2]
    pair = word[place : place + 2]
    if pair in _PAIRS:
        return list(_PAIRS[pair]), 2
    if letter in _READ:
        return _READ[letter](word, place)
    if letter in "qg" and after == "u" and word[place + 2 : place + 3] in tuple("eiéêí"):
        is_w = (_QU_W if letter == "q" else _GU_W).search(word) is not None
        sound = "k" if letter == "q" else "ɡ"
        return [sound, *("w" if is_w else "")], 2
    if letter == "g":
        return ["ʒ" if after and after in "eiéêíy" else "ɡ"], 1
    sound = _LETTERS.get(letter, "")
    return [*sound], 2 if after == letter else 1


def _read_c(word: str, place: int) -> tuple[list[str], int]:
    after = word[place + 1 : place + 2]
    return ["s" if after and after in "eiéêíy" else "k"], 1


def _read_s(word: str, place: int) -> tuple[list[str], int]:
    before, after = word[place - 1 : place] if place else "", word[place + 1 : place + 2]
    if after == "s":
        return ["s"], 2
    if after == "c" and word[place + 2 : place + 3] in tuple("eiéêí"):
        return ["s"], 2
    if after == "ç":
        return ["s"], 2
    if after and (after in "bdgvmnlrjz" or (after in _VOWELS and before and before in _VOWELS)):
        return ["z"], 1
    if re.match(r"transi?[aeo]", word) and place == 4:
        return ["z"], 1
    return ["s"], 1


def _read_z(word: str, place: int) -> tuple[list[str], int]:
    return ["z" if place + 1 < len(word) else "s"], 1


def _read_x(word: str, place: int) -> tuple[list[str], int]:
    after = word[place + 1 : place + 2]
    if _X_KS.search(word):
        return ["k", "s"], 1
    if word.startswith("ex") and place == 1:
        if after == "c" and word[place + 2 : place + 3] in tuple("eiéêí"):
            return ["s"], 2
        return (["z"] if after in tuple(_VOWELS + "h") else ["s"]), 1
    if _X_S.search(word) or (after and after in "ctpqf"):
        return ["s"], 1
    return ["ʃ"], 1


def _read_r(word: str, place: int) -> tuple[list[str], int]:
    before, after = word[place - 1 : place] if place else "", word[place + 1 : place + 2]
    if after == "r":
        return ["x"], 2
    if not before or before in "nls":
        return ["x"], 1
    if after and after in _VOWELS:
        return ["ɾ" if before in _VOWELS else "r"], 1
    return (["ɾ", "ə"] if after else ["r"]), 1


_PAIRS = {"ch": "ʃ", "lh": "lj", "nh": "ɲ", "ph": "f", "th": "t", "sh": "ʃ"}
_READ: dict[str, Callable[[str, int], tuple[list[str], int]]] = {
    "c": _read_c, "s": _read_s, "z": _read_z, "x": _read_x, "r": _read_r,
}  # fmt: skip
