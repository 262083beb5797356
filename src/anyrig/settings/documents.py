"""How documents are read, embedded and searched, as a person sets it once: `[documents]`."""

from __future__ import annotations

from dataclasses import dataclass

from anyrig.errors import InvalidSettingError


@dataclass(frozen=True)
class DocumentSettings:
    """What every command on documents stands on; each has a flag as well."""

    model: str = "auto"
    """The embedding model: a name of `anyrig embed --models`, a folder, a name on the hub."""
    ocr: str = "auto"
    """auto (where a page has no usable text), never, or always."""
    max_mb: float = 200.0
    """Files above this are left out, and named."""
    max_pages: int = 5_000
    """Pages of one file that are read; more is an error for that file."""
    max_seconds: float = 600.0
    """How long one file may take to be read."""

    def __post_init__(self) -> None:
        if self.ocr not in ("auto", "never", "always"):
            raise InvalidSettingError(
                f"documents.ocr is {self.ocr!r}", hint="auto, never or always."
            )
        for name in ("max_mb", "max_pages", "max_seconds"):
            if not 0 < getattr(self, name) < 1e9:
                raise InvalidSettingError(
                    f"documents.{name} is no limit", hint="Give a number above 0."
                )
