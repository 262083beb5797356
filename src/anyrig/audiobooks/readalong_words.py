"""Text as XHTML takes it, and the frame of a page."""

from __future__ import annotations

import re
from html import escape

_UNPRINTABLE = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]"
)
_LANGUAGE = re.compile(  # its name, script, region and variants
    r"[A-Za-z]{2,3}(?:-[A-Za-z]{4})?(?:-(?:[A-Za-z]{2}|[0-9]{3}))?"
    r"(?:-(?:[A-Za-z0-9]{5,8}|[0-9][A-Za-z0-9]{3}))*"
)
_RIGHT_TO_LEFT = frozenset(("ar", "dv", "fa", "he", "ps", "sd", "ug", "ur", "yi"))


def clean(text: str) -> str:
    """A text without what XML cannot hold, its marks escaped."""
    return escape(_UNPRINTABLE.sub("", text))


def words(text: str) -> str:
    """A name or a title in one line, escaped."""
    return escape(" ".join(_UNPRINTABLE.sub("", text).split()))


def tag(language: str) -> str:
    """A language as XML takes it, or nothing."""
    language = language.strip().replace("_", "-")
    return language if _LANGUAGE.fullmatch(language) else ""


def right_to_left(language: str) -> bool:
    """Whether it is written from the right."""
    return language.lower().partition("-")[0] in _RIGHT_TO_LEFT


def root(title: str, language: str, body: str, *, depth: str = "../", kind: str = "") -> str:
    """A whole XHTML file."""
    turned = ' dir="rtl"' if right_to_left(language) else ""
    typed = f' epub:type="{kind}"' if kind else ""
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n'
        '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" '
        f'lang="{language}" xml:lang="{language}"{turned}>\n'
        f"<head>\n<title>{words(title)}</title>\n"
        f'<link rel="stylesheet" type="text/css" href="{depth}style.css"/>\n</head>\n'
        f"<body{typed}>\n{body}</body>\n</html>\n"
    )


def spoken_as(language: str, around: str) -> str:
    """What names a language where it is another than around it."""
    language = tag(language)
    if not language or language == around:
        return ""
    turned = ' dir="rtl"' if right_to_left(language) and not right_to_left(around) else ""
    return f' lang="{language}" xml:lang="{language}"{turned}'
