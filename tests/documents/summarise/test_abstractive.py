from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anyrig.devices.choose import DeviceRequest, choose_device
from anyrig.devices.discovery import discover
from anyrig.documents.summarise.abstractive import (
    AbstractiveSummarizer,
    Seq2SeqModel,
    find,
    in_folder,
)
from anyrig.documents.summarise.seq2seq import Seq2Seq, SummaryWindow
from anyrig.errors import InvalidInputError, MissingWeightsError
from anyrig.placement import PlacementPlan, plan_placement
from anyrig.text.document import Document
from tests.documents.summarise import tiny_writers

pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def bart(tmp_path_factory: pytest.TempPathFactory) -> Seq2SeqModel:
    return in_folder(tiny_writers.bart(tmp_path_factory.mktemp("bart")))


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Seq2SeqModel:
    return in_folder(tiny_writers.t5(tmp_path_factory.mktemp("t5")))


def placed(writer: Seq2SeqModel) -> PlacementPlan:
    machine = discover({})
    return plan_placement(
        machine, choose_device(machine, (DeviceRequest("cpu", "flag"),)), writer.need()
    )


@pytest.fixture(scope="module")
def summarizer(bart: Seq2SeqModel) -> Iterator[AbstractiveSummarizer]:
    with AbstractiveSummarizer(bart, placed=placed(bart), environment=dict(os.environ)) as made:
        yield made


def build(text: str) -> Document:
    return Document.from_text(text, Path("a.txt"))


def engine(writer: Seq2SeqModel) -> Seq2Seq:
    return Seq2Seq(placed(writer).placements[0], **writer.build_factory().options)


def test_a_folder_tells_what_it_reads_and_how(bart: Seq2SeqModel, t5: Seq2SeqModel) -> None:
    assert (bart.longest, bart.prefix, bart.beams) == (96, "", 4)
    assert (t5.longest, t5.prefix, t5.beams) == (512, "summarize: ", 2)


def test_folders_that_do_not_write_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no folder"):
        find("./nothing", models=tmp_path)
    with pytest.raises(MissingWeightsError, match="not on this machine"):
        find("facebook/bart-large-cnn", models=tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(InvalidInputError, match="cannot summarise"):
        in_folder(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bart"}))
    with pytest.raises(MissingWeightsError, match="no weights"):
        in_folder(tmp_path)
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(InvalidInputError, match="not an object"):
        in_folder(tmp_path)


def test_a_long_text_goes_in_windows_that_lose_nothing(summarizer: AbstractiveSummarizer) -> None:
    text = tiny_writers.ALICE[:1500]
    told: list[tuple[int, int]] = []
    found = summarizer.summarise(
        build(text), words=12, on_progress=lambda n, of: told.append((n, of))
    )
    assert len(found.parts) > 3
    assert found.rounds > 1
    covered = "".join("".join(text[part.start : part.end].split()) for part in found.parts)
    assert covered == "".join(text.split())
    assert found.text
    assert found.method == f"written by {summarizer.model.name}"
    assert told[0][0] == 1


def test_the_same_text_gives_the_same_summary(summarizer: AbstractiveSummarizer) -> None:
    text = tiny_writers.ALICE[:300]
    assert summarizer.summarise(build(text), words=10) == summarizer.summarise(
        build(text), words=10
    )


def test_a_sentence_longer_than_the_model_is_cut_in_pieces(
    summarizer: AbstractiveSummarizer,
) -> None:
    text = "word " * 200 + "x" * 300
    found = summarizer.summarise(build(text), words=8, language="en")
    assert len(found.parts) > 2
    assert found.parts[-1].end == len(text)


def test_the_engine_writes_what_transformers_writes(bart: Seq2SeqModel) -> None:
    import torch
    import transformers

    theirs: Any = transformers
    text = "Alice was beginning to get very tired of sitting by her sister on the bank."
    [ours] = engine(bart).run([SummaryWindow(text, 30, 4, 12)])
    model = theirs.BartForConditionalGeneration.from_pretrained(bart.folder).eval()
    tokenizer = theirs.AutoTokenizer.from_pretrained(bart.folder)
    with torch.inference_mode():
        made = model.generate(
            **{key: value for key, value in tokenizer(text, return_tensors="pt").items()
               if key != "token_type_ids"},
            num_beams=4, do_sample=False, early_stopping=True, no_repeat_ngram_size=3,
            min_new_tokens=4, max_new_tokens=12, length_penalty=1.0,
        )  # fmt: skip
    assert ours == " ".join(tokenizer.decode(made[0], skip_special_tokens=True).split())


def test_each_piece_keeps_its_own_limits_in_any_company(bart: Seq2SeqModel) -> None:
    made = engine(bart)
    short = SummaryWindow("Alice was tired.", 6, 2, 4)
    long = SummaryWindow("The White Rabbit ran by in a hurry with a watch.", 20, 10, 30)
    alone = [made.run([short])[0], made.run([long])[0]]
    assert made.run([short, long]) == alone
