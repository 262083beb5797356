"""Settings that a file of the working directory may not set.

Such a file comes with whatever folder a person happens to be in. It may say how to compute and how
to read aloud. It may not say where texts go, who may call the server, or where files are written.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

MARK = "restricted"


def restricted(default: Any) -> Any:
    """A field that names a broker, a key, a server, a folder to write to, or who may call us."""
    return field(default=default, metadata={MARK: True})
