"""The analysis as one page of HTML: a map, tables with bars, and every document.

One file that fetches nothing and runs nothing: its policy forbids scripts, so that whatever a
document or its name says stays text. The same analysis gives the same bytes.
"""

from __future__ import annotations

import html as markup
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from anyrig.documents.analyse.duplicates import DuplicateText, count_copies
from anyrig.documents.analyse.folder import AnalysedDocument, Analysis
from anyrig.text.labels import one_line
from anyrig.units import format_bytes, format_duration, pluralize

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_MOST_ROWS = 1_000
_MOST_GROUPS = 40
_COLOURS = 8
"""Classes c0 to c7 of the style; more kinds begin again."""
# What XML 1.0 has no place for, and what turns the direction of the rest of a line.
_ILLEGAL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]"
)
Cell = tuple[str, str]
"""A text and its class: `n` for a number."""
_EDGES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
_MOST_PERIODS = 36
_MOST_BARS = 12


def html(found: Analysis) -> str:
    """The page."""
    left = [_map(found), _clusters(found), _draw_lengths(found), _draw_duplicates(found)]
    right = [
        _draw_phrases(found), _draw_languages(found), _draw_timeline(found),
        _draw_formats(found),
    ]  # fmt: skip
    tables = [
        _similar(found),
        _differences(found),
        _documents(found),
        _left(found),
    ]
    title = escape_text(found.title)
    return "\n".join(
        [
            "<!DOCTYPE html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{title}: what it holds</title>',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<style>{_STYLE}</style></head><body><main>",
            f"<h1>{title}</h1>",
            f'<p class="dim">{escape_text(_subtitle(found))}</p>',
            _tiles(found),
            '<div class="plots">',
            f"<div>{''.join(left)}</div><div>{''.join(right)}</div>",
            "</div>",
            *filter(None, tables),
            f"<footer>{escape_text(_footer(found))}</footer>",
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
    copies = count_copies(found.groups)
    tiles = [
        (f"{len(found.docs):,}", "documents"),
        (f"{num_words:,}", "words"),
        (format_duration(reading_s) if reading_s else "0 s", "to read"),
        (format_bytes(sum(doc.facts.num_bytes for doc in found.docs)), "of files"),
        (f"{len(found.languages)}", "languages" if len(found.languages) != 1 else "language"),
        (f"{len(found.clustering.clusters) if found.clustering.stands_out else 0}", "clusters"),
        (f"{sum(copies.values())}", "copies"),
    ]
    rows = (f"<li><b>{escape_text(value)}</b><span>{what}</span></li>" for value, what in tiles)
    return f'<ul class="tiles">{"".join(rows)}</ul>'


def _map(found: Analysis) -> str:
    if len(found.docs) < 2:
        return ""
    plot = _draw_map(found)
    note = "Near together means alike"
    note += "; the numbers are those of the clusters." if found.clustering.stands_out else "."
    return _section("Map of the documents", f'<p class="dim">{note}</p>{plot}')


def _clusters(found: Analysis) -> str:
    if not found.clustering.stands_out:
        none = '<p class="dim">None stand out.</p>'
        return _section("Clusters", none) if len(found.docs) > 1 else ""
    rows = []
    for number, cluster in enumerate(found.clustering.clusters):
        names = ", ".join(
            escape_text(found.docs[index].facts.name) for index in cluster.members[:4]
        )
        more = len(cluster.members) - 4
        names += f" and {more} more" if more > 0 else ""
        rows.append(
            f'<li><span class="chip k{number % _COLOURS}">{number + 1}</span><div>'
            f"<b>{escape_text(cluster.name)}</b>"
            f'<br><span class="dim">{pluralize(len(cluster.members), "document")}: {names}</span>'
            "</div></li>"
        )
    body = f'<ol class="clusters">{"".join(rows)}</ol>'
    return _section("Clusters", body)


def _similar(found: Analysis) -> str:
    if found.similar_to is None:
        return ""
    rows = [
        [(found.docs[index].facts.name, ""), (f"{alike:.3f}", "n")]
        for index, alike in found.similar
    ]
    name = found.docs[found.similar_to].facts.name
    if not rows:
        return _section(f"Most like {name}", '<p class="dim">Nothing here is.</p>')
    return _section(f"Most like {name}", _table(["document", "cosine"], rows))


def _differences(found: Analysis) -> str:
    """What differs in near-duplicates."""
    parts = []
    for group in found.groups[:_MOST_GROUPS]:
        first = escape_text(found.docs[group.first].facts.name)
        members = "".join(_member(found, member) for member in group.members[:20])
        parts.append(f"<h3>{first}</h3>{members}")
    body = f"<details><summary>Where they differ</summary>{''.join(parts)}</details>"
    return _section("Copies, one by one", body) if parts else ""


def _member(found: Analysis, member: DuplicateText) -> str:
    name = escape_text(found.docs[member.index].facts.name)
    if member.exact:
        return f"<p>{name}: the same words</p>"
    shown = "".join(
        '<span class="change">'
        + (f"<del>{escape_text(change.before)}</del>" if change.before else "")
        + (f"<ins>{escape_text(change.after)}</ins>" if change.after else "")
        + "</span>"
        for change in member.changes
    )
    more = member.num_changes - len(member.changes)
    rest = f'<span class="dim">and {pluralize(more, "more place")}</span>' if more > 0 else ""
    return f"<p>{name}: {member.similarity:.0%} alike{shown}{rest}</p>"


def _documents(found: Analysis) -> str:
    head = ["document", "type", "size", "date", "language", "words", "to read", "about"]
    rows = [_row(doc) for doc in found.docs[:_MOST_ROWS]]
    more = len(found.docs) - _MOST_ROWS
    note = f'<p class="dim">and {more:,} more, in the JSON</p>' if more > 0 else ""
    body = _table(head, rows, "files") + note
    return _section("Every document", body) if rows else ""


def _row(doc: AnalysedDocument) -> list[tuple[str, str]]:
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


def _languages(doc: AnalysedDocument) -> str:
    if len(doc.languages) == 1:
        return doc.language
    return ", ".join(f"{one.language} {one.share:.0%}" for one in doc.languages[:3])


def _left(found: Analysis) -> str:
    rows: Iterable[Sequence[tuple[str, str]]] = [
        [(one.name, ""), (one_line(one.error.message, 300), "")] for one in found.left[:_MOST_ROWS]
    ]
    body = _table(["file", "why"], rows)
    return _section("What could not be read", body) if found.left else ""


def summary(found: Analysis) -> str:
    """The types of the documents in one line: `3 pdf, 2 txt`."""
    kinds = Counter(doc.facts.format or "other" for doc in found.docs)
    return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())


# -- parts of the page -----------------------------------------------------------------------------


def escape_text(text: str) -> str:
    """Text that can do nothing but be read, in an element or an attribute."""
    return markup.escape(_ILLEGAL.sub("\ufffd", text), quote=True)


class Bar(NamedTuple):
    """A row of a table with bars."""

    label: str
    value: float
    cells: tuple[str, ...]
    """What is written behind the bar."""
    colour: int = 0


def _bars(head: Sequence[str], rows: Sequence[Bar]) -> str:
    """A table in which each row has a bar, the longest over the whole column."""
    most = max((row.value for row in rows), default=0.0) or 1.0
    name, *others = (escape_text(one) for one in head)
    top = "".join(f'<th class="n">{one}</th>' for one in others)
    body = "".join(
        f"<tr><td>{escape_text(row.label)}</td>"
        f'<td class="bar"><i class="c{row.colour % _COLOURS}" '
        f'style="width:{row.value / most:.1%}"></i></td>'
        + "".join(f'<td class="n">{escape_text(one)}</td>' for one in row.cells)
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table class="bars"><thead><tr><th>{name}</th><th></th>{top}</tr>'
        f"</thead><tbody>{body}</tbody></table></div>"
    )


def _section(title: str, body: str) -> str:
    """A box of the page; the title is escaped here, the body must be so already."""
    return f"<section><h2>{escape_text(title)}</h2>{body}</section>"


def _table(head: Sequence[str], rows: Iterable[Sequence[Cell]], kind: str = "") -> str:
    """Rows under a head; every cell is escaped."""
    rows = list(rows)
    classes = [cell[1] for cell in rows[0]] if rows else [""] * len(head)
    top = "".join(
        f"<th{_class(one)}>{escape_text(name)}</th>"
        for name, one in zip(head, classes, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{_class(one)}>{escape_text(text)}</td>" for text, one in row)
        + "</tr>"
        for row in rows
    )
    made = f"<table{_class(kind)}><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{made}</div>'


def _name_language(code: str) -> str:
    """`Spanish (es)`; the code alone for one without a name."""
    from babel import Locale

    name = "not clear" if code == "und" else Locale("en").languages.get(code)
    return f"{name} ({code})" if name else code


# -- the map ---------------------------------------------------------------------------------------

_WIDTH, _HEIGHT = 380, 340
_EDGE = 26.0
_MOST_NAMES = 40
Box = tuple[float, float, float, float]


def _draw_map(found: Analysis) -> str:
    """Every document as a point, every cluster as a number, names as far as there is space."""
    title = f"{pluralize(len(found.docs), 'document')} as points"
    clusters = found.clustering.clusters if found.clustering.stands_out else ()
    title += f" in {pluralize(len(clusters), 'cluster')}" if clusters else ""
    radius = 5.0 if len(found.docs) <= 60 else 3.5 if len(found.docs) <= 400 else 2.4
    places = [_place(*doc.place) for doc in found.docs]
    parts = [
        f'<rect x="0.5" y="0.5" width="{_WIDTH - 1}" height="{_HEIGHT - 1}" rx="6" class="frame"/>'
    ]
    for doc, (x, y) in zip(found.docs, places, strict=True):
        kind = f"c{doc.cluster % _COLOURS} dot"
        name = escape_text(doc.facts.name)
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" class="{kind}">'
            f"<title>{name}</title></circle>"
        )
    taken: list[Box] = []
    for number, cluster in enumerate(clusters):
        middle = [found.docs[index].place for index in cluster.members]
        x, y = _place(*(sum(axis) / len(middle) for axis in zip(*middle, strict=True)))
        y = max(13.0, y - 18)  # above its points
        taken.append((x - 11, y - 11, x + 11, y + 11))
        kind = f"spot s{number % _COLOURS}"
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="11" class="{kind}"/>',
            f'<text x="{x:.1f}" y="{y + 4.5:.1f}" text-anchor="middle" class="spotted">'
            f"{number + 1}</text>",
        ]
    if len(found.docs) <= _MOST_NAMES:
        parts += _draw_names(found.docs, places, taken)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" xmlns="http://www.w3.org/2000/svg">\n'
        f"<title>Map of the documents</title>\n<desc>{title}</desc>\n{chr(10).join(parts)}\n</svg>"
    )


