"""The plots of the report, each with a table of its numbers for those who do not see it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from anyrig.documents.analyse.draw import Bar, Dot, Spot, bars, columns, escaped, scatter
from anyrig.documents.analyse.folder import Analysis
from anyrig.units import format_bytes, pluralize

Cell = tuple[str, str]
"""A text and its class: `n` for a number."""
_EDGES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
_MOST_COLUMNS = 36
_MOST_BARS = 12
_NAMES = {
    "en": "English", "es": "Spanish", "fr": "French", "de": "German", "it": "Italian",
    "pt": "Portuguese", "nl": "Dutch", "ru": "Russian", "zh": "Chinese", "ja": "Japanese",
    "ar": "Arabic", "la": "Latin", "ca": "Catalan", "pl": "Polish", "sv": "Swedish",
    "da": "Danish", "no": "Norwegian", "fi": "Finnish", "el": "Greek", "he": "Hebrew",
    "ko": "Korean", "tr": "Turkish", "uk": "Ukrainian", "cs": "Czech", "hu": "Hungarian",
    "ro": "Romanian", "hi": "Hindi", "und": "not clear",
}  # fmt: skip


def section(title: str, body: str) -> str:
    """A box of the page; the title is escaped here, the body must be so already."""
    return f"<section><h2>{escaped(title)}</h2>{body}</section>"


def table(head: Sequence[str], rows: Iterable[Sequence[Cell]], kind: str = "") -> str:
    """Rows under a head; every cell is escaped."""
    rows = list(rows)
    classes = [cell[1] for cell in rows[0]] if rows else [""] * len(head)
    top = "".join(
        f"<th{_class(one)}>{escaped(name)}</th>" for name, one in zip(head, classes, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(f"<td{_class(one)}>{escaped(text)}</td>" for text, one in row) + "</tr>"
        for row in rows
    )
    made = f"<table{_class(kind)}><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{made}</div>'


def language_name(code: str) -> str:
    """`Spanish (es)`; the code alone for one without a name here."""
    return f"{_NAMES[code]} ({code})" if code in _NAMES else code


def map_of(found: Analysis) -> str:
    """Every document as a point, every cluster as a number."""
    dots = [Dot(*doc.place, doc.facts.name, doc.cluster) for doc in found.docs]
    spots = []
    if len(found.clustering.clusters) > 1:
        for number, cluster in enumerate(found.clustering.clusters):
            places = [found.docs[index].place for index in cluster.members]
            x = sum(place[0] for place in places) / len(places)
            y = sum(place[1] for place in places) / len(places)
            spots.append(Spot(x, y, str(number + 1), number))
    told = f"{pluralize(len(dots), 'document')} as points"
    told += f" in {pluralize(len(spots), 'cluster')}" if spots else ""
    return scatter("Map of the documents", told, dots, spots)


def phrases(found: Analysis) -> str:
    """The key phrases of the whole folder."""
    best = found.phrases[:_MOST_BARS]
    rows = [Bar(one.text, one.score, f"{one.count} times") for one in best if one.count > 1]
    if not best:
        return ""
    if not rows:  # bars of one length say nothing
        every = ", ".join(escaped(one.text) for one in found.phrases)
        return section("Key phrases", f'<p>{every}</p><p class="dim">Each stands there once.</p>')
    best = tuple(one for one in best if one.count > 1)
    told = "; ".join(one.text for one in best)
    more = ", ".join(escaped(one.text) for one in found.phrases if one not in best)
    note = f'<p class="dim">also: {more}</p>' if more else ""
    return section("Key phrases", bars("Key phrases by weight", told, rows) + note)


def languages(found: Analysis) -> str:
    """Languages by the share of words."""
    shown = found.languages[:_MOST_BARS]
    counts = Counter(doc.language for doc in found.docs)
    rows = [
        Bar(language_name(one.language), one.share, f"{one.share:.0%}", number)
        for number, one in enumerate(shown)
    ]
    if not rows:
        return ""
    told = ", ".join(f"{row.label} {row.text}" for row in rows)
    numbers = [
        [(language_name(one.language), ""), (f"{one.share:.1%}", "n"),
         (str(counts[one.language]), "n")]
        for one in shown
    ]  # fmt: skip
    under = _numbers(["language", "share of words", "documents"], numbers)
    return section("Languages", bars("Languages by share of words", told, rows) + under)


def lengths(found: Analysis) -> str:
    """How many documents are of what length."""
    counts = [doc.statistics.num_words for doc in found.docs]
    if not counts:
        return ""
    bins = Counter(sum(count >= edge for edge in _EDGES) for count in counts)
    rows = [
        Bar(_bin(number), bins[number], str(bins[number]))
        for number in range(min(bins), max(bins) + 1)
    ]
    middle = sorted(counts)[len(counts) // 2]
    told = f"from {min(counts):,} to {max(counts):,} words, the middle one {middle:,}"
    under = _numbers(["words", "documents"], [[(row.label, ""), (row.text, "n")] for row in rows])
    return section(
        "Length in words",
        f'<p class="dim">{escaped(told)}</p>' + columns("Documents by words", told, rows) + under,
    )


def _bin(number: int) -> str:
    names = [f"{edge // 1000}k" if edge >= 1000 else str(edge) for edge in _EDGES]
    if number == 0:
        return f"<{names[0]}"
    return (
        f"{names[number - 1]}+" if number == len(names) else f"{names[number - 1]}–{names[number]}"
    )


def formats(found: Analysis) -> str:
    """Types of files, with their sizes."""
    counts = Counter(doc.facts.format or "other" for doc in found.docs)
    sizes: Counter[str] = Counter()
    for doc in found.docs:
        sizes[doc.facts.format or "other"] += doc.facts.num_bytes
    rows = [
        Bar(kind, count, f"{pluralize(count, 'file')}, {format_bytes(sizes[kind])}", number)
        for number, (kind, count) in enumerate(counts.most_common(_MOST_BARS))
    ]
    told = "; ".join(f"{row.label}: {row.text}" for row in rows)
    return section("Types of files", bars("Types of files", told, rows)) if rows else ""


def timeline(found: Analysis) -> str:
    """Documents by day, month, year or decade: the finest that fits."""
    days = sorted(doc.facts.day for doc in found.docs if doc.facts.day)
    if not days:
        return ""
    rows = _periods(days)
    by_name = sum(doc.facts.dated_by == "name" for doc in found.docs)
    told = (
        f"{days[0]} to {days[-1]}; {by_name} by the date in their name, "
        f"{len(days) - by_name} by the day the file was changed"
    )
    under = _numbers(
        ["when", "documents"],
        [[(row.label, ""), (row.text, "n")] for row in rows if row.value],
    )
    return section(
        "Dates",
        f'<p class="dim">{escaped(told)}</p>' + columns("Documents over time", told, rows) + under,
    )


def _periods(days: Sequence[str]) -> list[Bar]:
    from datetime import date, timedelta

    first, last = date.fromisoformat(days[0]), date.fromisoformat(days[-1])
    span = (last - first).days
    if span < _MOST_COLUMNS:
        names = [(first + timedelta(n)).isoformat() for n in range(span + 1)]
        counts = Counter(days)
        return [Bar(name[5:] if span else name, counts[name], str(counts[name])) for name in names]
    months = 12 * (last.year - first.year) + last.month - first.month
    if months < _MOST_COLUMNS:
        counts = Counter(day[:7] for day in days)
        places = (first.month - 1 + n for n in range(months + 1))
        names = [f"{first.year + place // 12}-{place % 12 + 1:02d}" for place in places]
        return [Bar(name, counts[name], str(counts[name])) for name in names]
    step = 1 if last.year - first.year < _MOST_COLUMNS else 10
    tally = Counter(int(day[:4]) // step * step for day in days)
    years = range(first.year // step * step, last.year + 1, step)
    return [Bar(str(year), tally[year], str(tally[year])) for year in years]


def duplicates(found: Analysis) -> str:
    """Copies and near-copies, by how alike they are."""
    rows = [
        Bar(
            f"{found.docs[member.index].facts.name} ← {found.docs[group.first].facts.name}",
            member.similarity,
            "the same" if member.exact else f"{member.similarity:.0%}",
            number,
        )
        for number, group in enumerate(found.groups)
        for member in group.members
    ]
    if not rows:
        body = '<p class="dim">No document is a copy of another, or nearly one.</p>'
        return section("Near-duplicates", body) if len(found.docs) > 1 else ""
    shown = rows[:_MOST_BARS]
    more = len(rows) - len(shown)
    told = f"{pluralize(len(rows), 'document')} in {pluralize(len(found.groups), 'group')}"
    note = f'<p class="dim">and {more} more, below</p>' if more > 0 else ""
    plot = bars("Near-duplicates by share in common", told, shown)
    under = _numbers(
        ["copy", "of", "alike"],
        [
            [(found.docs[member.index].facts.name, ""), (found.docs[group.first].facts.name, ""),
             (f"{member.similarity:.1%}", "n")]
            for group in found.groups[:200]
            for member in group.members[:50]
        ],
    )  # fmt: skip
    return section("Near-duplicates", f'<p class="dim">{told}</p>{plot}{note}{under}')


def _numbers(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    return f"<details><summary>The numbers</summary>{table(head, rows)}</details>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
