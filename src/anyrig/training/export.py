"""Write a trained model for other programs: a Hugging Face folder, or an ONNX file.

A folder is written under another name and renamed when it is complete. Pickles are never written.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import logging
import os
import secrets
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from anyrig.errors import InvalidInputError, StorageError
from anyrig.install import format_install
from anyrig.storage.atomic_file import explain_write_error
from anyrig.storage.files import open_atomic
from anyrig.training.distributed.group import plain_state_dict
from anyrig.training.models.gpt import Gpt, gpt2_config, to_gpt2_names

DynamicAxes = Mapping[str, Mapping[int, str]]
"""Names of the axes of each input that may have any size."""
_TOKENIZER = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.txt", "vocab.json", "merges.txt", "sentencepiece.bpe.model", "spiece.model",
    "tokenizer.model", "chat_template.jinja",
)  # fmt: skip
_GPT2_END = 50256
WEIGHTS, CONFIG = "model.safetensors", "config.json"


# -- Hugging Face folders --------------------------------------------------------------------------


def export_folder(
    model: nn.Module,
    folder: Path | str,
    *,
    config: Mapping[str, Any] | None = None,
    tokenizer_files: Sequence[Path | str] = (),
) -> Path:
    """Write config.json, model.safetensors and a tokenizer's files into a folder; its path.

    Args:
        model: one of transformers, our own GPT (written as a GPT-2 that transformers loads), or
            any module together with a config.
        folder: replaced if it exists.
        config: the content of config.json; for the first two it is added to the known content.
        tokenizer_files: files to copy, or folders with a tokenizer's files.
    """
    model, folder = unwrap_model(model), Path(folder)
    state = plain_state_dict(model)
    with replace_folder(folder) as part:
        if hasattr(model, "save_pretrained"):
            save_pretrained(model, part, state)
            if config:
                about = json.loads((part / CONFIG).read_text(encoding="utf-8"))
                (part / CONFIG).write_text(json.dumps({**about, **config}, indent=2), "utf-8")
        else:
            state, about = _describe(model, state, config)
            (part / CONFIG).write_text(json.dumps(about, indent=2), encoding="utf-8")
            save_weights(state, part / WEIGHTS)
            share_permissions(part)
        for path in tokenizer_files:
            _copy_tokenizer(Path(path), part)
    return folder


def save_pretrained(
    model: Any, folder: Path, state: Mapping[str, torch.Tensor] | None = None
) -> None:
    """Write config.json and the weights of a model of transformers.

    Args:
        model: of transformers.
        folder: that exists.
        state: other weights; the model's own in fp32 when None.
    """
    from anyrig.training.tasks.texts import quiet_transformers

    if state is None:
        state = {
            name: value.float() if value.is_floating_point() else value
            for name, value in model.state_dict().items()
        }
        model.config.dtype = "float32"
    with quiet_transformers():
        model.save_pretrained(str(folder), state_dict=_to_host(state))
    share_permissions(folder)


def save_weights(state: Mapping[str, torch.Tensor], path: Path) -> None:
    """A safetensors file; tied weights once, under their first name."""
    from safetensors.torch import save_file

    tensors = {id(value): (name, value) for name, value in reversed(_to_host(state).items())}
    save_file(dict(reversed(tensors.values())), path, metadata={"format": "pt"})


def share_permissions(folder: Path) -> None:
    """safetensors lets only the owner read its files; here they follow the umask."""
    mode = next(folder.glob("*.json")).stat().st_mode
    for file in folder.glob("*.safetensors"):
        file.chmod(mode)


def _describe(
    model: nn.Module, state: dict[str, torch.Tensor], config: Mapping[str, Any] | None
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The weights by the names of the format, and the content of config.json."""
    if isinstance(model, Gpt):
        about: dict[str, Any] = dict(gpt2_config(model.shape))
        dtypes = (value.dtype for value in state.values() if value.is_floating_point())
        about["dtype"] = str(next(dtypes, torch.float32)).removeprefix("torch.")
        if model.vocabulary <= _GPT2_END:
            about |= {"bos_token_id": None, "eos_token_id": None}  # else transformers' own 50256
        return to_gpt2_names(state, model.vocabulary), {**about, **(config or {})}
    if config is None:
        raise InvalidInputError(
            f"cannot write a config.json for a {type(model).__name__}",
            hint="Pass config=, a dictionary that says how to build the model.",
        )
    return state, dict(config)


