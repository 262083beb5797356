"""hOCR: pages as HTML, with the box and the confidence of every line and word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyrig.documents.ocr.page import Box, OcrLine, ReadPage

_HEAD = """<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="{language}">
<head>
<meta charset="utf-8"/>
<title>{title}</title>
<meta name="ocr-system" content="{engine}"/>
<meta name="ocr-capabilities" content="ocr_page ocr_carea ocr_line ocrx_word"/>
</head>
<body>
"""


def format_hocr(title: str, pages: Iterable[tuple[int, ReadPage]]) -> str:
    """Numbered pages as one file."""
    every = list(pages)
    first = every[0][1] if every else None
    language = escape(first.language if first else "", quote=True)
    engine = escape(first.engine if first else "", quote=True)
    head = _HEAD.format(language=language, title=escape(title), engine=engine)
    body = "".join(line for number, page in every for line in _page(number, page))
    return f"{head}{body}</body>\n</html>\n"


def _page(number: int, page: ReadPage) -> Iterator[str]:
    yield (
        f'<div class="ocr_page" id="page_{number}" '
        f'title="bbox 0 0 {page.width} {page.height}; ppageno {number - 1}">\n'
    )
    block = -1
    for count, line in enumerate(page.lines, 1):
        if line.block != block:
            if block >= 0:
                yield "</div>\n"
            block = line.block
            yield f'<div class="ocr_carea" id="block_{number}_{block + 1}">\n'
        yield from _line(f"{number}_{count}", line)
    yield "</div>\n</div>\n" if block >= 0 else "</div>\n"


def _line(name: str, line: OcrLine) -> Iterator[str]:
    yield f'<span class="ocr_line" id="line_{name}" title="{_bounds(line.box)}">'
    for count, word in enumerate(line.words, 1):
        told = f"{_bounds(word.box)}; x_wconf {round(100 * word.confidence)}"
        space = " " if count < len(line.words) else ""
        yield f'<span class="ocrx_word" id="word_{name}_{count}" title="{told}">'
        yield f"{escape(word.text)}</span>{space}"
    yield "</span>\n"


def _bounds(box: Box) -> str:
    across, down = [point[0] for point in box], [point[1] for point in box]
    edges = (min(across), min(down), max(across), max(down))
    return "bbox " + " ".join(str(max(0, round(edge))) for edge in edges)
