"""Texts as rows of tokens for training: cut, padded batch by batch, and saved beside a model.

What fine-tuning of classifiers and of embedding models share. Texts longer than a model takes are
cut at their end: an example is one row.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from anyrig.errors import InvalidInputError, MissingPackageError, MissingWeightsError
from anyrig.install import format_install

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Ids = tuple[int, ...]
_AT_ONCE = 1024


@dataclass(frozen=True)
class Cutter:
    """A tokenizer.json, and how a model wants its texts cut."""

    tokenizer: Tokenizer
    longest: int
    """The most tokens of a row, those at its ends included."""
    lower: bool = False
    """Whether texts are made small letters first."""

    @classmethod
    def of(cls, source: Path | Tokenizer, longest: int, *, lower: bool = False) -> Cutter:
        """The tokenizer of a file, or one that is loaded; it cuts at what the model can take."""
        from tokenizers import Tokenizer

        try:
            found = source.to_str() if isinstance(source, Tokenizer) else source.read_text("utf-8")
            made = Tokenizer.from_str(found)
        except Exception as error:  # noqa: BLE001 - the library raises a bare Exception
            raise MissingWeightsError(
                f"{source} is not a tokenizer: {error}", hint="It is the model's tokenizer.json."
            ) from error
        made.no_padding()
        made.enable_truncation(longest)
        return cls(made, longest, lower)

    def rows(self, texts: Sequence[str]) -> list[Ids]:
        """The tokens of each text; one that gives none has the number 0."""
        found: list[Ids] = []
        for first in range(0, len(texts), _AT_ONCE):
            some = [_replace_surrogates(text) for text in texts[first : first + _AT_ONCE]]
            if self.lower:
                some = [text.lower() for text in some]
            found += [tuple(one.ids) or (0,) for one in self.tokenizer.encode_batch(some)]
        return found

    def save(self, folder: Path) -> None:
        """tokenizer.json, and what transformers wants to know beside it."""
        from tokenizers import Tokenizer

        plain = Tokenizer.from_str(self.tokenizer.to_str())
        plain.no_truncation()  # windows of long texts are for whoever reads
        plain.save(str(folder / "tokenizer.json"))
        settings: dict[str, Any] = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": self.longest,
        }
        vocabulary = plain.get_vocab(with_added_tokens=True)
        settings |= {
            name: token
            for name, tries in _ENDS.items()
            for token in [next((one for one in tries if one in vocabulary), "")]
            if token
        }
        write_json(folder / "tokenizer_config.json", settings)


_ENDS = {
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
}
_CLOSING = ("<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<eos>", "</s>")


def _replace_surrogates(text: str) -> str:
    """Without half characters, as broken files have."""
    return text.encode("utf-8", "replace").decode()


def get_pad_token(model: nn.Module) -> int:
    """The token that fills short rows; the mask hides it, so any will do."""
    return int(getattr(getattr(model, "config", None), "pad_token_id", None) or 0)


def set_pad_token(model: nn.Module, cutter: Cutter) -> None:
    """Give a model that knows no filling token one: causal ones look for it to find a row's end.

    It should not stand in a text itself, so it is one of those at a text's ends.
    """
    config: Any = getattr(model, "config", None)
    if config is None or getattr(config, "pad_token_id", None) is not None:
        return
    ends = (*_ENDS["pad_token"], *_CLOSING, *_ENDS["unk_token"])
    found = (cutter.tokenizer.token_to_id(word) for word in ends)
    config.pad_token_id = next((number for number in found if number is not None), 0)


def upcast_half(values: Tensor) -> Tensor:
    """Half precision as fp32; fp64 stays what it is."""
    return values if values.dtype == torch.float64 else values.float()


def pad_rows(rows: Sequence[Ids], pad: int) -> tuple[Tensor, Tensor]:
    """Rows as one matrix, as wide as the longest, and where it holds tokens."""
    width = max((len(row) for row in rows), default=1)
    ids = torch.full((len(rows), width), pad, dtype=torch.long)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row, dtype=torch.long)
        mask[number, : len(row)] = 1
    return ids, mask


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Without transformers' progress bars, and its warnings of new layers and optional packages."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        from transformers.utils import logging as theirs

        logs: Any = theirs
        bar = logs.is_progress_bar_enabled()
        logs.disable_progress_bar()
        try:
            yield
        finally:
            if bar:
                logs.enable_progress_bar()
    finally:
        logging.disable(before)


def load_pretrained(kind: str, folder: Path, **options: Any) -> tuple[nn.Module, frozenset[str]]:
    """A model of a folder by one of transformers' Auto classes, in fp32, and which of its weights
    the folder lacks; no code of the folder is run.
    """
    from safetensors import SafetensorError

    transformers = import_transformers()
    try:
        with quiet_transformers():
            model, loading = getattr(transformers, kind).from_pretrained(
                str(folder), dtype=torch.float32, local_files_only=True,
                output_loading_info=True, **options,
            )  # fmt: skip
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        problem = (str(error).splitlines() or [type(error).__name__])[0]
        raise InvalidInputError(
            f"{folder} cannot be fine-tuned: {problem}",
            hint="It needs config.json and model.safetensors of a family that transformers knows.",
        ) from error
    return model, frozenset(loading["missing_keys"])


def import_transformers() -> Any:
    """The package transformers."""
    try:
        import transformers
    except ImportError as error:
        raise MissingPackageError(
            "fine-tuning needs transformers", hint=format_install("anyrig[torch]")
        ) from error
    return transformers


def write_json(path: Path, value: Mapping[str, Any] | Sequence[Any]) -> None:
    """A small file of JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
