"""Files that people sent."""

from __future__ import annotations


class Uploads:
    """Not there yet."""
