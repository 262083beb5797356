"""The analysis as one page of HTML: plots with their numbers beneath, and every document.

One file that fetches nothing and runs nothing: its policy forbids scripts, so that whatever a
document or its name says stays text. The same analysis gives the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from anyrig.documents.analyse import report_figures as figures
from anyrig.documents.analyse.draw import COLOURS, escaped
from anyrig.documents.analyse.duplicates import Member, counted
from anyrig.documents.analyse.folder import Analysis, Doc
from anyrig.documents.analyse.report_style import STYLE
from anyrig.units import format_bytes, format_duration, pluralize

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_MOST_ROWS = 1_000
_MOST_GROUPS = 40


def html(found: Analysis) -> str:
    """The page."""
    left = [_map(found), _clusters(found), figures.lengths(found), figures.duplicates(found)]
    right = [
        figures.phrases(found), figures.languages(found), figures.timeline(found),
        figures.formats(found),
    ]  # fmt: skip
    tables = [
        _similar(found),
        _differences(found),
        _passages(found),
        _reading(found),
        _documents(found),
        _left(found),
    ]
    title = escaped(found.title)
    return "\n".join(
        [
            "<!DOCTYPE html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{title}: what it holds</title>',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<style>{STYLE}</style></head><body><main>",
            f"<h1>{title}</h1>",
            f'<p class="dim">{escaped(_subtitle(found))}</p>',
            _tiles(found),
            '<div class="plots">',
            f"<div>{''.join(left)}</div><div>{''.join(right)}</div>",
            "</div>",
            *filter(None, tables),
            f"<footer>{escaped(_footer(found))}</footer>",
            "</main></body></html>",
            "",
        ]
    )


def _subtitle(found: Analysis) -> str:
    days = sorted(doc.facts.day for doc in found.docs if doc.facts.day)
    span = f", from {days[0]} to {days[-1]}" if days and days[0] != days[-1] else ""
    left = f"; {pluralize(len(found.left), 'file')} could not be read" if found.left else ""
    return f"{pluralize(len(found.docs), 'document')}{span}{left}"


def _footer(found: Analysis) -> str:
    by = f"vectors of {found.model}" if found.model else "the words they have in common"
    return f"Made by anyrig. Documents are compared by {by}. Dates are in UTC."


def _tiles(found: Analysis) -> str:
    num_words = sum(doc.statistics.num_words for doc in found.docs)
    reading_s = sum(doc.statistics.reading_s for doc in found.docs)
    copies = counted(found.groups)
    tiles = [
        (f"{len(found.docs):,}", "documents"),
        (f"{num_words:,}", "words"),
        (format_duration(reading_s) if reading_s else "0 s", "to read"),
        (format_bytes(sum(doc.facts.num_bytes for doc in found.docs)), "of files"),
        (f"{len(found.languages)}", "languages" if len(found.languages) != 1 else "language"),
        (f"{len(found.clustering.clusters) if found.clustering.stands_out else 0}", "clusters"),
        (f"{sum(copies.values())}", "copies"),
    ]
    rows = (f"<li><b>{escaped(value)}</b><span>{what}</span></li>" for value, what in tiles)
    return f'<ul class="tiles">{"".join(rows)}</ul>'


def _map(found: Analysis) -> str:
    if len(found.docs) < 2:
        return ""
    plot = figures.map_of(found)
    told = "Near together means alike"
    told += "; the numbers are those of the clusters." if found.clustering.stands_out else "."
    return figures.section("Map of the documents", f'<p class="dim">{told}</p>{plot}')


def _clusters(found: Analysis) -> str:
    if not found.clustering.stands_out:
        none = '<p class="dim">None stand out.</p>'
        return figures.section("Clusters", none) if len(found.docs) > 1 else ""
    rows = []
    for number, cluster in enumerate(found.clustering.clusters):
        names = ", ".join(escaped(found.docs[index].facts.name) for index in cluster.members[:4])
        more = len(cluster.members) - 4
        names += f" and {more} more" if more > 0 else ""
        rows.append(
            f'<li><span class="chip k{number % COLOURS}">{number + 1}</span><div>'
            f"<b>{escaped(cluster.name)}</b>"
            f'<br><span class="dim">{pluralize(len(cluster.members), "document")}: {names}</span>'
            "</div></li>"
        )
    body = f'<ol class="clusters">{"".join(rows)}</ol>'
    return figures.section("Clusters", body)


def _similar(found: Analysis) -> str:
    if found.similar_to is None:
        return ""
    rows = [
        [(found.docs[index].facts.name, ""), (f"{alike:.3f}", "n")]
        for index, alike in found.similar
    ]
    name = found.docs[found.similar_to].facts.name
    if not rows:
        return figures.section(f"Most like {name}", '<p class="dim">Nothing here is.</p>')
    return figures.section(f"Most like {name}", figures.table(["document", "cosine"], rows))


def _differences(found: Analysis) -> str:
    """What differs in near-duplicates."""
    parts = []
    for group in found.groups[:_MOST_GROUPS]:
        first = escaped(found.docs[group.first].facts.name)
        members = "".join(_member(found, member) for member in group.members[:20])
        parts.append(f"<h3>{first}</h3>{members}")
    body = f"<details><summary>Where they differ</summary>{''.join(parts)}</details>"
    return figures.section("Copies, one by one", body) if parts else ""


def _member(found: Analysis, member: Member) -> str:
    name = escaped(found.docs[member.index].facts.name)
    if member.exact:
        return f"<p>{name}: the same words</p>"
    shown = "".join(
        '<span class="change">'
        + (f"<del>{escaped(change.before)}</del>" if change.before else "")
        + (f"<ins>{escaped(change.after)}</ins>" if change.after else "")
        + "</span>"
        for change in member.changes
    )
    more = member.num_changes - len(member.changes)
    rest = f'<span class="dim">and {pluralize(more, "more place")}</span>' if more > 0 else ""
    return f"<p>{name}: {member.similarity:.0%} alike{shown}{rest}</p>"


def _passages(found: Analysis) -> str:
    rows = []
    for one in found.shared[:20]:
        first, second = (escaped(found.docs[n].facts.name) for n in (one.first, one.second))
        rows.append(
            f"<p>{first} and {second}: about {one.num_words} words"
            f"<blockquote>{escaped(one.text)}</blockquote></p>"
        )
    return figures.section("Passages in common", "".join(rows)) if rows else ""


def _reading(found: Analysis) -> str:
    """The hardest documents and the longest sentences."""
    judged = [doc for doc in found.docs if doc.statistics.ease is not None]
    hardest = sorted(judged, key=lambda doc: (doc.statistics.ease or 0.0, doc.facts.name))[:8]
    rows = [
        [
            (doc.facts.name, ""),
            (f"{doc.statistics.ease:.0f}", "n"),
            (doc.statistics.level, ""),
            (doc.statistics.formula, ""),
            (f"{doc.statistics.words_a_sentence:.1f}", "n"),
        ]
        for doc in hardest
    ]
    body = figures.table(
        ["hardest to read", "ease", "", "formula", "words a sentence"], rows
    ) if rows else ""  # fmt: skip
    long = sorted(
        ((one.num_words, doc.facts.name, one.text) for doc in found.docs
         for one in doc.statistics.longest),
        key=lambda one: (-one[0], one[1]),
    )[:5]  # fmt: skip
    quotes = "".join(
        f"<p>{count} words, {escaped(name)}<blockquote>{escaped(text)}</blockquote></p>"
        for count, name, text in long
    )
    more = f"<details><summary>The longest sentences</summary>{quotes}</details>" if quotes else ""
    return figures.section("How they read", body + more) if body or more else ""


def _documents(found: Analysis) -> str:
    head = ["document", "type", "size", "date", "language", "words", "to read", "about"]
    rows = [_row(doc) for doc in found.docs[:_MOST_ROWS]]
    more = len(found.docs) - _MOST_ROWS
    note = f'<p class="dim">and {more:,} more, in the JSON</p>' if more > 0 else ""
    body = figures.table(head, rows, "files") + note
    return figures.section("Every document", body) if rows else ""


def _row(doc: Doc) -> list[tuple[str, str]]:
    by = "" if doc.facts.read_by == "text" else f" ({doc.facts.read_by})"
    return [
        (doc.facts.name, ""),
        (doc.facts.format + by, ""),
        (format_bytes(doc.facts.num_bytes), "n"),
        (doc.facts.day, "n"),
        (_languages(doc), ""),
        (f"{doc.statistics.num_words:,}", "n"),
        (format_duration(doc.statistics.reading_s), "n"),
        (", ".join(phrase.text for phrase in doc.phrases[:5]), "key"),
    ]


def _languages(doc: Doc) -> str:
    if len(doc.languages) == 1:
        return doc.language
    return ", ".join(f"{one.language} {one.share:.0%}" for one in doc.languages[:3])


def _left(found: Analysis) -> str:
    rows: Iterable[Sequence[tuple[str, str]]] = [
        [(one.name, ""), (one.why, "")] for one in found.left[:_MOST_ROWS]
    ]
    body = figures.table(["file", "why"], rows)
    return figures.section("What could not be read", body) if found.left else ""


def summary(found: Analysis) -> str:
    """The types of the documents in one line: `3 pdf, 2 txt`."""
    kinds = Counter(doc.facts.format or "other" for doc in found.docs)
    return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
