"""Documents as points: the mean of their passages' vectors, or their words where there is no model.

Both are rows of length 1, so that one product tells how alike two documents are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from anyrig.documents.ordered import iter_rows, run_ordered
from anyrig.documents.passages import split_passages

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.documents.protocol import Vectors
    from anyrig.text.document import Document

MOST_PASSAGES = 32
"""Of one document: a long one is judged by passages spread evenly over it."""
_MOST_TERMS = 3_000


def select_passages(document: Document, language: str) -> tuple[str, ...]:
    """The passages that stand for a document: those of its index, so that vectors are shared."""
    found = [passage.text for passage in split_passages(document, language=language)]
    if len(found) > MOST_PASSAGES:
        found = [found[n * len(found) // MOST_PASSAGES] for n in range(MOST_PASSAGES)]
    return tuple(found)


def embed_documents(
    texts: Iterable[Sequence[str]],
    vectors: Vectors,
    done: Callable[[], None] = lambda: None,
) -> Iterator[NDArray[np.float32]]:
    """The point of each document, from its passages; zeros for one without any."""
    import numpy as np

    from anyrig.documents.embed import document_vectors

    def join(pieces: Sequence[str], rows: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        done()
        if not rows:
            return np.zeros(vectors.model.dimension, np.float32)
        point: NDArray[np.float32] = document_vectors([pieces], [np.stack(rows)])[0]
        return point

    return run_ordered(
        texts,
        lambda pieces: (pieces, pieces),
        lambda pieces: iter_rows(vectors.embed(pieces)),
        join,
    )


def build_lexical_points(terms: Sequence[Mapping[str, int]]) -> NDArray[np.float32]:
    """Documents by the words that tell them apart: tf-idf over the commonest telling stems."""
    import numpy as np

    in_texts = Counter(term for one in terms for term in one)
    useful = [term for term, count in in_texts.items() if count > 1] or list(in_texts)
    useful.sort(key=lambda term: (-in_texts[term], term))
    columns = {term: number for number, term in enumerate(useful[:_MOST_TERMS])}
    found = np.zeros((len(terms), max(1, len(columns))), np.float32)
    for row, one in enumerate(terms):
        for term, count in one.items():
            column = columns.get(term)
            if column is not None:
                rare = np.log((1.0 + len(terms)) / (1.0 + in_texts[term])) + 0.2
                found[row, column] = (1.0 + np.log(count)) * rare
    return normalize(found)


def normalize(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows of length 1; those of length 0 stay."""
    import numpy as np

    size = np.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: NDArray[np.float32] = (rows / np.where(size > 0, size, 1.0)).astype(np.float32)
    return scaled


def condense(points: NDArray[np.float32], most: int, seed: int) -> NDArray[np.float32]:
    """The same points in their `most` main directions (a randomised SVD), again of length 1."""
    import numpy as np

    if min(points.shape) <= 2 * most:
        return points
    rng = np.random.default_rng(seed)
    sides = rng.standard_normal((points.shape[1], most + 8)).astype(np.float32)
    for _ in range(3):  # each turn leans them more towards the main directions
        sides, _ = np.linalg.qr(points.T @ (points @ sides))
    values, turn = np.linalg.eigh((seen := points @ sides).T @ seen)
    return normalize(seen @ turn[:, np.argsort(-values)[:most]])


_NOTHING = 0.0005


def find_nearest(points: NDArray[np.float32], index: int, most: int) -> list[tuple[int, float]]:
    """The documents most like one, with their cosines, the most alike first.

    One that has nothing in common with it is not like it at all, and left out.
    """
    import numpy as np

    alike = points @ points[index]
    order = np.argsort(-alike, kind="stable")
    found = [
        (int(n), float(min(1.0, alike[n]))) for n in order if n != index and alike[n] > _NOTHING
    ]
    return found[:most]


def project_flat(points: NDArray[np.float32]) -> NDArray[np.float32]:
    """Points on a plane that keeps most of their spread (principal components), within -1 to 1."""
    import numpy as np

    found = np.zeros((len(points), 2), np.float32)
    if len(points) < 2:
        return found
    centred = (points - points.mean(axis=0)).astype(np.float64)
    if len(points) <= points.shape[1]:
        values, sides = np.linalg.eigh(centred @ centred.T)
        rows = sides[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0.0))
    else:
        _, sides = np.linalg.eigh(centred.T @ centred)
        rows = centred @ sides[:, ::-1][:, :2]
    for column in range(rows.shape[1]):
        side = rows[:, column]
        largest = side[int(np.abs(side).argmax())]
        # A component has no sign of its own: one is chosen, so that two runs draw one map.
        found[:, column] = side * (-1.0 if largest < 0 else 1.0)
        found[:, column] = _spread(found[:, column])
    return found


def _spread(side: NDArray[np.float32]) -> NDArray[np.float32]:
    """Values within -1 to 1, half by their size and half by their rank: one outlier must not press
    all others into a heap.
    """
    import numpy as np

    low, high = float(side.min()), float(side.max())
    if high - low < 1e-9:
        return np.zeros_like(side)
    size = 2.0 * (side - low) / (high - low) - 1.0
    values, places = np.unique(np.round(side, 5), return_inverse=True)
    rank = 2.0 * places / max(1, len(values) - 1) - 1.0
    return ((size + rank) / 2.0).astype(np.float32)
