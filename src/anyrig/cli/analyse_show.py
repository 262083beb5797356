"""An analysis on a terminal, and as data for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from anyrig.cli.show import paint, table
from anyrig.units import format_bytes, format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.documents.analyse.folder import Analysis, Doc
    from anyrig.documents.analyse.phrases import Phrase

_MOST_CLUSTERS = 12
_MOST_COPIES = 8
_MOST_SIMILAR = 20


def printed(found: Analysis) -> str:
    """The whole in a screen or so."""
    parts = [_head(found)]
    if len(found.docs) == 1:
        parts.append(_one(found.docs[0]))
    elif found.docs:
        parts += [_phrases(found), _clusters(found), _copies(found), _passages(found)]
    parts.append(_similar(found))
    return "\n\n".join(filter(None, parts))


def _head(found: Analysis) -> str:
    from anyrig.documents.analyse.report import summary

    num_words = sum(doc.statistics.num_words for doc in found.docs)
    lines = [
        paint(found.title, "bold"),
        f"{pluralize(len(found.docs), 'document')} ({summary(found)}), "
        f"{format_bytes(sum(doc.facts.num_bytes for doc in found.docs))}, {num_words:,} words, "
        f"{format_duration(sum(doc.statistics.reading_s for doc in found.docs))} to read",
        "languages: " + ", ".join(f"{one.language} {one.share:.0%}" for one in found.languages[:8]),
    ]
    days = sorted(doc.facts.day for doc in found.docs if doc.facts.day)
    if days and days[0] != days[-1]:
        lines.append(f"dates: {days[0]} to {days[-1]}")
    by = f"vectors of {found.model}" if found.model else "words in common"
    if len(found.docs) > 1:
        lines.append(f"compared by: {by}")
    return "\n".join(lines)


def _one(doc: Doc) -> str:
    """Everything on a single document."""
    told = doc.statistics
    lines = [
        f"{told.num_sentences} sentences of {told.words_a_sentence:.1f} words, "
        f"words of {told.letters_a_word:.1f} letters, {told.distinct:.0%} of them different"
    ]
    if told.ease is not None:
        lines.append(f"reading ease {told.ease:.0f} of 100, {told.level} ({told.formula})")
    lines.append("key phrases: " + ", ".join(phrase.text for phrase in doc.phrases))
    if told.longest:
        first = told.longest[0]
        lines.append(f"longest sentence, {first.num_words} words: {first.text[:160]}")
    return "\n".join(lines)


def _phrases(found: Analysis) -> str:
    return "key phrases: " + ", ".join(phrase.text for phrase in found.phrases[:12])


def _clusters(found: Analysis) -> str:
    if not found.clustering.stands_out:
        return "clusters: none stand out"
    lines = [paint("clusters", "bold")]
    for number, cluster in enumerate(found.clustering.clusters[:_MOST_CLUSTERS], 1):
        names = ", ".join(found.docs[index].facts.name for index in cluster.members[:3])
        more = f" and {len(cluster.members) - 3} more" if len(cluster.members) > 3 else ""
        lines.append(f"{number:>3}. {cluster.name} ({len(cluster.members)}: {names}{more})")
    left = len(found.clustering.clusters) - _MOST_CLUSTERS
    return "\n".join([*lines, *([f"     and {left} more"] if left > 0 else [])])


def _copies(found: Analysis) -> str:
    rows = [
        [found.docs[member.index].facts.name,
         "the same as" if member.exact else f"{member.similarity:.0%} like",
         found.docs[group.first].facts.name]
        for group in found.groups for member in group.members
    ]  # fmt: skip
    if not rows:
        return "near-duplicates: none"
    more = f"\nand {len(rows) - _MOST_COPIES} more" if len(rows) > _MOST_COPIES else ""
    return paint("near-duplicates", "bold") + "\n" + table(rows[:_MOST_COPIES]) + more


def _passages(found: Analysis) -> str:
    if not found.shared:
        return ""
    lines = [
        f"{found.docs[one.first].facts.name} and {found.docs[one.second].facts.name}: "
        f"about {one.num_words} words"
        for one in found.shared[:_MOST_COPIES]
    ]
    return "\n".join([paint("passages in common", "bold"), *lines])


def _similar(found: Analysis) -> str:
    if found.similar_to is None:
        return ""
    name = found.docs[found.similar_to].facts.name
    if not found.similar:
        return f"nothing here is like {name}"
    rows = [
        [f"{alike:.3f}", found.docs[index].facts.name]
        for index, alike in found.similar[:_MOST_SIMILAR]
    ]
    return paint(f"most like {name}", "bold") + "\n" + table(rows)


def plain(found: Analysis) -> dict[str, Any]:
    """The analysis as data."""
    name = [doc.facts.name for doc in found.docs]
    return {
        "title": found.title,
        "model": found.model or None,
        "num_documents": len(found.docs),
        "num_words": sum(doc.statistics.num_words for doc in found.docs),
        "languages": {one.language: round(one.share, 4) for one in found.languages},
        "phrases": [_phrase(one) for one in found.phrases],
        "clusters": [
            {"name": one.name, "phrases": list(one.phrases),
             "files": [name[n] for n in one.members]}
            for one in found.clustering.clusters
            if found.clustering.stands_out
        ],
        "silhouette": round(found.clustering.silhouette, 4),
        "duplicates": [
            {
                "file": name[group.first],
                "exact": group.exact,
                "copies": [
                    {
                        "file": name[one.index], "similarity": round(one.similarity, 4),
                        "exact": one.exact, "num_changes": one.num_changes,
                        "changes": [asdict(change) for change in one.changes],
                    }
                    for one in group.members
                ],
            }
            for group in found.groups
        ],
        "passages": [
            {"files": [name[one.first], name[one.second]], "num_words": one.num_words,
             "text": one.text}
            for one in found.shared
        ],
        "documents": [_document(found, doc) for doc in found.docs],
        "similar": _neighbours(found, name),
    }  # fmt: skip


def _neighbours(found: Analysis, name: list[str]) -> dict[str, Any] | None:
    if found.similar_to is None:
        return None
    rows = [{"file": name[index], "cosine": round(alike, 4)} for index, alike in found.similar]
    return {"to": name[found.similar_to], "files": rows}


def _phrase(one: Phrase) -> dict[str, Any]:
    return {"text": one.text, "score": round(one.score, 4), "count": one.count}


def _document(found: Analysis, doc: Doc) -> dict[str, Any]:
    told = asdict(doc.statistics)
    return {
        "file": doc.facts.name,
        "path": str(doc.facts.path),
        "format": doc.facts.format,
        "num_bytes": doc.facts.num_bytes,
        "date": doc.facts.day or None,
        "dated_by": doc.facts.dated_by or None,
        "num_pages": doc.facts.num_pages,
        "read_by": doc.facts.read_by,
        "language": doc.language,
        "languages": {one.language: round(one.share, 4) for one in doc.languages},
        "phrases": [_phrase(one) for one in doc.phrases],
        "cluster": found.clustering.clusters[doc.cluster].name
        if found.clustering.stands_out
        else None,
        "place": [round(side, 4) for side in doc.place],
        "warnings": list(doc.facts.warnings),
        **{key: round(one, 4) if isinstance(one, float) else one for key, one in told.items()},
    }
