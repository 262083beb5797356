from __future__ import annotations

import pytest

from anyrig.app.engines import VoiceOptions
from anyrig.options import list_options
from anyrig.text.language_names import language_code


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("en", "en"), ("en-GB", "en-GB"), ("pt_BR", "pt_BR"), ("auto", "auto"), ("", ""),
        ("German", "de"), (" deutsch ", "de"), ("ESPAÑOL", "es"), ("farsi", "fa"), ("日本語", "ja"),
        ("Elvish", ""),
    ],
)  # fmt: skip
def test_codes_by_name(name: str, code: str) -> None:
    assert language_code(name) == code


def test_options_take_names() -> None:
    option = list_options(VoiceOptions)["language"]
    assert option.parse_text("French") == "fr"
    assert option.parse_setting("auto") == "auto"
    assert option.check("Spanish") == "es"
