"""Which sentences say most of a text: a walk over their likeness, and no two that say the same.

A sentence is central when many others are like it and are central themselves (LexRank). Likeness is
that of words that are rare in the text, and of vectors where there is a model. What stands first in
the text or in its paragraph gets a head start, as writers put there what matters.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from anyrig.documents.analyse.stop_words import is_stop
from anyrig.documents.analyse.words import plain, stem, words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_DAMPING = 0.7
_ROUNDS = 100
_LIKE = 0.03  # below this, likeness is chance
_VECTORS = 0.5
_FEWEST, _SHORT, _LONG = 5, 9, 45  # words
# Words that say of a sentence that it sums up.
_CUES = {
    "en": "short sum conclusion overall therefore result results study report finding findings "
    "found shows suggests recommend recommends propose proposes important main key however",
    "es": "resumen conclusión tanto resultado resultados estudio informe muestra clave principal "
    "recomienda propone importante embargo",
    "fr": "résumé conclusion donc résultat résultats étude enquête rapport montre recommande "
    "propose principal important cependant",
}
# What leans on the sentence before: taken alone it hangs in the air.
_LEANING = {
    "en": "he she it they this that these those his her its their such both another others some "
    "one here there then and but or nor nobody",
    "es": "él ella ellos ellas esto esta este eso esa ese estos estas su sus aquello otros otras "
    "algunos algunas y pero o ni nadie aquí allí entonces",
    "fr": "il elle ils elles ce cela ceci cette ces cet son sa ses leur leurs d'autres certains "
    "certaines et mais ou ni personne ici là alors elle l'un l'une",
}  # fmt: skip
_PRONE = re.compile(r"[?]\W*\Z|\A\W*[-–—«\"“‘'`]")


def terms(sentence: str, language: str) -> Counter[str]:
    """The telling words of a sentence, counted."""
    said = (plain(word.text) for word in words(sentence))
    return Counter(stem(word) for word in said if not is_stop(word.rstrip("'"), language))


def likeness(bags: Sequence[Counter[str]], vectors: NDArray[np.float32] | None = None) -> Floats:
    """How alike each two sentences are, 0 to 1."""
    import numpy as np

    in_sentences = Counter(term for bag in bags for term in bag)
    columns = {term: number for number, term in enumerate(sorted(in_sentences))}
    rows = np.zeros((len(bags), max(1, len(columns))), np.float64)
    for row, bag in enumerate(bags):
        for term, count in bag.items():
            rare = math.log(1.0 + len(bags) / in_sentences[term])
            rows[row, columns[term]] = count * rare
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.where(size > 0, size, 1.0)
    alike: Floats = rows @ rows.T
    if vectors is not None:
        near = np.maximum(0.0, (vectors @ vectors.T).astype(np.float64))
        alike = (1.0 - _VECTORS) * alike + _VECTORS * near**2
    return alike


def central(alike: Floats, start: Floats) -> Floats:
    """How often a walk from sentence to like sentence comes by each; the mean is 1.

    Args:
        alike: of each two.
        start: where the walk begins anew, in any scale.
    """
    import numpy as np

    count = len(alike)
    links = np.where(alike > _LIKE, alike, 0.0)
    np.fill_diagonal(links, 0.0)
    begin = start / start.sum()
    out = links.sum(axis=1, keepdims=True)
    steps = np.where(out > 0, links / np.where(out > 0, out, 1.0), begin)
    here = begin.copy()
    for _ in range(_ROUNDS):
        following = _DAMPING * (here @ steps) + (1.0 - _DAMPING) * begin
        if float(np.abs(following - here).sum()) < 1e-9:
            break
        here = following
    scaled: Floats = here * count
    return scaled


def head_starts(firsts: Sequence[bool]) -> Floats:
    """What position alone gives each sentence: the first third of a text, and new paragraphs."""
    import numpy as np

    count = len(firsts)
    place = np.arange(count) / max(1, count)
    early = 1.0 + 0.5 * np.exp(-3.0 * place)
    bonus = 1.15 if sum(firsts) < count else 1.0
    opens = np.array([bonus if first else 1.0 for first in firsts])
    starts: Floats = early * opens
    return starts


def worth(sentence: str, bag: Counter[str], language: str) -> float:
    """What the shape of a sentence says of it, about 1; 0 for what is no sentence to quote."""
    said = [plain(word.text) for word in words(sentence)]
    letters = sum(map(str.isalpha, sentence))
    if len(said) < _FEWEST or letters < 0.5 * len(sentence.replace(" ", "")) or not bag:
        return 0.0
    base = language.partition("-")[0]
    value = min(1.0, 0.4 + 0.6 * sum(bag.values()) / _SHORT)
    value *= 1.0 if len(said) <= _LONG else _LONG / len(said)
    if any(word in _CUES.get(base, "").split() for word in said):
        value *= 1.15
    if said[0] in _LEANING.get(base, "").split():
        value *= 0.75
    if any(map(str.isdigit, sentence)):
        value *= 1.08
    if _PRONE.search(sentence):
        value *= 0.7  # a question, a piece of talk
    return value


def picked(scores: Floats, alike: Floats, sizes: Sequence[int], room: int) -> list[int]:
    """The best sentences that fit, by worth less likeness to those taken; in order of choice.

    Args:
        scores: of each; those of 0 are never taken.
        alike: of each two.
        sizes: what each takes of the room: 1, or its words.
        room: how much there is.
    """
    import numpy as np

    top = float(scores.max()) if len(scores) else 0.0
    taken: list[int] = []
    left = [n for n in range(len(scores)) if scores[n] > 0]
    while left and top > 0:
        closest = alike[np.ix_(left, taken)].max(axis=1) if taken else np.zeros(len(left))
        gains = scores[left] / top * (1.0 - 0.8 * closest)
        best = left.pop(int(gains.argmax()))
        if sizes[best] > room:
            if not taken and not any(sizes[n] <= room for n in left):
                return [best]  # one sentence at least, even if it is too long
            continue
        room -= sizes[best]
        taken.append(best)
        if room <= 0:
            break
    return taken
