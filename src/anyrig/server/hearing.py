"""Which model hears: one that is known by its name, or a folder that the settings allow."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from anyrig.server.problems import Problem

if TYPE_CHECKING:
    from anyrig.app.access import Client
    from anyrig.server.parts import Parts

_OPENAI = re.compile(r"whisper-1|gpt-.*", re.DOTALL)
"""Names of OpenAI's: clients send them whatever there is. The language decides who listens."""


def is_openai(name: str) -> bool:
    """Whether clients of OpenAI's interface send this name, whatever there is."""
    return _OPENAI.fullmatch(name) is not None


def model_of(parts: Parts, client: Client, name: str) -> str:
    """The model that a request names; empty where the language decides."""
    from anyrig.app.access import resolve_path
    from anyrig.recognise.model import NAMES

    if is_openai(name) or name in ("", "default", "auto"):
        return ""
    if "/" in name or "\\" in name:
        return str(resolve_path(parts, client, name, "models"))
    if name not in NAMES:
        raise Problem(
            404, f"there is no model {name[:80]!r} that hears",
            hint=f"There are: {', '.join(NAMES)}; or leave it out.", param="model",
        )  # fmt: skip
    return name
