"""LoRA: small trained matrices beside frozen weights, by the package peft.

adapted = add_lora(model, rank=8)
Trainer(adapted, loader, epochs=3).fit()
save_lora(adapted, Path("adapter"))            # some MB, as peft writes them
merged = merge_lora(adapted)                   # a plain model with what was learnt
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from anyrig.errors import InvalidInputError, InvalidSettingError, MissingPackageError
from anyrig.install import format_install


@dataclass(frozen=True)
class LoraConfig:
    """The `lora` of a `[task]` table."""

    rank: int = 8
    """Rank of the trained matrices."""
    alpha: float = 0.0
    """Their products are scaled by `alpha / rank`; 0: twice the rank."""
    dropout: float = 0.0
    """Dropout before the trained matrices."""
    targets: tuple[str, ...] = ()
    """Names of the layers that get them, or ends of names; if empty, all linear layers but the
    head."""
    adapter: str = ""
    """A folder with a saved adapter to start from; the rest is read from it."""

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise InvalidSettingError(f"the rank of LoRA is {self.rank}", hint="From 1 up.")
        if not 0 <= self.dropout < 1:
            raise InvalidSettingError(
                f"the dropout of LoRA is {self.dropout}", hint="From 0, below 1."
            )


def add_lora(
    model: nn.Module,
    *,
    rank: int = 8,
    alpha: float = 0.0,
    dropout: float = 0.0,
    targets: Sequence[str] = (),
    train: Sequence[str] = (),
) -> Any:
    """Put LoRA's matrices into a model and freeze all else.

    Args:
        model: changed in place: it computes with the new matrices from now on.
        rank: of the matrices.
        alpha: products are scaled by `alpha / rank`; 0 is twice the rank.
        dropout: before the matrices.
        targets: names of layers, or ends of names; all linear layers but the head when empty.
        train: names of modules that are trained as a whole, such as a new head.

    Returns:
        The `peft.PeftModel` around the model. Either of the two can be trained.
    """
    peft = _import_peft()
    whole = tuple(train)
    names = list(targets) or _list_linear(model, whole)
    if not names:
        raise InvalidInputError(
            f"a {type(model).__name__} has no linear layer for LoRA",
            hint="Pass targets=, the names of its layers.",
        )
    config = peft.LoraConfig(
        r=rank, lora_alpha=alpha or 2 * rank, lora_dropout=dropout, target_modules=names,
        modules_to_save=list(whole) or None, task_type=_task_type(model),
    )  # fmt: skip
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="fan_in_fan_out")  # peft corrects it itself
            return peft.get_peft_model(model, config)
    except ValueError as error:
        raise InvalidInputError(
            f"LoRA cannot be added to a {type(model).__name__}: {error}",
            hint="Name linear layers of the model.",
        ) from error


def load_lora(model: nn.Module, folder: Path | str, *, trainable: bool = True) -> Any:
    """Put a saved adapter into the model that it was trained with; as `add_lora` otherwise."""
    peft, folder = _import_peft(), Path(folder)
    if not (folder / "adapter_config.json").is_file():
        raise InvalidInputError(
            f"{folder} contains no adapter", hint="Pass a folder with adapter_config.json."
        )
    try:
        return peft.PeftModel.from_pretrained(
            model, str(folder), is_trainable=trainable, local_files_only=True
        )
    except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        raise InvalidInputError(
            f"{folder} does not fit a {type(model).__name__}: {str(error).splitlines()[0]}",
            hint="Load it into the model that it was trained with.",
        ) from error


def save_lora(adapted: Any, folder: Path | str) -> Path:
    """Write adapter_config.json and adapter_model.safetensors."""
    from anyrig.training.export import replace_folder, share_permissions

    folder = Path(folder)
    with replace_folder(folder) as place:
        adapted.save_pretrained(str(place))
        share_permissions(place)
    return folder


def merge_lora(adapted: Any) -> nn.Module:
    """A copy of the model, on the host, with what was learnt added to its weights."""
    merged: nn.Module = copy.deepcopy(adapted).cpu().merge_and_unload()
    for one in merged.parameters():
        one.requires_grad_(True)
    return merged


def adapt(model: nn.Module, config: LoraConfig, folder: Path, train: Sequence[str] = ()) -> Any:
    """The adapted model of a `[task]` table; relative paths begin at the folder."""
    if config.adapter:
        return load_lora(model, folder / Path(config.adapter).expanduser())
    return add_lora(
        model, rank=config.rank, alpha=config.alpha, dropout=config.dropout,
        targets=config.targets, train=train,
    )  # fmt: skip


def _import_peft() -> Any:
    try:
        import peft
    except ImportError as error:
        raise MissingPackageError(
            "LoRA needs the package peft", hint=format_install("anyrig[lora]")
        ) from error
    return peft


def _list_linear(model: nn.Module, whole: Sequence[str]) -> list[str]:
    """All linear layers but the head and those that are trained as a whole."""
    get_head = getattr(model, "get_output_embeddings", None)
    head = get_head() if callable(get_head) else None
    names = []
    for name, module in model.named_modules():
        is_linear = isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"  # GPT-2's
        if is_linear and module is not head and not _is_below(name, whole):
            names.append(name)
    return names


def _is_below(name: str, modules: Sequence[str]) -> bool:
    return any(f".{name}.".find(f".{one}.") >= 0 for one in modules)


def _task_type(model: nn.Module) -> str | None:
    """What makes peft's Auto classes open the adapter."""
    kind = type(model).__name__
    if kind.endswith("ForSequenceClassification"):
        return "SEQ_CLS"
    return "CAUSAL_LM" if kind.endswith(("ForCausalLM", "LMHeadModel")) else None
