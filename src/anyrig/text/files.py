"""A path to a document: the format is found by content first, then by name.

    document = read(Path("book.epub"))

The one door to files that others wrote. Whatever is wrong with one is a single `BadInput` with a
hint; a reader writes nothing, runs nothing, and fetches nothing from the network.
"""

from __future__ import annotations
