"""`anyrig analyse`: what a folder holds, on the terminal, as JSON, or as a page of HTML."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from anyrig.app.analyse import AnalyseRequest, analyse, analysis_to_json, list_failed
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import (
    EventPrinter,
    failed_to_json,
    format_table,
    paint,
    print_json,
    print_warnings,
    report_failed,
)
from anyrig.cli.rig import open_rig
from anyrig.units import format_bytes, format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.documents.analyse.folder import AnalysedDocument, Analysis

HELP = """Analyse documents: languages, key phrases, near-duplicates and their differences, named
clusters. Give a folder, or files. -o writes a page of HTML with
plots, one file that needs no network; --similar FILE lists the documents most similar to one.
Documents are compared by the vectors of an embedding model, or, with --no-vectors, by the words
they share, which needs no model. Files that cannot be read are listed, and the others are
analysed."""
MIXED = True
_MAX_CLUSTERS = 12
_MAX_DUPLICATES = 8
_MAX_SIMILAR = 20


def arguments(parser: argparse.ArgumentParser) -> None:
    add_flags(parser, AnalyseRequest)


def run(arguments: argparse.Namespace) -> int:
    with EventPrinter() as events:
        rig = open_rig(arguments, events)
        request = rig.request(AnalyseRequest, **read_flags(arguments, AnalyseRequest))
        found = analyse(rig, request, events)
    failed = list_failed(found)
    if arguments.json:
        print_json({**analysis_to_json(found), "failed": failed_to_json(failed)})
    elif found.docs:
        print(_format(found))
        if request.output is not None:
            print(f"\nReport: {request.output}")
    print_warnings([f"{doc.facts.name}: {one}" for doc in found.docs for one in doc.facts.warnings])
    return report_failed(failed, len(found.left) + len(found.docs))


def _format(found: Analysis) -> str:
    parts = [_format_head(found)]
    if len(found.docs) == 1:
        parts.append(_format_one(found.docs[0]))
    elif found.docs:
        parts += [
            "key phrases: " + ", ".join(phrase.text for phrase in found.phrases[:12]),
            _format_clusters(found),
            _format_duplicates(found),
        ]
    parts.append(_format_similar(found))
    return "\n\n".join(filter(None, parts))


def _format_head(found: Analysis) -> str:
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


def _format_one(doc: AnalysedDocument) -> str:
    statistics = doc.statistics
    lines = [
        f"{statistics.num_sentences} sentences of {statistics.words_a_sentence:.1f} words, "
        f"words of {statistics.letters_a_word:.1f} letters, "
        f"{statistics.distinct:.0%} of them different"
    ]
    lines.append("key phrases: " + ", ".join(phrase.text for phrase in doc.phrases))
    return "\n".join(lines)


def _format_clusters(found: Analysis) -> str:
    if not found.clustering.stands_out:
        return "clusters: none stand out"
    lines = [paint("clusters", "bold")]
    for number, cluster in enumerate(found.clustering.clusters[:_MAX_CLUSTERS], 1):
        names = ", ".join(found.docs[index].facts.name for index in cluster.members[:3])
        more = f" and {len(cluster.members) - 3} more" if len(cluster.members) > 3 else ""
        lines.append(f"{number:>3}. {cluster.name} ({len(cluster.members)}: {names}{more})")
    left = len(found.clustering.clusters) - _MAX_CLUSTERS
    return "\n".join([*lines, *([f"     and {left} more"] if left > 0 else [])])


def _format_duplicates(found: Analysis) -> str:
    rows = [
        [found.docs[member.index].facts.name,
         "identical to" if member.exact else f"{member.similarity:.0%} like",
         found.docs[group.first].facts.name]
        for group in found.groups for member in group.members
    ]  # fmt: skip
    if not rows:
        return "near-duplicates: none"
    more = f"\nand {len(rows) - _MAX_DUPLICATES} more" if len(rows) > _MAX_DUPLICATES else ""
    return paint("near-duplicates", "bold") + "\n" + format_table(rows[:_MAX_DUPLICATES]) + more


def _format_similar(found: Analysis) -> str:
    if found.similar_to is None:
        return ""
    name = found.docs[found.similar_to].facts.name
    if not found.similar:
        return f"no document is similar to {name}"
    rows = [
        [f"{alike:.3f}", found.docs[index].facts.name]
        for index, alike in found.similar[:_MAX_SIMILAR]
    ]
    return paint(f"most similar to {name}", "bold") + "\n" + format_table(rows)
