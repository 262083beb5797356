"""Codes of languages, found by their names."""

from __future__ import annotations

import re
from functools import lru_cache

_CODE = re.compile(r"auto|[a-z]{2,3}(?:[-_][a-z0-9]{1,8})*", re.IGNORECASE)
_OTHER_NAMES = {"castellano": "es", "farsi": "fa", "slovene": "sl"}


def language_code(name: str) -> str:
    """The code of a language by its name in English or in the language itself: `de` of `German` and
    of `Deutsch`. Codes and `auto` stay as they are; what is not known is an empty string.
    """
    name = name.strip()
    if not name or _CODE.fullmatch(name):
        return name
    low = name.lower()
    return _OTHER_NAMES.get(low) or _english_names().get(low) or _own_names().get(low, "")


@lru_cache(maxsize=1)
def _english_names() -> dict[str, str]:
    from babel import Locale

    return {str(name).lower(): str(code) for code, name in Locale("en").languages.items()}


@lru_cache(maxsize=1)
def _own_names() -> dict[str, str]:
    """By what each language calls itself; reading the 300 files of them takes a second."""
    from babel import Locale
    from babel.localedata import locale_identifiers

    codes = [code for code in locale_identifiers() if "_" not in code]
    names = ((Locale(code).languages.get(code), code) for code in codes)
    return {str(name).lower(): code for name, code in names if name}