def _place(x: float, y: float) -> tuple[float, float]:
    """Where a point of the map, -1 to 1 both ways, lies on the plot."""
    return (
        _EDGE + (x + 1) / 2 * (_WIDTH - 2 * _EDGE),
        _EDGE + (1 - y) / 2 * (_HEIGHT - 2 * _EDGE),
    )


def _draw_names(
    docs: Sequence[AnalysedDocument], places: Sequence[tuple[float, float]], taken: list[Box]
) -> Iterable[str]:
    """The names of points that run into nothing."""
    for doc, (x, y) in zip(docs, places, strict=True):
        text = one_line(doc.facts.name.rpartition("/")[2], 22)
        wide = len(text) * 6.2
        left = x + 8 if x + 8 + wide < _WIDTH else x - 8 - wide
        box = (left, y - 8, left + wide, y + 6)
        if left < 0 or any(_overlap(box, other) for other in taken):
            continue
        taken.append(box)
        name = escape_text(text)
        yield f'<text x="{left:.1f}" y="{y + 4:.1f}" class="name">{name}</text>'


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


# -- tables with bars ------------------------------------------------------------------------------


def _draw_phrases(found: Analysis) -> str:
    """The key phrases of the whole folder."""
    best = found.phrases[:_MOST_BARS]
    several = [one for one in best if one.count > 1]
    if not best:
        return ""
    if not several:  # bars of one length say nothing
        every = ", ".join(escape_text(one.text) for one in found.phrases)
        return _section("Key phrases", f'<p>{every}</p><p class="dim">Each stands there once.</p>')
    more = ", ".join(escape_text(one.text) for one in found.phrases if one not in several)
    note = f'<p class="dim">also: {more}</p>' if more else ""
    rows = [Bar(one.text, one.score, (f"{one.count}",)) for one in several]
    return _section("Key phrases", _bars(["phrase", "times"], rows) + note)


