"""Rows of equal characters and tokens are read in time that grows with their length."""

from __future__ import annotations

import time

import pytest

from anyrig.speech.prepare import SpeechOptions, prepare
from anyrig.text.tokens import split_text, tokenize

DOUBTFUL = ("A. ", "St. ", "U.S. ", "? ", '"', "1/", "$1,", "1.", "(a)", "a.", "X ", "\u0301")
ROW_AND_LANGUAGE = list(zip(DOUBTFUL, ("en", "es", "fr") * 4, strict=True))
"""What was slow once, and one of several classes."""
ROWS = (
    "1 0 . .. ( ) [ ] { } \" ' “ « - -- — – a A I XIV IV. A. a. 1/ 1/2 $1, $ € 5€ 1, 1. "
    "1: 1- 1– 1' 5\" % 5% ° ² x^2 ^ ½ + = # @ a@ a.b _ * ~ | \\ / a/ http:// www. a- "
    "A1 H2O 1a 5m 1x 1× § (a) a\u0301 \u0301 \u200d \ufe0f 😀 é 1er 2º Ctrl+ 1e5 −5 ± … "
    "... 。 1.000. 10s '90s 5k Ps1: CVE- 192. v1. +1 555- th a, < > <a> & &amp; J.- É "
    "\u2028 w/ 5- , ; : [1] 0x 1.x A-B "
).split()
WORDS = (
    (
        "A.|a.|.|?|!|U.S.|e.g.|St.|Dr.|Mr.|No.|IV.|1|12|1/2|$1|5 €|5 kg|1 x|6' x|Jan.|"
        "5 Jan.|3 p.m.|3:05|1 h|c. à s.|Ctrl+C|n.º|1 000|p.|1 Cor. 1:|(555)|ISBN|GB29|1st|"
        "II|MM.|S.|ss.|Aa|-|$1 million|5 -|"
    )
    .strip("|")
    .split("|")
)
"""These with white space behind."""


def _measure(piece: str, length: int, language: str) -> float:
    """CPU seconds of splitting, tokenizing and preparing a row."""
    text = (piece * (length // len(piece) + 1))[:length] + " a b."
    begun = time.process_time()
    split_text(text, language)
    tokenize(text, language)
    prepare(text, SpeechOptions(max_chars=400, language=language))
    return time.process_time() - begun


def _is_linear(piece: str, length: int, language: str) -> bool:
    """Whether four times the length costs at most seven times as much, in one of two tries."""
    return any(
        _measure(piece, length, language) < 7 * _measure(piece, length // 4, language) + 0.1
        for _ in range(2)
    )


@pytest.mark.parametrize(("piece", "language"), ROW_AND_LANGUAGE)
def test_a_row_is_read_in_linear_time(piece: str, language: str) -> None:
    assert _is_linear(piece, 3200, language)


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "es", "fr"])
def test_every_row_is_read_in_linear_time(language: str) -> None:
    pieces = (*ROWS, *(f"{word} " for word in WORDS), "\n", "a\n", "\t", "\u00a0")
    assert [piece for piece in pieces if not _is_linear(piece, 16_000, language)] == []
