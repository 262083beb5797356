"""API keys."""

from __future__ import annotations


class Keys:
    """Not there yet."""