def _draw_languages(found: Analysis) -> str:
    """Languages by the share of words."""
    counts = Counter(doc.language for doc in found.docs)
    rows = [
        Bar(
            _name_language(one.language), one.share,
            (f"{one.share:.1%}", str(counts[one.language])), number,
        )
        for number, one in enumerate(found.languages[:_MOST_BARS])
    ]  # fmt: skip
    head = ["language", "share of words", "documents"]
    return _section("Languages", _bars(head, rows)) if rows else ""


def _draw_lengths(found: Analysis) -> str:
    """How many documents are of what length."""
    counts = sorted(doc.statistics.num_words for doc in found.docs)
    if not counts:
        return ""
    bins = Counter(sum(count >= edge for edge in _EDGES) for count in counts)
    rows = [
        Bar(_name_bin(number), bins[number], (str(bins[number]),))
        for number in range(min(bins), max(bins) + 1)
    ]
    note = (
        f"from {counts[0]:,} to {counts[-1]:,} words, the middle one {counts[len(counts) // 2]:,}"
    )
    table = _bars(["words", "documents"], rows)
    return _section("Length in words", f'<p class="dim">{note}</p>{table}')


def _name_bin(number: int) -> str:
    names = [f"{edge // 1000}k" if edge >= 1000 else str(edge) for edge in _EDGES]
    if number == 0:
        return f"<{names[0]}"
    return f"{names[-1]}+" if number == len(names) else f"{names[number - 1]}\u2013{names[number]}"


