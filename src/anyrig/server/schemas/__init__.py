"""What goes in and out over HTTP, a file for each slice."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def check_name(text: str) -> str:
    """A name without control characters: it may stand in a header of the answer."""
    if _CONTROL.search(text):
        raise ValueError("must not contain control characters")
    return text


PlainName = Annotated[str, AfterValidator(check_name)]
