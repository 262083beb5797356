"""Speech for many clients at once."""

from __future__ import annotations


class Speaking:
    """Not there yet."""
