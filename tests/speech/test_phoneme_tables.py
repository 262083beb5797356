"""hibari's dictionary and tagger are searched without being parsed, and answer as if they were."""

from __future__ import annotations

import gzip
import importlib.util
import json
import random
from pathlib import Path
from typing import Any

import pytest

from anyrig.speech.phonemes import tables
from anyrig.storage import derived


@pytest.fixture(params=["kept", "not kept"])
def _folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derived, "_folder", tmp_path if request.param == "kept" else None)


def _asset(name: str) -> Path:
    spec = importlib.util.find_spec("hibari")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "assets" / name


def _parse(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize("name", ["lexicon_us_gold.json.gz", "lexicon_gb_silver.json.gz"])
def test_words_are_found_as_in_the_parsed_dictionary(name: str) -> None:
    path = _asset(name)
    parsed = _parse(path)
    words = list(parsed)
    some = [*words[:20], *words[-20:], *random.Random(7).sample(words, 2000)]
    some += (
        [word + "q" for word in some[:200]] + [word[:-1] for word in some[:200]] + ["", "~", "é"]
    )
    for _ in range(2):  # the second reads what the first kept
        dictionary = tables.DictionaryFile(path)
        assert {word: dictionary.get(word) for word in some} == {
            word: parsed.get(word) for word in some
        }


@pytest.mark.usefixtures("_folder")
def test_the_tagger_decides_as_with_parsed_weights() -> None:
    path = _asset("tagger.json.gz")
    parsed = _parse(path)
    weights = parsed["weights"]
    draw = random.Random(7)
    features = sorted(weights)
    odd = [feature for feature in features if "\\" in feature or '"' in feature][:20]
    rows = [draw.sample(features, 6) + ["nothing"] for _ in range(400)] + [[one] for one in odd]
    for _ in range(2):
        model, scorer = tables.read_tagger(path)
        assert {**model, "weights": weights} == parsed
        for row in rows:
            scores: dict[str, float] = {}
            for feature in row:
                for tag, weight in weights.get(feature, {}).items():
                    scores[tag] = scores.get(tag, 0) + weight
            assert scorer.predict(row) == max(
                model["tags"], key=lambda tag: (scores.get(tag, 0), tag)
            )
    assert scorer.predict(["nothing"]) == "NN"


def test_the_first_and_last_lines_are_found() -> None:
    lines = b"a\t1\nab\t2\nb\t3"
    found = [tables.find_line(lines, key) for key in (b"a", b"ab", b"b", b"", b"aa", b"c")]
    assert found == [b"1", b"2", b"3", None, None, None]
    assert tables.find_line(b"", b"a") is None
