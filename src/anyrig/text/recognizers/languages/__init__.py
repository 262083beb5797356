"""What recognisers know of each language: one module of tables per language."""

from __future__ import annotations

from types import ModuleType

from anyrig.text.recognizers.languages import english, french, spanish

ROMANCE: dict[str, ModuleType] = {"es": spanish, "fr": french}
TABLES: dict[str, ModuleType] = {"en": english, **ROMANCE}
