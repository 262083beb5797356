"""Which package index is used."""

from __future__ import annotations

import os
from pathlib import Path

from anyrig.storage.package_index import find_index


def test_the_index_is_the_one_that_pip_is_configured_for(tmp_path: Path) -> None:
    variables = {**os.environ, "PIP_INDEX_URL": "http://127.0.0.1/simple/"}
    assert find_index(variables) == "http://127.0.0.1/simple"
    config = tmp_path / "pip.conf"
    config.write_text("[global]\nindex-url = http://127.0.0.1/mirror/\n")
    variables = {**os.environ, "PIP_CONFIG_FILE": str(config)}
    variables.pop("PIP_INDEX_URL", None)
    assert find_index(variables) == "http://127.0.0.1/mirror"
    config.write_text("")
    assert find_index(variables).startswith("https://")
