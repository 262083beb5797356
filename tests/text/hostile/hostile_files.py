"""All hostile and broken files by name; each makes itself in a folder.

ALL["flat_zip_bomb"].make(folder)
"""

from __future__ import annotations

from tests.text.hostile import (  # noqa: F401 - each puts its own into the list
    hostile_archives,
    hostile_entities,
    hostile_epubs,
    hostile_office,
    hostile_pdfs,
    hostile_places,
    hostile_texts,
)
from tests.text.hostile.hostile_kinds import ALL, Hostile

__all__ = ["ALL", "Hostile"]
