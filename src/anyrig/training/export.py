"""A trained model as others take it: a Hugging Face folder, or an ONNX file.

A folder is filled under another name and takes its place when all of it is on the disk; one that
was there before goes only then. Pickles are never written.
"""

from __future__ import annotations

import copy
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from anyrig.errors import InvalidInputError
from anyrig.storage import files
from anyrig.training.checkpoint import tensors
from anyrig.training.checkpoint.write import refusals, sync_folder
from anyrig.training.distributed.group import plain_state_dict
from anyrig.training.models.gpt import Gpt, gpt2_config, to_gpt2_names

_TOKENIZER = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.txt", "vocab.json", "merges.txt", "sentencepiece.bpe.model", "spiece.model",
    "tokenizer.model", "chat_template.jinja",
)  # fmt: skip
_GPT2_END = 50256
WEIGHTS, CONFIG = "model.safetensors", "config.json"


def export_folder(
    model: nn.Module,
    folder: Path,
    *,
    config: Mapping[str, Any] | None = None,
    tokenizer_files: Sequence[Path] = (),
    weights: Mapping[str, torch.Tensor] | None = None,
) -> Path:
    """Write config.json, model.safetensors and a tokenizer's files into a folder; its path.

    Args:
        model: one of transformers, our own GPT (written as a GPT-2 that transformers loads), or
            any module together with a config.
        folder: replaced when it is there.
        config: what config.json says; known for the first two, and added to what is known.
        tokenizer_files: files that go along, or folders with a tokenizer's files.
        weights: instead of the model's own, as a checkpoint has them.
    """
    model = plain_model(model)
    state = dict(weights) if weights is not None else plain_state_dict(model)
    with whole_folder(folder) as place:
        if hasattr(model, "save_pretrained"):
            _saved_by_transformers(model, state, place)
            _add_to_config(place / CONFIG, config or {})
        else:
            named, told = _named(model, state, config)
            tensors.write(place / WEIGHTS, _once(_host(named)))
            tensors.write_bytes(place / CONFIG, json.dumps(told, indent=2).encode())
        for path in tokenizer_files:
            _copied(Path(path), place)
    return folder


def _saved_by_transformers(model: Any, state: Mapping[str, torch.Tensor], place: Path) -> None:
    from anyrig.training.tasks.texts import hushed

    with hushed():
        model.save_pretrained(str(place), state_dict=_host(state))
    mode = (place / CONFIG).stat().st_mode
    for file in place.glob("*.safetensors"):
        file.chmod(mode)  # safetensors lets nobody but the owner read what it writes


def _named(
    model: nn.Module, state: dict[str, torch.Tensor], config: Mapping[str, Any] | None
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    if isinstance(model, Gpt):
        known: dict[str, Any] = dict(gpt2_config(model.shape))
        known["dtype"] = str(_dtype(state)).removeprefix("torch.")
        if model.vocabulary <= _GPT2_END:
            known |= {"bos_token_id": None, "eos_token_id": None}  # else transformers' own 50256
        return to_gpt2_names(state, model.vocabulary), {**known, **(config or {})}
    if config is None:
        raise InvalidInputError(
            f"cannot write a config.json for a {type(model).__name__}",
            hint="Pass config=, a dictionary that says how to build the model.",
        )
    return state, dict(config)


def plain_model(model: nn.Module) -> nn.Module:
    """The model that torch.compile or DistributedDataParallel was put around."""
    for name in ("_orig_mod", "module"):
        inner = getattr(model, name, None)
        if isinstance(inner, nn.Module) and len(list(model.children())) == 1:
            return plain_model(inner)
    return model


def _dtype(state: Mapping[str, torch.Tensor]) -> torch.dtype:
    floats = [value.dtype for value in state.values() if value.is_floating_point()]
    return floats[0] if floats else torch.float32


def _host(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """In the host's memory, twins still twins: save_pretrained asks that of tied weights."""
    moved: dict[int, torch.Tensor] = {}
    found = {}
    for name, value in state.items():
        plain = value.full_tensor() if hasattr(value, "full_tensor") else value
        where = plain.data_ptr() if plain.numel() else id(plain)
        if where not in moved or moved[where].shape != plain.shape:
            moved[where] = plain.detach().cpu().contiguous()
        found[name] = moved[where]
    return found


def _once(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tied weights under their first name alone, as safetensors files have them."""
    seen: set[int] = set()
    found = {}
    for name, value in state.items():
        if id(value) not in seen:
            found[name] = value
        seen.add(id(value))
    return found


def _add_to_config(path: Path, more: Mapping[str, Any]) -> None:
    if more:
        told = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**told, **more}, indent=2), encoding="utf-8")


def _copied(path: Path, place: Path) -> None:
    if path.is_dir():
        there = [path / name for name in _TOKENIZER if (path / name).is_file()]
        if not there:
            raise InvalidInputError(
                f"{path} contains no tokenizer", hint="Name a folder with tokenizer.json."
            )
    elif path.is_file():
        there = [path]
    else:
        raise InvalidInputError(
            f"there is no {path}", hint="Name a tokenizer's file, or its folder."
        )
    for one in there:
        shutil.copyfile(one, place / one.name)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill that takes its place when the block ends well, and is gone otherwise."""
    with refusals(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
        mark = f"{folder.name}.{secrets.token_hex(4)}"
        place = folder.with_name(f".{mark}")
        place.mkdir()
        try:
            yield place
            for path in place.rglob("*"):
                if path.is_file():
                    _sync(path)
            sync_folder(place)
            _swapped(place, folder, folder.with_name(f".{mark}.old"))
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _swapped(place: Path, folder: Path, aside: Path) -> None:
    """No system renames over a full folder: the old one steps aside for a moment."""
    if folder.exists():
        if not folder.is_dir():
            raise InvalidInputError(f"{folder} is a file", hint="Name another folder.")
        os.rename(folder, aside)
    try:
        os.rename(place, folder)
    except OSError:
        if aside.exists():
            os.rename(aside, folder)
        raise
    sync_folder(folder.parent)
    shutil.rmtree(aside, ignore_errors=True)


def export_onnx(
    model: nn.Module,
    inputs: Mapping[str, torch.Tensor],
    path: Path,
    *,
    outputs: Sequence[str] = ("logits",),
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
) -> Path:
    """Write a model as an ONNX file in fp32 that takes any number of items; its path.

    The file is first run in ONNX Runtime beside the model, with the example and with other sizes:
    one that gives other numbers is not written.

    Beside a folder's config.json and tokenizer.json, `model.onnx` with inputs `input_ids` and
    `attention_mask` and the output `logits` is a classifier that `anyrig classify --with` takes,
    with the output `last_hidden_state` an encoder for `anyrig embed --model`.

    Args:
        model: whose outputs are tensors, or something that holds them in the outputs' order.
        inputs: an example of at least two items, by the names of `forward`.
        path: of the file; replaced when it is there.
        outputs: names of the first outputs; others are left out.
        dynamic: names of the sides that may be any size, by input; the first of each when None.
    """
    from anyrig.training.onnx_export import exported

    sides = dynamic or {name: {0: "batch"} for name in inputs}
    plain = copy.deepcopy(plain_model(model)).cpu().float().eval()
    data = exported(plain, {n: v.cpu() for n, v in inputs.items()}, outputs, sides)
    with refusals(path.parent), files.open_atomic(path) as file:
        file.write(data)
    return path
