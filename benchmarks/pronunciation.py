"""How English words are read for the default voice, beside hibari's own reader.

Homographs in sentences (tests/speech/homographs.tsv): a word is right if its phonemes are nearer to
the right reading than to the wrong one. Words of CMUdict, drawn by a seed: phoneme errors without
stress. CMUdict is not a dependency: BENCHMARK_CMUDICT names its file `cmudict.dict` (BSD licence,
as in the package `cmudict`).
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from anyrig.devices.discovery import discover
from anyrig.speech.phonemes.english import EnglishReader
from benchmarks.harness import ROOT, Row

NUM_WORDS, SEED = 300, 36
CASES = ROOT / "tests" / "speech" / "homographs.tsv"
_MARKED = re.compile(r"\*(.+?)\*")
_ARPABET = {
    "AA": "ɑ", "AE": "æ", "AH": "ʌ", "AO": "ɔ", "AW": "W", "AY": "I", "B": "b", "CH": "ʧ",
    "D": "d", "DH": "ð", "EH": "ɛ", "ER": "ɜɹ", "EY": "A", "F": "f", "G": "ɡ", "HH": "h", "IH": "ɪ",
    "IY": "i", "JH": "ʤ", "K": "k", "L": "l", "M": "m", "N": "n", "NG": "ŋ", "OW": "O", "OY": "Y",
    "P": "p", "R": "ɹ", "S": "s", "SH": "ʃ", "T": "t", "TH": "θ", "UH": "ʊ", "UW": "u", "V": "v",
    "W": "w", "Y": "j", "Z": "z", "ZH": "ʒ",
}  # fmt: skip
# Sounds that dictionaries write in different ways.
_SAME = str.maketrans({"ə": "ʌ", "ᵊ": "ʌ", "ɜ": "ʌ", "ᵻ": "ɪ", "T": "t", "ɾ": "t", "ˈ": "", "ˌ": "",
                       " ": "", "ː": ""})  # fmt: skip


class Homograph(NamedTuple):
    part: str
    right: str
    wrong: str
    text: str
    start: int
    """Where the word is in the text."""

    @property
    def word(self) -> str:
        found = re.match(r"\w+", self.text[self.start :])
        return found[0] if found else ""


def read_homographs(path: Path = CASES) -> Iterator[Homograph]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            part, right, wrong, marked = line.split("\t")
            found = _MARKED.search(marked)
            assert found is not None
            yield Homograph(part, right, wrong, _MARKED.sub(r"\1", marked), found.start())


def is_right(case: Homograph, read: Callable[[str], Sequence[Any]]) -> bool:
    """Whether a reader says the marked word as it should.

    Args:
        case: the sentence.
        read: gives the words of a text, with `text` and `phonemes`.
    """
    number = len(re.findall(rf"\b{case.word}\b", case.text[: case.start]))
    said = [word.phonemes for word in read(case.text) if word.text == case.word]
    if len(said) <= number:
        return False
    return edit_distance(said[number], case.right) < edit_distance(said[number], case.wrong)


def edit_distance(left: str, right: str) -> int:
    row = list(range(len(right) + 1))
    for index, sign in enumerate(left, 1):
        before, row[0] = row[0], index
        for at, other in enumerate(right, 1):
            before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (sign != other))
    return row[-1]


def run(hardware: str) -> list[Row]:
    from hibari.g2p import G2P

    ours = EnglishReader(discover(os.environ).cpu_device).read
    package = G2P()

    def theirs(text: str) -> Sequence[Any]:
        tokens: Sequence[Any] = package.phonemize_tokens(package.tokenize(text))
        return tokens

    rows = []
    cases = list(read_homographs())
    for part in ("develop", "check"):
        some = [case for case in cases if case.part == part]
        right, before = (sum(is_right(case, read) for case in some) for read in (ours, theirs))
        rows.append(
            Row(f"homographs read right of {len(some)} ({part})", right, "words", before,
                "hibari's own reader", low=1.0, judge="ratio")
        )  # fmt: skip
    path = os.environ.get("BENCHMARK_CMUDICT")
    if path:
        rows.append(_word_errors(Path(path), ours, theirs))
    return rows


Reader = Callable[[str], Sequence[Any]]


def _word_errors(path: Path, ours: Reader, theirs: Reader) -> Row:
    words: dict[str, list[str]] = {}
    for line in path.read_text(encoding="latin-1").splitlines():
        written, _, phones = line.partition(" ")
        word = re.sub(r"\(\d\)$", "", written)
        if word.isascii() and word.isalpha():
            plain = (phone.rstrip("012") for phone in phones.partition("#")[0].split())
            words.setdefault(word, []).append("".join(_ARPABET[phone] for phone in plain))
    drawn = random.Random(SEED).sample(sorted(words), NUM_WORDS)
    some = {word: words[word] for word in drawn}
    return Row(f"phoneme errors in {NUM_WORDS} words of CMUdict, seed {SEED}",
               _error_rate(some, ours), "%", _error_rate(some, theirs), "hibari's own reader",
               high=1.0, judge="ratio")  # fmt: skip


def _error_rate(words: dict[str, list[str]], read: Reader) -> float:
    """Percent of phonemes, against the nearest of a word's readings."""
    num_errors = num_phonemes = 0
    for word, readings in words.items():
        said = "".join(one.phonemes or "" for one in read(word)).translate(_SAME)
        distances = [(edit_distance(said, one.translate(_SAME)), len(one)) for one in readings]
        errors, length = min(distances)
        num_errors, num_phonemes = num_errors + errors, num_phonemes + length
    return 100 * num_errors / num_phonemes
