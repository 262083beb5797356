"""How many sentences are read as a good narrator reads them.

    python tests/reading/score.py [FILE.tsv ...]      # the score of each class, and the failures

A row is id, class, language, text and wanted reading. In the text `\\n` is a line break. In the
reading ` | ` separates sentences, `{November third/the third of November}` are readings that are
equally good, and ` || ` separates whole readings. Case, commas, hyphens and quotation marks do not
matter, nor the "and" of "one hundred and five"; how a sentence ends does.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

FOLDER = Path(__file__).parent
_CHOICE = re.compile(r"\{([^{}]*)\}")
_QUOTES = "\"'“”‘’«»()[] "
_AND = re.compile(r"(hundred|thousand|illion) and(?= )")


@dataclass(frozen=True)
class Case:
    id: str
    kind: str
    language: str
    text: str
    reading: str

    def readings(self) -> Iterator[list[list[str]]]:
        """Each whole reading, as sentences with their equally good forms."""
        for reading in self.reading.split(" || "):
            yield [_expand(sentence) for sentence in reading.split(" | ")]


def read_cases(path: Path) -> list[Case]:
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()[1:]]
    return [
        Case(name, kind, language, text.replace("\\n", "\n").replace("\\\\", "\\"), reading)
        for name, kind, language, text, reading in rows
    ]


def read_aloud(text: str, language: str) -> list[str]:
    """The sentences of a text as they are spoken."""
    from anyrig.speech.prepare import SpeechOptions, prepare

    script = prepare(text, SpeechOptions(max_chars=2000, language=language, join_words=0))
    return [segment.spoken for segment in script.segments]


def count_right(case: Case) -> tuple[int, int, list[str]]:
    """Sentences read right, sentences wanted, and what was read."""
    spoken = read_aloud(case.text, case.language)
    best, wanted = 0, 1
    for sentences in case.readings():
        left = Counter(normalize(sentence) for sentence in spoken)
        right = 0
        for forms in sentences:
            heard = next((form for form in map(normalize, forms) if left[form]), None)
            if heard is not None:
                left[heard] -= 1
                right += 1
        if right / len(sentences) >= best / wanted:
            best, wanted = right, len(sentences)
    return best, wanted, spoken


def score(paths: Sequence[Path]) -> tuple[dict[str, tuple[int, int]], list[tuple[Case, list[str]]]]:
    """Right and wanted sentences of each class, and the cases that were read wrong."""
    classes: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    failures = []
    for path in paths:
        for case in read_cases(path):
            right, wanted, spoken = count_right(case)
            name = f"{case.language} {case.kind}"
            classes[name] = (classes[name][0] + right, classes[name][1] + wanted)
            if right < wanted:
                failures.append((case, spoken))
    return dict(classes), failures


def normalize(sentence: str) -> str:
    """A sentence without what people do not hear, and the sign at its end."""
    bare = sentence.lower().rstrip(_QUOTES)
    end = {"!": "!", "?": "?", "…": ".", ".": "."}.get(bare[-1:], "")
    words = re.sub(r"[-‐‑–—]", " ", bare.replace("’", "'"))
    words = re.sub(r"[^\w' ]|(?<!\w)'|'(?!\w)|_", "", words)
    return _AND.sub(r"\1", " ".join(words.split())) + end


def _expand(sentence: str) -> list[str]:
    parts = _CHOICE.split(sentence)
    choices = [part.split("/") if number % 2 else [part] for number, part in enumerate(parts)]
    return ["".join(chosen) for chosen in product(*choices)]


def main() -> None:
    paths = [Path(name) for name in sys.argv[1:]] or sorted(FOLDER.glob("*.tsv"))
    classes, failures = score(paths)
    for case, spoken in failures:
        print(f"{case.id}  {case.text!r}")
        print(f"    wanted {case.reading}")
        print(f"    spoken {' | '.join(spoken)}")
    for name, (right, wanted) in classes.items():
        print(f"{right:4d} of {wanted:4d}  {name}")
    right = sum(right for right, _ in classes.values())
    wanted = sum(wanted for _, wanted in classes.values())
    print(f"{right:4d} of {wanted:4d}  in all ({right / wanted:.1%})")


if __name__ == "__main__":
    main()
