"""Which of Office's binary files one is: they share one container, whatever their names say."""

from __future__ import annotations

from pathlib import Path

from anyrig.errors import InvalidInputError, ProtectedFileError

MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_READ = (("__properties_version1.0", "msg"), ("Workbook", "xls"), ("Book", "xls"))
# A stream, what has it, and what to save that as.
_OLD = (
    ("WordDocument", "an old Word file", "docx"),
    ("PowerPoint Document", "an old PowerPoint file", "pptx"),
    ("VisioDocument", "a Visio drawing", "PDF"),
)
_LOCKED = ("EncryptedPackage", "DRMEncryptedDataSpace")


def detect_format(path: Path) -> str:
    """`msg` or `xls`; `InvalidInputError` that names what it is for all others."""
    import olefile

    try:
        with olefile.OleFileIO(path) as file:
            streams = {entry[0] for entry in file.listdir(streams=True, storages=False) if entry}
    except (OSError, ValueError, IndexError, TypeError, RecursionError):
        raise InvalidInputError(
            f"{path.name} is a damaged Office file", hint="Get another copy of the file."
        ) from None
    if streams.intersection(_LOCKED):
        raise ProtectedFileError(
            f"{path.name} is encrypted with a password",
            hint="Open it in Office or LibreOffice, remove the password, and save it again.",
        )
    for stream, form in _READ:
        if stream in streams:
            return form
    for stream, what, form in _OLD:
        if stream in streams:
            raise InvalidInputError(
                f"{path.name} is {what}",
                hint=f"Open it in Office or LibreOffice and save it as {form}.",
            )
    raise InvalidInputError(
        f"{path.name} is an Office file of a kind that is not read",
        hint="Open it in the program that made it and save it as docx or PDF.",
    )
