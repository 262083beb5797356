"""Files to the analysis of all of them together: the recipe, step by step.

    found = analyse_files(files, root=folder, read=partial(read_all, ocr=ocr), model=model)

A file that cannot be read is named in the result, and the others go on.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.documents.analyse import clusters, duplicates, phrases, space
from anyrig.documents.analyse.clusters import Clustering
from anyrig.documents.analyse.digest import (
    DocumentDigest,
    FileFacts,
    Share,
    Statistics,
    digest_document,
    share_languages,
)
from anyrig.documents.analyse.duplicates import DuplicateGroup
from anyrig.documents.analyse.phrases import KeyPhrase
from anyrig.documents.reading import build_textless_error
from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.text.labels import one_line
from anyrig.text.sandbox import ReadError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.documents.protocol import Vectors
    from anyrig.text.document import Document

PHRASES = 10
_REFINED = 24
_SIMILAR = 20
_FOLDER_PHRASES = 24
_PLENTY = 3.0
"""The weight from which on a phrase of a folder counts fully: one that stands once has a third."""
_COMPARED = 40  # pairs of near-duplicates whose differences are looked at
Done = Callable[[str], None]
"""Told what is done next, once for each document of each step."""


@dataclass(frozen=True)
class UnreadDocument:
    """A file that could not be read."""

    name: str
    error: AnyrigError


@dataclass(frozen=True)
class AnalysedDocument:
    """A document of the analysis."""

    facts: FileFacts
    language: str
    languages: tuple[Share, ...]
    statistics: Statistics
    phrases: tuple[KeyPhrase, ...]
    cluster: int
    """Its place in `clusters`."""
    place: tuple[float, float]
    """On the map, -1 to 1 both ways."""


@dataclass(frozen=True)
class Analysis:
    """What a folder holds."""

    title: str
    docs: tuple[AnalysedDocument, ...]
    languages: tuple[Share, ...]
    phrases: tuple[KeyPhrase, ...]
    """Of the whole; `count` is how often each stands in all documents."""
    clustering: Clustering
    groups: tuple[DuplicateGroup, ...]
    left: tuple[UnreadDocument, ...]
    model: str
    """Whose vectors were used; empty for none: words alone."""
    similar: tuple[tuple[int, float], ...] = ()
    """The documents most like the one that was named."""
    similar_to: int | None = None


def analyse(
    digests: Sequence[DocumentDigest],
    *,
    title: str,
    left: Iterable[UnreadDocument] = (),
    vectors: Vectors | None = None,
    seed: int = 0,
    similar_to: int | None = None,
    done: Done = lambda _: None,
) -> Analysis:
    """The analysis of documents that were read.

    Args:
        digests: of the documents, in the order in which they are shown.
        title: of the whole.
        left: what could not be read.
        vectors: the model, if one is to be used.
        seed: of the clusters' starts.
        similar_to: the document whose neighbours are wanted.
        done: told as each document is through its longest step.
    """
    points = points_of(digests, vectors, done)
    found = phrases_of(digests, points, vectors)
    done("comparing the documents")
    labels, silhouette = clusters.divide_documents(points, seed=seed)
    grouped = clusters.name_clusters(points, labels, found) if digests else []
    groups = duplicates.group_duplicates([one.shingled for one in digests])
    similar = () if similar_to is None else space.find_nearest(points, similar_to, _SIMILAR)
    return Analysis(
        title,
        _docs(digests, points, found, grouped),
        share_languages(digests),
        tuple(folder_phrases(found, digests)),
        Clustering(tuple(grouped), silhouette),
        tuple(_with_changes(groups, digests)),
        tuple(left),
        vectors.model.name if vectors is not None else "",
        tuple(similar),
        similar_to,
    )


def _docs(
    digests: Sequence[DocumentDigest],
    points: NDArray[np.float32],
    found: Sequence[Sequence[KeyPhrase]],
    grouped: Sequence[clusters.Cluster],
) -> tuple[AnalysedDocument, ...]:
    where = {index: place for place, one in enumerate(grouped) for index in one.members}
    places = space.project_flat(points)
    return tuple(
        AnalysedDocument(
            one.facts, one.language, one.languages, one.statistics, tuple(found[index]),
            where[index], (float(places[index][0]), float(places[index][1])),
        )
        for index, one in enumerate(digests)
    )  # fmt: skip


def points_of(
    digests: Sequence[DocumentDigest], vectors: Vectors | None, done: Done = lambda _: None
) -> NDArray[np.float32]:
    """The documents as points."""
    import numpy as np

    if vectors is None or not digests:
        return space.build_lexical_points([one.candidates.terms for one in digests])
    through = iter(digests)
    rows = space.embed_documents(
        (one.passages for one in digests),
        vectors,
        lambda: done(f"vectors of {next(through).facts.name}"),
    )
    return np.stack(list(rows))


def frequencies(digests: Sequence[DocumentDigest]) -> dict[str, Counter[str]]:
    """By language: in how many documents each stem stands; copies count once."""
    found: dict[str, Counter[str]] = {}
    seen: set[str] = set()
    for one in digests:
        if one.shingled.digest not in seen:
            seen.add(one.shingled.digest)
            found.setdefault(one.language, Counter()).update(one.candidates.terms.keys())
    return found


def phrases_of(
    digests: Sequence[DocumentDigest],
    points: NDArray[np.float32],
    vectors: Vectors | None,
) -> list[list[KeyPhrase]]:
    """The key phrases of each document, weighed against the others in its language."""
    known = frequencies(digests)
    num_texts = Counter(one.language for one in digests)
    ranked = [
        phrases.rank(
            one.candidates, one.language,
            frequencies=known.get(one.language), num_texts=num_texts[one.language],
        )
        for one in digests
    ]  # fmt: skip
    if vectors is None:
        return [own[:PHRASES] for own in ranked]
    return _refine_phrases(ranked, points, vectors)


def _refine_phrases(
    ranked: Sequence[Sequence[KeyPhrase]],
    points: NDArray[np.float32],
    vectors: Vectors,
) -> list[list[KeyPhrase]]:
    """The same, by the vectors of the best; each phrase of the folder is embedded once."""
    import numpy as np

    texts = sorted({phrase.text for own in ranked for phrase in own[:_REFINED]})
    if not texts:
        return [list(own) for own in ranked]
    rows: Mapping[str, int] = {text: row for row, text in enumerate(texts)}
    made = np.asarray(vectors.matrix(texts))
    found = []
    for own, point in zip(ranked, points, strict=True):
        best = list(own[:_REFINED])
        if not best:
            found.append(best)
            continue
        mine = made[[rows[phrase.text] for phrase in best]]
        found.append(phrases.refine_phrases(best, mine, point, most=PHRASES))
    return found


def folder_phrases(
    found: Sequence[Sequence[KeyPhrase]], digests: Sequence[DocumentDigest]
) -> list[KeyPhrase]:
    """The phrases of a folder: those that weigh in several documents before those of one.

    Of equals, which stand once in a single document, the first document's come first.
    """
    scores: dict[tuple[str, ...], float] = defaultdict(float)
    written: dict[tuple[str, ...], Counter[str]] = {}
    for own in found:
        for phrase in own:
            key = clusters.key_of(phrase)
            scores[key] += phrase.score * math.log2(1.0 + phrase.count)
            written.setdefault(key, Counter())[phrase.text] += 1
    counts: Counter[tuple[str, ...]] = Counter()
    for one in digests:
        for each in one.candidates.found:
            if each.stems in scores:
                counts[each.stems] += each.count
    for key in scores:  # what stands in documents of which it is no key phrase counts a little
        scores[key] *= 1.0 + 0.25 * math.log2(max(1, counts[key]))
    order = sorted(scores, key=lambda key: -scores[key])[:_FOLDER_PHRASES]
    best = max(scores[order[0]], _PLENTY) if order else 1.0
    return [
        KeyPhrase(max(written[key], key=lambda text: (written[key][text], text)),
               scores[key] / best, max(1, counts[key]))
        for key in order
    ]  # fmt: skip


def _with_changes(
    groups: Sequence[DuplicateGroup], digests: Sequence[DocumentDigest]
) -> list[DuplicateGroup]:
    """The groups with what differs, for the first of them."""
    found, compared = [], 0
    for group in groups:
        members = []
        for member in group.members:
            if not member.exact and compared < _COMPARED:
                compared += 1
                first, other = digests[group.first], digests[member.index]
                shown, count = duplicates.list_changes(first.text, other.text, first.language)
                member = replace(member, changes=shown, num_changes=count)
            members.append(member)
        found.append(replace(group, members=tuple(members)))
    return found


# -- files -----------------------------------------------------------------------------------------

Read = Callable[[Sequence[Path]], Iterable["Document | ReadError"]]
"""Files to pages, in order, one for one."""
Open = Callable[[Mapping[str, float]], "Vectors"]
"""The model for texts in languages of such shares: it is chosen once they are known."""
OnStep = Callable[[str, int, int], None]
"""What is done, how many steps are through, and of how many."""


def analyse_files(
    files: Sequence[Path],
    *,
    read: Read,
    root: Path | None = None,
    title: str = "",
    model: Open | None = None,
    similar_to: Path | None = None,
    seed: int = 0,
    on_step: OnStep = lambda *_: None,
) -> Analysis:
    """What files hold, each and together.

    Args:
        files: in the order in which they are shown.
        read: opens them; an `ReadError` goes among those left out.
        root: the folder that names are shown from.
        title: of the report; the folder's name without it.
        model: opens the model to compare by; words alone without one.
        similar_to: one of the files, or another one, whose neighbours are wanted.
        seed: of the clusters' starts.
        on_step: receives how far it is.
    """
    wanted = _with(files, similar_to)
    total = len(wanted) * (2 if model is not None else 1) + 1
    left: list[UnreadDocument] = []
    digests: list[DocumentDigest] = []
    if wanted:
        on_step(f"reading {one_line(wanted[0].name, 80)}", 0, total)
    for number, (path, one) in enumerate(zip(wanted, read(wanted), strict=True), 1):
        report = partial(on_step, f"reading {one_line(path.name, 80)}")
        step = partial(report, number - 1, total)
        digests.extend(_digest_file(path, one, root, model is not None, left, step))
        report(number, total)
    steps = iter(range(len(wanted) + 1, total + 2 * len(wanted) + 2))
    chosen = _index(digests, similar_to, left)
    shares = {one.language: one.share for one in share_languages(digests)}
    return analyse(
        digests,
        title=one_line(title or (root.resolve().name if root else ""), 200) or "Documents",
        left=left,
        vectors=model(shares) if model is not None and digests else None,
        seed=seed,
        similar_to=chosen,
        done=lambda what: on_step(what, min(total - 1, next(steps)), total),
    )


def _with(files: Sequence[Path], named: Path | None) -> list[Path]:
    known = {_real(path) for path in files}
    return [*files, *([named] if named is not None and _real(named) not in known else [])]


def _digest_file(
    path: Path,
    one: Document | ReadError,
    root: Path | None,
    vectors: bool,
    left: list[UnreadDocument],
    on_step: Callable[[], None],
) -> Iterator[DocumentDigest]:
    name = show_name(path, root)
    if isinstance(one, ReadError):
        left.append(UnreadDocument(name, one.error))
    elif not any(map(str.isalnum, one.text)):
        left.append(UnreadDocument(name, build_textless_error(one)))
    else:
        yield digest_document(one, name=name, vectors=vectors, on_step=on_step)


def _index(
    digests: Sequence[DocumentDigest], named: Path | None, left: Sequence[UnreadDocument]
) -> int | None:
    """Where the file stands whose neighbours are wanted; an error if it could not be read."""
    if named is None:
        return None
    for index, one in enumerate(digests):
        if _real(one.facts.path) == _real(named):
            return index
    name = one_line(named.name, 200)
    error = next((one.error for one in left if one.name.endswith(name)), None)
    reason = one_line(error.message, 300) if error else "it was not read"
    hint = (error.hint if error else "") or "Name a file with text in it."
    raise InvalidInputError(f"{name} cannot be compared: {reason}", hint=hint)


def show_name(path: Path, root: Path | None) -> str:
    """A file's name within the folder, as one harmless line."""
    try:
        inside = path.relative_to(root) if root is not None else Path(path.name)
    except ValueError:
        inside = path
    return one_line(inside.as_posix(), 200) or "(a name without letters)"


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path