def unwrap_model(model: nn.Module) -> nn.Module:
    """The model inside torch.compile or DistributedDataParallel."""
    for name in ("_orig_mod", "module"):
        inner = getattr(model, name, None)
        if isinstance(inner, nn.Module) and len(list(model.children())) == 1:
            return unwrap_model(inner)
    return model


def _to_host(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """In host memory; tied weights stay one tensor, as save_pretrained requires."""
    copies: dict[tuple[int, torch.Size], torch.Tensor] = {}
    result = {}
    for name, value in state.items():
        tensor = value.full_tensor() if hasattr(value, "full_tensor") else value
        key = (tensor.data_ptr() if tensor.numel() else id(tensor), tensor.shape)
        if key not in copies:
            copies[key] = tensor.detach().cpu().contiguous()
        result[name] = copies[key]
    return result


def _copy_tokenizer(path: Path, part: Path) -> None:
    if path.is_dir():
        files = [path / name for name in _TOKENIZER if (path / name).is_file()]
        if not files:
            raise InvalidInputError(
                f"{path} contains no tokenizer", hint="Name a folder with tokenizer.json."
            )
    elif path.is_file():
        files = [path]
    else:
        raise InvalidInputError(
            f"there is no {path}", hint="Name a tokenizer's file, or its folder."
        )
    for file in files:
        shutil.copyfile(file, part / file.name)


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """A new folder that replaces `folder` when the block succeeds, and is deleted otherwise."""
    from safetensors import SafetensorError

    part = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        part.mkdir(parents=True)
        yield part
        for path in part.rglob("*"):
            if path.is_file():
                with path.open("rb+") as file:
                    os.fsync(file.fileno())
        _swap_folders(part, folder)
    except OSError as error:
        raise explain_write_error(error, folder) from error
    except SafetensorError as error:
        raise StorageError(
            f"{folder} was not written: {error}", hint="Free disk space, or use another folder."
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _swap_folders(part: Path, folder: Path) -> None:
    """No system renames over a full folder: the old one is moved aside for a moment."""
    old = part.with_name(f"{part.name}.old")
    if folder.exists():
        if not folder.is_dir():
            raise InvalidInputError(f"{folder} is a file", hint="Name another folder.")
        os.rename(folder, old)
    try:
        os.rename(part, folder)
    except OSError:
        if old.exists():
            os.rename(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


# -- ONNX ------------------------------------------------------------------------------------------

_MAX_BYTES = (2 << 30) - (8 << 20)  # of one protobuf message
_TOLERANCE = 1e-3
"""Relative; a tenth of it of the largest value is allowed as well."""
_LOGGERS = ("torch.export", "torch.onnx", "torch.fx", "onnxscript", "onnx_ir")


def export_onnx(
    model: nn.Module,
    inputs: Mapping[str, torch.Tensor],
    path: Path | str,
    *,
    outputs: Sequence[str] = ("logits",),
    dynamic: DynamicAxes | None = None,
) -> Path:
    """Write a model as an ONNX file in fp32 that takes any number of items; its path.

    `torch.onnx.export` writes it. It is first run in ONNX Runtime beside the model, with the
    example and with other sizes; a file whose results differ is not kept.

    Beside a folder's config.json and tokenizer.json, `model.onnx` with inputs `input_ids` and
    `attention_mask` and the output `logits` is a classifier that `anyrig classify --with` takes,
    with the output `last_hidden_state` an encoder for `anyrig embed --model`.

    Args:
        model: whose outputs are tensors, or something that holds them in the outputs' order.
        inputs: an example of at least two items, by the names of `forward`.
        path: of the file; replaced if it exists.
        outputs: names of the first outputs; others are left out.
        dynamic: names of the axes that may have any size, by input; the first of each when None.
    """
    path = Path(path)
    axes = dynamic or {name: {0: "batch"} for name in inputs}
    example = {name: value.cpu() for name, value in inputs.items()}
    _check_example(example, axes)
    wrapped = _NamedInputs(
        copy.deepcopy(unwrap_model(model)).cpu().float().eval(), tuple(inputs), len(outputs)
    )
    # Computed first: what exporting does to a model must not change what it is compared with.
    expected = [(given, _run_model(wrapped, given)) for given in _resize(wrapped, example, axes)]
    data = _export(wrapped, example, outputs, axes)
    _compare(data, expected, type(wrapped.model).__name__)
    try:
        with open_atomic(path) as file:
            file.write(data)
    except OSError as error:
        raise explain_write_error(error, path) from error
    return path


class _NamedInputs(nn.Module):
    """Calls a model with keyword arguments, and returns its first outputs as a tuple."""

    def __init__(self, model: nn.Module, names: Sequence[str], num_outputs: int) -> None:
        super().__init__()
        self.model, self.names, self.num_outputs = model, tuple(names), num_outputs

    def forward(self, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = self.model(**dict(zip(self.names, values, strict=True)))
        if isinstance(result, torch.Tensor):
            result = (result,)
        if isinstance(result, Mapping):  # as in transformers
            result = tuple(result.values())
        tensors = tuple(value for value in result if isinstance(value, torch.Tensor))
        if len(tensors) < self.num_outputs:
            raise InvalidInputError(
                f"{type(self.model).__name__} returns {len(tensors)} tensors, but "
                f"{self.num_outputs} outputs are named",
                hint="Name as many outputs as it returns, or fewer.",
            )
        return tensors[: self.num_outputs]


def _check_example(example: Mapping[str, torch.Tensor], axes: DynamicAxes) -> None:
    for name, value in example.items():
        for axis, word in axes.get(name, {}).items():
            if value.shape[axis] < 2:
                raise InvalidInputError(
                    f"the example's {name} has {value.shape[axis]} {word}",
                    hint="Pass at least two: torch takes a size of one for a constant.",
                )


def _export(
    wrapped: _NamedInputs,
    example: Mapping[str, torch.Tensor],
    outputs: Sequence[str],
    axes: DynamicAxes,
) -> bytes:
    weights = {one.data_ptr(): one.nbytes for one in (*wrapped.parameters(), *wrapped.buffers())}
    if sum(weights.values()) > _MAX_BYTES:
        raise InvalidInputError(
            "an ONNX file takes 2 GiB of weights at most",
            hint="Export a folder instead: `anyrig embed --model` runs that.",
        )
    # A name without a size: torch finds out itself whether an axis may vary.
    shapes = tuple(dict(axes.get(name, {})) for name in example)
    try:
        with _quiet():
            program: Any = torch.onnx.export(
                wrapped, tuple(example.values()), dynamo=True, dynamic_shapes=(shapes,),
                input_names=list(example), output_names=list(outputs), external_data=False,
                verbose=False,
            )  # fmt: skip
            data: bytes = program.model_proto.SerializeToString()
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            f"ONNX files need the package {error.name}",
            hint=f"Install it: {format_install('anyrig[torch]')}",
        ) from error
    except Exception as error:  # noqa: BLE001  # torch has no common class for these
        raise InvalidInputError(
            f"{type(wrapped.model).__name__} cannot be exported to ONNX: {_root_cause(error)}",
            hint="Its forward must not branch on the values of tensors, and every operation must "
            "exist in ONNX. export_folder writes the weights.",
        ) from error
    return data


def _root_cause(error: BaseException) -> str:
    """The message of the first cause: it says more than torch's summary."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300].rstrip(": ")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's messages to developers of torch."""
    levels = {name: logging.getLogger(name).level for name in _LOGGERS}
    unread = io.StringIO()
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(unread),
        contextlib.redirect_stderr(unread),
    ):
        warnings.simplefilter("ignore")
        try:
            for name in levels:
                logging.getLogger(name).setLevel(logging.ERROR)
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)


def _resize(
    wrapped: _NamedInputs, example: Mapping[str, torch.Tensor], axes: DynamicAxes
) -> Iterator[Mapping[str, torch.Tensor]]:
    """The example, and inputs of other sizes that the model accepts: each axis alone, then all."""
    yield example
    sizes: dict[str, int] = {}
    for name, named in axes.items():
        for axis, word in named.items():
            sizes.setdefault(word, int(example[name].shape[axis]))
    changes = [{word: size} for word, now in sizes.items() for size in (1, now + 1, 2 * now + 3)]
    if len(sizes) > 1:
        changes += [{word: now + more for word, now in sizes.items()} for more in (-1, 1)]
    accepted: set[str] = set()
    for seed, change in enumerate(changes):
        inputs = _draw_inputs(example, axes, change, seed)
        try:
            _run_model(wrapped, inputs)
        except Exception:  # noqa: BLE001  # any model, at a size that it need not accept
            continue
        accepted.update(change)
        yield inputs
    if missing := [word for word in sizes if word not in accepted]:
        raise InvalidInputError(
            f"{type(wrapped.model).__name__} runs with {sizes[missing[0]]} {missing[0]} only",
            hint="Leave that axis out of `dynamic`, or let the model take other sizes.",
        )


def _draw_inputs(
    example: Mapping[str, torch.Tensor], axes: DynamicAxes, sizes: Mapping[str, int], seed: int
) -> dict[str, torch.Tensor]:
    """The example with other sizes: noise is added to floats, integers are the example's own."""
    generator = torch.Generator().manual_seed(seed)
    inputs = {}
    for name, value in example.items():
        for axis, word in axes.get(name, {}).items():
            if word in sizes:
                value = value.index_select(axis, torch.arange(sizes[word]) % value.shape[axis])
        if value.is_floating_point():
            spread = float(value.float().std()) if value.numel() > 1 else 0.0
            noise = torch.randn(value.shape, generator=generator) * (spread or 1.0)
            value = value + noise.to(value.dtype)
        inputs[name] = value
    return inputs


def _run_model(wrapped: _NamedInputs, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    with torch.no_grad(), _quiet():
        return [value.clone() for value in wrapped(*inputs.values())]


def _compare(
    data: bytes,
    expected: Sequence[tuple[Mapping[str, torch.Tensor], list[torch.Tensor]]],
    name: str,
) -> None:
    """Run the file in ONNX Runtime with each of the inputs."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        # Inputs that change nothing are left out of a graph.
        names = {one.name for one in session.get_inputs()}
        results = [
            session.run(None, {one: value.numpy() for one, value in given.items() if one in names})
            for given, _ in expected
        ]
    except Exception as error:  # noqa: BLE001  # onnxruntime has a class of its own for each failure
        raise InvalidInputError(
            f"the ONNX file of {name} does not run in ONNX Runtime: {_root_cause(error)}",
            hint="It is not written. export_folder writes the weights instead.",
        ) from error
    for (given, right), found in zip(expected, results, strict=True):
        for one, other in zip(found, right, strict=True):
            finite = other.double()[other.isfinite()].abs()
            largest = float(finite.max()) if finite.numel() else 0.0
            rtol = _TOLERANCE if other.is_floating_point() else 0.0
            try:
                torch.testing.assert_close(
                    torch.from_numpy(one), other, equal_nan=True, check_dtype=False,
                    rtol=rtol, atol=rtol / 10 * largest,
                )  # fmt: skip
            except AssertionError as error:
                sizes = ", ".join("x".join(map(str, value.shape)) for value in given.values())
                difference = "; ".join(filter(None, str(error).splitlines()[1:4]))
                raise InvalidInputError(
                    f"the ONNX file of {name} with inputs of {sizes} returns other numbers than "
                    f"the model: {difference or error}",
                    hint="It is not written: the exporter has a fault, or the model draws random "
                    "numbers. export_folder writes the weights instead.",
                ) from error