def _draw_formats(found: Analysis) -> str:
    """Types of files, with their sizes."""
    counts = Counter(doc.facts.format or "other" for doc in found.docs)
    sizes: Counter[str] = Counter()
    for doc in found.docs:
        sizes[doc.facts.format or "other"] += doc.facts.num_bytes
    rows = [
        Bar(kind, count, (str(count), format_bytes(sizes[kind])), number)
        for number, (kind, count) in enumerate(counts.most_common(_MOST_BARS))
    ]
    return _section("Types of files", _bars(["type", "files", "size"], rows)) if rows else ""


def _draw_timeline(found: Analysis) -> str:
    """Documents by day, month, year or decade: the finest that fits."""
    days = sorted(doc.facts.day for doc in found.docs if doc.facts.day)
    if not days:
        return ""
    by_name = sum(doc.facts.dated_by == "name" for doc in found.docs)
    note = (
        f"{days[0]} to {days[-1]}; {by_name} by the date in their name, "
        f"{len(days) - by_name} by the day the file was changed"
    )
    rows = [Bar(name, count, (str(count),)) for name, count in _count_periods(days)]
    table = _bars(["when", "documents"], rows)
    return _section("Dates", f'<p class="dim">{escape_text(note)}</p>{table}')


def _count_periods(days: Sequence[str]) -> Iterable[tuple[str, int]]:
    first, last = date.fromisoformat(days[0]), date.fromisoformat(days[-1])
    span = (last - first).days
    if span < _MOST_PERIODS:
        counts = Counter(days)
        names = [(first + timedelta(n)).isoformat() for n in range(span + 1)]
        return [(name[5:] if span else name, counts[name]) for name in names]
    months = 12 * (last.year - first.year) + last.month - first.month
    if months < _MOST_PERIODS:
        counts = Counter(day[:7] for day in days)
        places = (first.month - 1 + n for n in range(months + 1))
        names = [f"{first.year + place // 12}-{place % 12 + 1:02d}" for place in places]
        return [(name, counts[name]) for name in names]
    step = 1 if last.year - first.year < _MOST_PERIODS else 10
    tally = Counter(int(day[:4]) // step * step for day in days)
    return [
        (str(year), tally[year]) for year in range(first.year // step * step, last.year + 1, step)
    ]


def _draw_duplicates(found: Analysis) -> str:
    """Copies and near-copies, by how alike they are."""
    rows = [
        Bar(
            f"{found.docs[member.index].facts.name} \u2190 {found.docs[group.first].facts.name}",
            member.similarity,
            ("the same" if member.exact else f"{member.similarity:.1%}",),
            number,
        )
        for number, group in enumerate(found.groups)
        for member in group.members
    ]
    if not rows:
        body = '<p class="dim">No document is a copy of another, or nearly one.</p>'
        return _section("Near-duplicates", body) if len(found.docs) > 1 else ""
    note = f"{pluralize(len(rows), 'document')} in {pluralize(len(found.groups), 'group')}"
    shown, more = rows[:_MOST_BARS], rows[_MOST_BARS:_MOST_ROWS]
    table = _bars(["copy \u2190 of", "alike"], shown)
    if more:
        rest = _bars(["copy \u2190 of", "alike"], more)
        table += f"<details><summary>and {len(rows) - len(shown)} more</summary>{rest}</details>"
    return _section("Near-duplicates", f'<p class="dim">{note}</p>{table}')


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


# -- how it looks --

_STYLE = """
:root{color-scheme:light dark;--back:#fff;--card:#fff;--text:#1d2430;--dim:#5a6473;--line:#dfe3e8;
--c0:#3566a8;--c1:#c8591b;--c2:#2c8a57;--c3:#a63a79;--c4:#8a6d00;--c5:#0d7f93;
--c6:#7353ba;--c7:#b03a3a}
@media (prefers-color-scheme:dark){:root{--back:#14181f;--card:#1b2129;--text:#e6eaf0;--dim:#9aa5b4;
--line:#313a46;--c0:#7aa7e6;--c1:#f0935a;--c2:#63c692;--c3:#e084b8;--c4:#d9b840;
--c5:#4fc3d6;--c6:#b59bf0;--c7:#ee8080}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--text);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:1180px;margin:0 auto;padding:24px 20px 48px}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 4px;overflow-wrap:anywhere}
h3{font-size:.95rem;margin:12px 0 4px;overflow-wrap:anywhere}
h2{overflow-wrap:anywhere;font-size:1.08rem;margin:0 0 10px}
p{margin:0 0 10px}.dim{color:var(--dim)}
.tiles{display:flex;flex-wrap:wrap;gap:10px;margin:18px 0 22px;padding:0;list-style:none}
.tiles li{border:1px solid var(--line);border-radius:8px;padding:8px 14px;min-width:104px;
background:var(--card)}
.tiles b{display:block;font-size:1.3rem;line-height:1.3}.tiles span{color:var(--dim)}
.plots{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:0 18px;align-items:start}
section{border:1px solid var(--line);border-radius:10px;padding:16px 18px;background:var(--card);
min-width:0;break-inside:avoid;margin:0 0 18px}
svg{display:block;width:100%;height:auto;max-width:490px;margin:0 auto;
font:13px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
svg text{fill:var(--text)}svg .name{font-size:10.5px;fill:var(--dim)}
.bars td{border-bottom:0;padding:3px 10px 3px 0;overflow-wrap:anywhere}
.bars .bar{width:45%;min-width:90px;vertical-align:middle}
.bar i{display:block;height:9px;min-width:2px;border-radius:2px}
svg .frame{fill:none;stroke:var(--line)}
.c0{fill:var(--c0);background:var(--c0)}.c1{fill:var(--c1);background:var(--c1)}.c2{fill:var(--c2);background:var(--c2)}
.c3{fill:var(--c3);background:var(--c3)}.c4{fill:var(--c4);background:var(--c4)}.c5{fill:var(--c5);background:var(--c5)}
.c6{fill:var(--c6);background:var(--c6)}.c7{fill:var(--c7);background:var(--c7)}
.dot{fill-opacity:.75}.spot{fill:var(--card);fill-opacity:.85;stroke-width:2}
svg .spotted{font-weight:700;font-size:12px}
.s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}
.s4{stroke:var(--c4)}.s5{stroke:var(--c5)}.s6{stroke:var(--c6)}.s7{stroke:var(--c7)}
.chip{display:inline-flex;align-items:center;justify-content:center;width:1.5em;height:1.5em;
border:2px solid;border-radius:50%;font-size:.8em;font-weight:700;margin-right:8px;flex:none}
.k0{border-color:var(--c0)}.k1{border-color:var(--c1)}.k2{border-color:var(--c2)}
.k3{border-color:var(--c3)}.k4{border-color:var(--c4)}.k5{border-color:var(--c5)}
.k6{border-color:var(--c6)}.k7{border-color:var(--c7)}
.clusters{list-style:none;margin:0;padding:0}
.clusters li{display:flex;align-items:baseline;padding:6px 0;border-top:1px solid var(--line)}
.clusters li:first-child{border-top:0}
.clusters div{min-width:0;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;font-size:.92em}
th{text-align:left;font-weight:600;color:var(--dim);white-space:nowrap}
th,td{padding:5px 10px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
td:first-child{overflow-wrap:anywhere;min-width:130px}
.n{text-align:right;white-space:nowrap}
.scroll{overflow-x:auto}
.files{min-width:760px}.files td:first-child{min-width:180px;max-width:320px}
.key{overflow-wrap:anywhere}
.files .key{min-width:200px}
details{margin-top:12px}summary{cursor:pointer;color:var(--dim)}
del{color:var(--c7);text-decoration:none}ins{color:var(--c2);text-decoration:none}
del::before{content:"− "}ins::before{content:"+ "}
.change{display:block;padding:3px 0;overflow-wrap:anywhere}.change del,.change ins{display:block}
footer{margin-top:22px;color:var(--dim);font-size:.9em}
@media screen and (max-width:760px){main{padding:16px 12px 32px}
.plots{grid-template-columns:minmax(0,1fr)}
section{padding:13px 12px;margin-bottom:12px}.tiles li{flex:1 1 28%;min-width:0;padding:6px 10px}
.tiles b{font-size:1.1rem}}
@media print{:root{--back:#fff;--card:#fff;--text:#000;--dim:#444;--line:#bbb;
--c0:#3566a8;--c1:#c8591b;--c2:#2c8a57;--c3:#a63a79;--c4:#8a6d00;--c5:#0d7f93;--c6:#7353ba;
--c7:#b03a3a}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}body{font-size:9.5pt}
main{max-width:none;padding:0}.plots{gap:0 12px}
section{padding:10px 12px;margin-bottom:12px}svg{max-width:340px}.scroll{overflow:visible}
.files{min-width:0}
.files td:first-child,.files .key{min-width:0}summary{display:none}
details::details-content{content-visibility:visible;display:block}
@page{margin:14mm}}
"""
