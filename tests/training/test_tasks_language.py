"""A language model from text: tokens, windows, the loss by hand, and what comes out at the end."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import pickle
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.training import TrainConfig, Trainer
from anyrig.training.tasks import Task, build_task, corpus
from examples.train.make_images import make

VERSE = "The tide comes in, the tide goes out, and no clock minds.\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.txt").write_text(VERSE * 40, encoding="utf-8")
    (tmp_path / "text" / "b.md").write_text("# Ebb\n\nÅ café — 潮\n" * 20, encoding="utf-8")
    return tmp_path


def made(place: Path, run: str = "run", seed: int = 0, **values: Any) -> Task:
    config = {"kind": "language", "text": "text", "model": "nano", "sample": 20, **values}
    return build_task(config, place, place / run, seed)


def trained(task: Task, steps: int, rate: float = 3e-3, batch: int = 8) -> list[float]:
    optimiser = torch.optim.AdamW(task.model.parameters(), rate)
    losses = []
    for step in range(steps):
        items = [task.data[(step * batch + i) % len(task.data)] for i in range(batch)]
        loss = task.loss(task.model, torch.utils.data.default_collate(items))
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own
        optimiser.step()
        losses.append(loss.item())
    return losses


def test_the_loss_falls_and_the_same_seed_gives_the_same_curve(place: Path) -> None:
    first, again = trained(made(place), 12), trained(made(place), 12)
    other = trained(made(place, seed=1), 1)
    assert abs(first[0] - math.log(257)) < 0.3
    assert first[-1] < first[0] - 1.5
    assert first == again
    assert other[0] != first[0]


def _by_logits(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    logits = model(batch["tokens"][:, :-1])
    targets = batch.get("labels", batch["tokens"])[:, 1:]
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def test_the_loss_is_the_mean_over_targets_that_count(place: Path) -> None:
    task = made(place)
    batch = torch.utils.data.default_collate([task.data[0], task.data[1]])
    torch.testing.assert_close(task.loss(task.model, batch), _by_logits(task.model, batch))
    assert task.units is not None
    assert task.units(batch) == 128
    labels = batch["tokens"].clone()
    labels[0, 3:] = -100
    batch["labels"] = labels
    torch.testing.assert_close(task.loss(task.model, batch), _by_logits(task.model, batch))
    assert task.units(batch) == 2 + 64


def test_each_token_is_the_target_of_one_window(place: Path) -> None:
    task = made(place, context=16, validation=0.25)
    row = torch.tensor(list((VERSE * 40).encode()))
    first, second = task.data[0]["tokens"], task.data[1]["tokens"]
    assert torch.equal(first, row[:17])
    assert torch.equal(second, row[16:33])
    assert task.validation is not None
    num_windows = (task.data.row.num_tokens - 1) // 16
    assert len(task.data) + len(task.validation) == num_windows
    assert len(task.validation) == round(num_windows * 0.25)
    assert torch.equal(
        task.data[len(task.data) - 1]["tokens"][-1:], task.validation[0]["tokens"][:1]
    )
    with pytest.raises(IndexError):
        task.data[len(task.data)]


@pytest.mark.parametrize("tokenizer", ["bytes", "train"])
def test_a_manifest_gives_texts_and_files(place: Path, tokenizer: str) -> None:
    rows = [{"text": VERSE * 20}, {"file": "text/b.md"}, {"file": "none.txt"}, {"note": "empty"}]
    (place / "texts.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n{")
    chosen: dict[str, Any] = {
        "text": (),
        "data": "texts.jsonl",
        "tokenizer": tokenizer,
        "vocabulary": 300,
    }
    task = made(place, **chosen)
    words = corpus.build_byte_tokenizer() if tokenizer == "bytes" else task.finish.words  # type: ignore[union-attr]
    row = np.fromfile(task.data.row.path, task.data.row.kind).tolist()
    other = (place / "text" / "b.md").read_text(encoding="utf-8")
    first, second = ([*map(int, one)] for one in words.encode([VERSE * 20, other]))
    assert row == [*first, words.end, *second, words.end]
    said = {name.partition(", ")[2]: why for name, why in task.skipped.items()}
    assert "cannot be read" in said["line 3"] or "not exist" in said["line 3"]
    assert said["line 4"] == "it has neither text nor file"
    assert said["line 5"].startswith("it is not valid JSON")
    (place / "texts.jsonl").write_text('{"text": "another"}')
    assert made(place, **chosen).data.row == task.data.row


def test_a_manifest_without_texts(place: Path) -> None:
    (place / "texts.csv").write_text("id,text\n1, \n")
    with pytest.raises(InvalidInputError, match=r"texts.csv, line 2: its text is empty"):
        made(place, text=(), data="texts.csv")


def _family(place: Path, family: str) -> str | dict[str, Any]:
    """A model of our own, or the folder of a random one of transformers."""
    if family == "gpt":
        return {"preset": "nano", "context": 64}
    transformers: Any = pytest.importorskip("transformers")
    torch.manual_seed(3)
    if family == "gpt2":
        config = transformers.GPT2Config(
            n_embd=16, n_layer=2, n_head=2, n_positions=64, vocab_size=257, initializer_range=0.3
        )
        model = transformers.GPT2LMHeadModel(config)
    elif family == "llama":
        config = transformers.LlamaConfig(
            vocab_size=257, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=32, max_position_embeddings=64, initializer_range=0.3,
        )  # fmt: skip
        model = transformers.LlamaForCausalLM(config)
    else:
        config = transformers.BloomConfig(
            vocab_size=257, hidden_size=16, n_layer=2, n_head=2, initializer_range=0.3
        )
        model = transformers.BloomForCausalLM(config)
    model.save_pretrained(place / family)
    corpus.build_byte_tokenizer().save(place / family / "tokenizer.json")
    return f"./{family}"


@pytest.mark.parametrize("family", ["gpt", "gpt2", "llama"])
def test_packed_documents_have_the_loss_that_they_have_alone(place: Path, family: str) -> None:
    texts = ["The tide.", "No clock minds, and nobody asks it to.", "a", "Ebb and flow."]
    (place / "texts.jsonl").write_text("\n".join(json.dumps({"text": one}) for one in texts))
    model = _family(place, family)
    chosen: dict[str, Any] = {"text": (), "data": "texts.jsonl", "model": model, "context": 64}
    task = made(place, **chosen, separate_documents=True, validation=0.0)
    batch = torch.utils.data.default_collate([task.data[0]])
    assert task.units is not None
    sums, counts = [], []
    words = corpus.build_byte_tokenizer()
    task.model.eval()
    with torch.no_grad():
        packed = task.loss(task.model, batch)
        place_in_row = 0
        for text in texts:
            document = [*map(int, next(words.encode([text]))), words.end]
            part = document[: 65 - place_in_row]
            place_in_row += len(part)
            alone = {"tokens": torch.tensor([part])}
            if len(part) > 1:
                counts.append(task.units(alone))
                sums.append(float(task.loss(task.model, alone)) * counts[-1])
        joined = made(place, "joined", **chosen, validation=0.0)
        crossing = joined.loss(task.model, torch.utils.data.default_collate([joined.data[0]]))
    assert task.units(batch) == sum(counts) == 64 - 3
    assert float(packed) == pytest.approx(sum(sums) / sum(counts), rel=1e-5)
    assert abs(float(crossing) - float(packed)) > 1e-3
    positions = batch["positions"][0].tolist()
    assert positions[:12] == [*range(10), 0, 1]


def test_packed_documents_are_trained_and_split(place: Path) -> None:
    task = made(place, separate_documents=True, context=16)
    losses = trained(task, 12)
    assert losses[-1] < losses[0] - 1
    batch = torch.utils.data.default_collate([task.data[n] for n in range(4)])
    with torch.no_grad():
        whole = float(task.loss(task.model, batch)) * task.units(batch)  # type: ignore[misc]
        parts = [{name: one[n : n + 1] for name, one in batch.items()} for n in range(4)]
        pieces = [float(task.loss(task.model, p)) * task.units(p) for p in parts]  # type: ignore[misc]
    assert whole == pytest.approx(sum(pieces), rel=1e-5)


def test_a_document_ends_with_the_token_that_its_folder_names(place: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = place / str(_family(place, "gpt2"))
    words = {"<stop>": 0, "<other>": 1, "tide": 2}
    tokenizer = Tokenizer(models.WordLevel(words, "<other>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    with pytest.raises(InvalidSettingError, match="a token that ends a text"):
        made(place, "first", model=str(folder), separate_documents=True, context=8)
    for ends in ("<stop>", {"content": "<stop>"}):
        (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": ends}))
        assert corpus.load_tokenizer(folder).end == 0


def test_a_family_whose_attention_crosses_documents_is_refused(place: Path) -> None:
    model = _family(place, "bloom")
    with pytest.raises(InvalidSettingError, match="crosses documents"):
        made(place, model=model, separate_documents=True, context=32)


def test_windows_travel_to_another_process(place: Path) -> None:
    task = made(place)
    task.data[0]
    loader = torch.utils.data.DataLoader(
        task.data, batch_size=4, num_workers=1, multiprocessing_context="spawn"
    )
    batch = next(iter(loader))
    assert torch.equal(batch["tokens"][3], task.data[3]["tokens"])
    assert len(pickle.dumps(task.data)) < 2000
    pickle.loads(pickle.dumps((task.loss, task.units, task.metrics)))


def test_a_run_goes_on_with_the_text_it_began_with(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = made(place).data[0]["tokens"]
    (place / "text" / "a.txt").write_text("Something else.\n" * 100)
    with caplog.at_level(logging.WARNING):
        task = made(place)
    assert torch.equal(task.data[0]["tokens"], before)
    assert "goes on with the text it began with" in caplog.text
    assert not torch.equal(made(place, run="other").data[0]["tokens"], before)


def test_half_written_tokens_are_made_again(place: Path) -> None:
    row = made(place).data.row
    whole = row.path.read_bytes()
    row.path.write_bytes(whole[:100])
    assert made(place).data.row.path.read_bytes() == whole


def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_taken(place: Path) -> None:
    (place / "text" / "c.pdf").write_bytes(b"%PDF-1.4 broken")
    (place / "text" / "empty.txt").write_bytes(b"")
    (place / "text" / "wide.txt").write_bytes(("\ufeff" + VERSE).encode("utf-16-le"))
    for _ in range(2):  # the second time from the run's folder
        task = made(place)
        assert sorted(Path(one).name for one in task.skipped) == ["c.pdf", "empty.txt"]
    text = corpus.build_byte_tokenizer().decode(_all(task))
    assert text.count(VERSE) == 41
    assert "潮" in text


def _all(task: Task) -> list[int]:
    row = corpus.TokenWindows(task.data.row, task.data.row.num_tokens - 1, 0, 1)
    found: list[int] = row[0]["tokens"].tolist()
    return found


def test_links_that_lead_out_of_a_folder_or_a_pattern_are_left_out(
    place: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    private = tmp_path_factory.mktemp("private")
    (private / "diary.txt").write_text("nobody's business " * 500)
    (place / "text" / "linked").symlink_to(private, target_is_directory=True)
    (place / "text" / "diary.txt").symlink_to(private / "diary.txt")
    for pattern in ("text", "text/*"):
        found = corpus.find_files([pattern], place)
        assert {one.name for one in found.paths} == {"a.txt", "b.md"}
        assert "diary.txt" in {Path(one).name for one in found.skipped}
    with pytest.raises(InvalidInputError, match="no text"):
        corpus.find_files(["text/lin*/*.txt"], place)


def test_bytes_equal_the_tokenizer_that_is_written_for_others(tmp_path: Path) -> None:
    words = corpus.build_byte_tokenizer()
    text = "Hé, 潮! \x00\x7f <|endoftext|>\r\n\t" + "".join(map(chr, range(256)))
    ours = next(words.encode([text])).tolist()
    words.save(tmp_path / "tokenizer.json")
    theirs = corpus.load_tokenizer(tmp_path / "tokenizer.json")
    assert ours == list(text.encode())
    assert next(theirs.encode([text])).tolist() == ours
    assert words.decode(ours) == text
    assert words.size == 257
    assert words.end == 256
    assert next(words.encode(["a\ud800b"])).tolist() == list(b"a?b")


def test_a_tokenizer_trained_on_the_text_is_shorter_and_loses_nothing(place: Path) -> None:
    task = made(place, tokenizer="train", vocabulary=300, validation=0)
    kept = corpus.load_tokenizer(place / "run" / "tokenizer-300.json")
    assert kept.size == 300
    assert task.model.get_parameter("tokens.weight").shape[0] == 320
    assert task.data.row.num_tokens < task.data.row.num_bytes * 0.6
    assert VERSE * 40 in kept.decode(_all(task))
    again = made(place, run="again", tokenizer="train", vocabulary=300, validation=0)
    assert torch.equal(again.data[0]["tokens"], task.data[0]["tokens"])
    assert task.validation is None


def test_what_is_written_at_the_end_opens_in_transformers(place: Path) -> None:
    transformers = pytest.importorskip("transformers")
    task = made(place, prompt="The tide")
    trained(task, 3)
    assert task.finish is not None
    said = task.finish(place / "out")
    again = task.finish(place / "out")
    assert said["sample"] == again["sample"]
    assert (place / "out" / "sample.txt").read_text(encoding="utf-8").startswith("The tide")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(place / "out" / "model").eval()
    window = task.data[0]["tokens"][None, :-1]
    task.model.eval()
    with torch.no_grad():
        torch.testing.assert_close(theirs(window).logits, task.model(window), atol=1e-5, rtol=1e-5)

    tuned = made(place, run="tuned", model="out/model", context=32, sample=4)
    losses = trained(tuned, 4)
    assert losses[-1] < losses[0]
    assert tuned.finish is not None
    tuned.finish(place / "tuned-out")
    assert json.loads((place / "tuned-out/model/config.json").read_text())["model_type"] == "gpt2"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"modle": "tiny"}, "modle"),
        ({"model": "huge"}, "no preset"),
        ({"model": {"preset": "nano", "width": 63}}, "heads"),
        ({"text": "nowhere"}, "nowhere"),
        ({"text": [], "data": "text/a.txt"}, "contains the token"),
        ({"context": 100_000}, "fewer than a window"),
        ({"kind": "langauge"}, "langauge"),
    ],
)
def test_what_cannot_be_is_refused_with_words(
    place: Path, values: dict[str, Any], said: str
) -> None:
    with pytest.raises((InvalidSettingError, InvalidInputError), match=said) as caught:
        made(place, **values)
    assert caught.value.hint


def test_a_row_of_tokens_made_before_is_taken(place: Path) -> None:
    numbers = [index % 250 for index in range(700)]
    (place / "row.bin").write_bytes(b"".join(one.to_bytes(2, "little") for one in numbers))
    (place / "row.uint32").write_bytes(b"".join(one.to_bytes(4, "little") for one in numbers))
    for name in ("row.bin", "row.uint32"):
        task = made(place, text=[], data=name)
        assert task.data[1]["tokens"].tolist() == numbers[64:129]
    (place / "odd.bin").write_bytes(b"abc")
    with pytest.raises(InvalidInputError, match="not a file of tokens"):
        made(place, text=[], data="odd.bin")


def test_a_folder_from_before_tokenizer_json_is_read(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    words = corpus.train_tokenizer([VERSE] * 9, 280)
    model = json.loads(words.text())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = [one if isinstance(one, str) else " ".join(one) for one in model["merges"]]
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    older = corpus.load_tokenizer(tmp_path)
    assert next(older.encode([VERSE])).tolist() == next(words.encode([VERSE])).tolist()


def test_a_folder_that_is_called_like_a_preset_is_asked_about(place: Path) -> None:
    transformers = pytest.importorskip("transformers")
    shape = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64, "vocab_size": 257}
    ends = {"bos_token_id": 256, "eos_token_id": 256}
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape, **ends)).save_pretrained(
        place / "tiny"
    )
    corpus.build_byte_tokenizer().save(place / "tiny" / "tokenizer.json")
    with pytest.raises(InvalidSettingError, match="a preset and a folder"):
        made(place, model="tiny")
    of_folder: Any = made(place, "one", model="./tiny").model
    assert of_folder.config.n_embd == 16
    assert not hasattr(made(place, "two", model={"preset": "tiny"}).model, "config")


FOLDER = Path(__file__).resolve().parents[2] / "examples" / "train"
MODULES = "classifier corpus embedding images language pictures texts"


def run(name: str, place: Path, steps: int = 0, count: int = 200, **task: Any) -> Any:
    """What a run came to, and the mean loss of its last steps."""
    config = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    settings = TrainConfig.from_table(config["train"])
    table = {**config["task"], **task}
    if table.get("data") == "shapes":
        make(place / "shapes", count)
        table["data"] = str(place / "shapes")
    built = build_task(table, FOLDER, place / "run", settings.seed)
    settings = dataclasses.replace(settings, steps=steps or settings.steps, validate_every=0)
    with Trainer.of(built, config=settings, folder=place / "run", device="cpu") as trainer:
        summary = trainer.run()
        losses = [one.loss for one in trainer.history() if one.loss is not None]
    last = losses[-20:]
    return summary, sum(last) / len(last)


def test_the_language_model_leaves_its_first_guess(tmp_path: Path) -> None:
    summary, loss = run("language", tmp_path, 30, model="nano", sample=20)
    assert loss < 6.5
    assert summary.outputs["sample"].startswith("On 5 March")


def test_the_classifier_tells_shapes_better_than_chance(tmp_path: Path) -> None:
    summary, loss = run("images", tmp_path, 30, model="convnet:nano", count=24)
    assert loss < 1.3
    assert set(summary.validation) >= {"loss", "accuracy"}


@pytest.mark.slow
def test_the_language_model_reaches_what_it_says(tmp_path: Path) -> None:
    _, loss = run("language", tmp_path)
    assert loss < 0.8


@pytest.mark.slow
def test_the_classifier_reaches_what_it_says(tmp_path: Path) -> None:
    summary, loss = run("images", tmp_path)
    assert loss < 0.1
    assert summary.validation["accuracy"] > 0.95


def test_naming_a_task_loads_no_library_before_it_is_used() -> None:
    names = ", ".join(f"anyrig.training.tasks.{name}" for name in MODULES.split())
    code = f"import sys, torch; import {names}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"PIL", "tokenizers", "transformers", "safetensors", "lxml"} & set(loaded)
