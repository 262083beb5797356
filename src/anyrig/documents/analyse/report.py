"""The analysis as one page of HTML: plots with their numbers beneath, and every document.

One file that fetches nothing and runs nothing: its policy forbids scripts, so that whatever a
document or its name says stays text. The same analysis gives the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from anyrig.documents.analyse.draw import (
    COLOURS,
    Bar,
    Dot,
    Spot,
    bars,
    columns,
    escape_text,
    scatter,
)  # fmt: skip
from anyrig.documents.analyse.duplicates import DuplicateText, count_copies
from anyrig.documents.analyse.folder import AnalysedDocument, Analysis
from anyrig.units import format_bytes, format_duration, pluralize

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_MOST_ROWS = 1_000
_MOST_GROUPS = 40
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
    told = "Near together means alike"
    told += "; the numbers are those of the clusters." if found.clustering.stands_out else "."
    return _section("Map of the documents", f'<p class="dim">{told}</p>{plot}')


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
            f'<li><span class="chip k{number % COLOURS}">{number + 1}</span><div>'
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
        [(one.name, ""), (one.why, "")] for one in found.left[:_MOST_ROWS]
    ]
    body = _table(["file", "why"], rows)
    return _section("What could not be read", body) if found.left else ""


def summary(found: Analysis) -> str:
    """The types of the documents in one line: `3 pdf, 2 txt`."""
    kinds = Counter(doc.facts.format or "other" for doc in found.docs)
    return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())


# -- figures, each with a table of its numbers for those who do not see it --


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
    """`Spanish (es)`; the code alone for one without a name here."""
    return f"{_NAMES[code]} ({code})" if code in _NAMES else code


def _draw_map(found: Analysis) -> str:
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


def _draw_phrases(found: Analysis) -> str:
    """The key phrases of the whole folder."""
    best = found.phrases[:_MOST_BARS]
    rows = [Bar(one.text, one.score, f"{one.count} times") for one in best if one.count > 1]
    if not best:
        return ""
    if not rows:  # bars of one length say nothing
        every = ", ".join(escape_text(one.text) for one in found.phrases)
        return _section("Key phrases", f'<p>{every}</p><p class="dim">Each stands there once.</p>')
    best = tuple(one for one in best if one.count > 1)
    told = "; ".join(one.text for one in best)
    more = ", ".join(escape_text(one.text) for one in found.phrases if one not in best)
    note = f'<p class="dim">also: {more}</p>' if more else ""
    return _section("Key phrases", bars("Key phrases by weight", told, rows) + note)


def _draw_languages(found: Analysis) -> str:
    """Languages by the share of words."""
    shown = found.languages[:_MOST_BARS]
    counts = Counter(doc.language for doc in found.docs)
    rows = [
        Bar(_name_language(one.language), one.share, f"{one.share:.0%}", number)
        for number, one in enumerate(shown)
    ]
    if not rows:
        return ""
    told = ", ".join(f"{row.label} {row.text}" for row in rows)
    numbers = [
        [(_name_language(one.language), ""), (f"{one.share:.1%}", "n"),
         (str(counts[one.language]), "n")]
        for one in shown
    ]  # fmt: skip
    under = _numbers(["language", "share of words", "documents"], numbers)
    return _section("Languages", bars("Languages by share of words", told, rows) + under)


def _draw_lengths(found: Analysis) -> str:
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
    return _section(
        "Length in words",
        f'<p class="dim">{escape_text(told)}</p>'
        + columns("Documents by words", told, rows)
        + under,
    )


def _bin(number: int) -> str:
    names = [f"{edge // 1000}k" if edge >= 1000 else str(edge) for edge in _EDGES]
    if number == 0:
        return f"<{names[0]}"
    return (
        f"{names[number - 1]}+" if number == len(names) else f"{names[number - 1]}–{names[number]}"
    )


def _draw_formats(found: Analysis) -> str:
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
    return _section("Types of files", bars("Types of files", told, rows)) if rows else ""


def _draw_timeline(found: Analysis) -> str:
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
    return _section(
        "Dates",
        f'<p class="dim">{escape_text(told)}</p>'
        + columns("Documents over time", told, rows)
        + under,
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


def _draw_duplicates(found: Analysis) -> str:
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
        return _section("Near-duplicates", body) if len(found.docs) > 1 else ""
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
    return _section("Near-duplicates", f'<p class="dim">{told}</p>{plot}{note}{under}')


def _numbers(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    return f"<details><summary>The numbers</summary>{_table(head, rows)}</details>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


# -- how it looks --

_STYLE = """
:root{color-scheme:light dark;--back:#fff;--card:#fff;--text:#1d2430;--dim:#5a6473;--line:#dfe3e8;
--track:#edf0f3;--c0:#3566a8;--c1:#c8591b;--c2:#2c8a57;--c3:#a63a79;--c4:#8a6d00;--c5:#0d7f93;
--c6:#7353ba;--c7:#b03a3a}
@media (prefers-color-scheme:dark){:root{--back:#14181f;--card:#1b2129;--text:#e6eaf0;--dim:#9aa5b4;
--line:#313a46;--track:#2a323d;--c0:#7aa7e6;--c1:#f0935a;--c2:#63c692;--c3:#e084b8;--c4:#d9b840;
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
svg text{fill:var(--text)}svg .value{fill:var(--dim)}svg .name{font-size:10.5px;fill:var(--dim)}
svg .track{fill:var(--track)}svg .axis{stroke:var(--line)}
svg .frame{fill:none;stroke:var(--line)}
.c0{fill:var(--c0)}.c1{fill:var(--c1)}.c2{fill:var(--c2)}.c3{fill:var(--c3)}.c4{fill:var(--c4)}
.c5{fill:var(--c5)}.c6{fill:var(--c6)}.c7{fill:var(--c7)}
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
blockquote{margin:4px 0 0;padding-left:10px;border-left:3px solid var(--line);color:var(--dim);
overflow-wrap:anywhere}
footer{margin-top:22px;color:var(--dim);font-size:.9em}
@media screen and (max-width:760px){main{padding:16px 12px 32px}
.plots{grid-template-columns:minmax(0,1fr)}
section{padding:13px 12px;margin-bottom:12px}.tiles li{flex:1 1 28%;min-width:0;padding:6px 10px}
.tiles b{font-size:1.1rem}}
@media print{:root{--back:#fff;--card:#fff;--text:#000;--dim:#444;--line:#bbb;--track:#eee;
--c0:#3566a8;--c1:#c8591b;--c2:#2c8a57;--c3:#a63a79;--c4:#8a6d00;--c5:#0d7f93;--c6:#7353ba;
--c7:#b03a3a}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}body{font-size:9.5pt}
main{max-width:none;padding:0}.plots{gap:0 12px}
section{padding:10px 12px;margin-bottom:12px}svg{max-width:340px}.scroll{overflow:visible}
.files{min-width:0}
.files td:first-child,.files .key{min-width:0}summary{display:none}
details::details-content{content-visibility:visible;display:block}
@page{margin:14mm}}
"""
