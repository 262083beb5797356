"""Summaries and key phrases of texts whose important sentences were marked by hand, beside peers.

Ten short texts in English, Spanish and French (tests/documents/marked): three sentences of each are
marked, and ten phrases. Peers: the first three sentences; the most frequent words that are not stop
words; sentences by their mean cosine under all-MiniLM-L6-v2, where sentence-transformers is
installed.
"""

from __future__ import annotations

import importlib.util
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from anyrig.documents.analyse import phrases
from anyrig.documents.analyse.folder import analyse_files
from anyrig.documents.reading import read_all
from anyrig.documents.summarise.extract import Length, extract
from anyrig.documents.words import is_stop, plain, words
from anyrig.text.folder import find
from anyrig.text.tokens import split_text
from benchmarks.embedding_models import find_minilm_package
from benchmarks.harness import Row
from benchmarks.processes import cpu_seconds
from benchmarks.texts import read_novel
from tests.documents.marked_texts import Marked, load, matches, stems

NUM_FILES = 1000
_NUM_SENTENCES, _NUM_PHRASES = 3, 10
Choose = Callable[[Marked], Sequence[str]]


def run(hardware: str) -> list[Row]:
    texts = load()
    spread = f"{len(texts)} texts"
    first = _sentence_recall(texts, lambda one: one.sentences[:_NUM_SENTENCES])
    ours = _sentence_recall(texts, _extract)
    rows = [
        Row("marked sentences found, by words alone", ours, "", first, "the first three sentences",
            low=1.5, judge="ratio", spread=spread),
        Row("marked phrases among the first ten, word for word", _exact_share(texts, _phrases), "",
            _exact_share(texts, _frequent_words), "the most frequent words", low=1.5,
            judge="ratio", spread=spread),
        Row("marked phrases among the first ten, half of their words",
            _similar_share(texts, _phrases), "", _similar_share(texts, _frequent_words),
            "the most frequent words", spread=spread),
    ]  # fmt: skip
    return [*rows, *_beside_vectors(texts, ours), _analyse_folder()]


def _extract(one: Marked) -> Sequence[str]:
    found = extract(one.document, length=Length(sentences=_NUM_SENTENCES))
    return [sentence.text for sentence in found.taken]


def _sentence_recall(texts: Sequence[Marked], choose: Choose) -> float:
    hits = sum(sentence in one.salient for one in texts for sentence in choose(one))
    return hits / sum(len(one.salient) for one in texts)


def _phrases(one: Marked) -> list[str]:
    found = phrases.candidates(one.text, split_text(one.text, one.language), one.language)
    return [phrase.text for phrase in phrases.rank(found, one.language)[:_NUM_PHRASES]]


def _frequent_words(one: Marked) -> list[str]:
    all_words = (plain(word.text) for word in words(one.text))
    counts = Counter(word for word in all_words if not is_stop(word.rstrip("'"), one.language))
    return [word for word, _ in counts.most_common(_NUM_PHRASES)]


def _similar_share(texts: Sequence[Marked], choose: Choose) -> float:
    return statistics.mean(
        sum(matches(phrase, one.phrases) for phrase in choose(one)) / _NUM_PHRASES for one in texts
    )


def _exact_share(texts: Sequence[Marked], choose: Choose) -> float:
    return statistics.mean(
        sum(stems(phrase) in map(stems, one.phrases) for phrase in choose(one)) / _NUM_PHRASES
        for one in texts
    )


def _beside_vectors(texts: Sequence[Marked], ours: float) -> list[Row]:
    """The peer that most people write: sentences nearest to all others under a model."""
    weights = find_minilm_package()
    if weights is None or not importlib.util.find_spec("sentence_transformers"):
        return []
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(weights), device="cpu")

    def choose_central(one: Marked) -> list[str]:
        vectors = model.encode(list(one.sentences), normalize_embeddings=True)
        degree = (vectors @ vectors.T).mean(axis=1)
        return [one.sentences[n] for n in degree.argsort()[::-1][:_NUM_SENTENCES]]

    return [Row("marked sentences found, beside vectors", ours, "",
                _sentence_recall(texts, choose_central),
                "mean cosine under all-MiniLM-L6-v2")]  # fmt: skip


def _analyse_folder() -> Row:
    """A thousand files without vectors; CPU seconds with the processes that read them."""
    novel, rng = read_novel().split(), random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(NUM_FILES):
            starts = [rng.randrange(len(novel) - 130) for _ in range(6)]
            text = "\n\n".join(" ".join(novel[start : start + 130]) for start in starts)
            (folder / f"{number:04}.txt").write_text(text, encoding="utf-8")
        before, start_s = cpu_seconds(), time.monotonic()
        found = analyse_files(find(folder).files, root=folder, read=read_all)
        cpu_s, wall_s = cpu_seconds() - before, time.monotonic() - start_s
    assert len(found.docs) == NUM_FILES
    return Row(f"analysis of {NUM_FILES} files of 780 words, no vectors", cpu_s, "CPU s",
               high=120.0, spread=f"{wall_s:.0f} s on the clock")  # fmt: skip
