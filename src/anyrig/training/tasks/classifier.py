"""Fine-tuning a text classifier: an encoder of transformers and a head that tells labels.

    model = from_folder(folder, labels, kind="one")
    task = classifier(model, Cutter.of(tokenizer, 256), learnt, held, labels)

All weights learn, not the head alone: worth it with some dozens of examples of each label, and
where how a thing is said matters as much as what it is about. What is saved is a folder that
transformers reads.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyrig.errors import InvalidInputError
from anyrig.training.batch import Batch
from anyrig.training.evaluate import Metric
from anyrig.training.fine_tune import HELD_OUT_SHARE
from anyrig.training.lora import LoraConfig, adapt, merge_lora, save_lora
from anyrig.training.tasks import Task, texts
from anyrig.training.tasks.texts import Cutter, Ids

Kind = Literal["one", "many"]
"""Whether a text has one label, or any number of them."""
ClassWeights = Literal["none", "balanced"] | Sequence[float]
_MAX_WEIGHT = 20.0
"""How much more a rare label may count than by its share: one example must not drown the rest."""


@dataclass(frozen=True)
class ClassifierTable:
    """The `[task]` table of a classifier."""

    examples: str = ""
    """A folder of folders, a CSV or JSON lines, as for `anyrig classify train`."""
    files: str = ""
    """A JSON file that maps file names in the examples to paths; no other file is opened."""
    model: str = "minilm"
    """The encoder to start from: a packaged model or a folder."""
    multi: bool = False
    """Allow any number of labels per text; implied if an example has several."""
    validation: float = HELD_OUT_SHARE
    """Fraction of each label's examples used for validation."""
    class_weights: Literal["none", "balanced"] | tuple[float, ...] = "none"
    """`balanced` weights rare labels more; or a weight per label."""
    lora: int | Mapping[str, Any] = 0
    """Train LoRA adapters of this rank, or a table as for `language`, and the head; 0 trains all
    weights."""


class LabelledText(NamedTuple):
    """A text and the numbers of its labels."""

    text: str
    labels: tuple[int, ...]


class TokenizedText(NamedTuple):
    """A text in tokens, and for each label whether it has it."""

    ids: Ids
    truth: tuple[float, ...]


def from_folder(folder: Path, labels: Sequence[str], *, kind: Kind = "one") -> nn.Module:
    """A model of a folder with a head for these labels; a head of other labels is left out."""
    model, missing = texts.load_pretrained(
        "AutoModelForSequenceClassification", folder,
        ignore_mismatched_sizes=True, **_head_options(labels, kind),
    )  # fmt: skip
    _start_as_identity(model, missing)
    return model


def add_adapter(model: nn.Module, config: LoraConfig, folder: Path) -> Any:
    """Train LoRA's matrices, and as a whole what may be new: the head and the pooler."""
    encoder: Any = model.base_model
    new = [
        name for name, child in model.named_children()
        if child is not encoder and any(True for _ in child.parameters())
    ]  # fmt: skip
    if getattr(encoder, "pooler", None) is not None:
        new.append("pooler")
    return adapt(model, config, folder, train=new)


def from_state(
    config: Mapping[str, Any], state: Mapping[str, Tensor], labels: Sequence[str], *, kind: Kind
) -> nn.Module:
    """A BERT of these weights under a new head."""
    transformers = texts.import_transformers()
    with texts.quiet_transformers():
        made = transformers.BertConfig(**config, **_head_options(labels, kind))
        model: nn.Module = transformers.BertForSequenceClassification(made)
    inner: Any = model
    missing, _ = inner.bert.load_state_dict(dict(state), strict=False)
    _start_as_identity(model, missing)
    return model


def _start_as_identity(model: nn.Module, missing: Iterable[str]) -> None:
    """A layer between encoder and head that the weights lack begins by passing on what it gets.

    Models made for embedding have none. Beside one that begins at random, the loss on the held-out
    messages of the example after three epochs was 0.32 instead of 0.44.
    """
    pooler: Any = getattr(getattr(model, "base_model", None), "pooler", None)
    if any(name.endswith("pooler.dense.weight") for name in missing) and pooler is not None:
        nn.init.eye_(pooler.dense.weight)
        nn.init.zeros_(pooler.dense.bias)


def _head_options(labels: Sequence[str], kind: Kind) -> dict[str, Any]:
    if not labels:
        raise InvalidInputError("there are no labels", hint="Pass examples of at least two.")
    problem = "single_label_classification" if kind == "one" else "multi_label_classification"
    return {
        "num_labels": len(labels),
        "id2label": dict(enumerate(labels)),
        "label2id": {name: number for number, name in enumerate(labels)},
        "problem_type": problem,
    }


def classifier(
    model: nn.Module,
    cutter: Cutter,
    learnt: Sequence[LabelledText],
    validation: Sequence[LabelledText] = (),
    labels: Sequence[str] = (),
    *,
    kind: Kind = "one",
    class_weights: ClassWeights = "none",
    adapted: Any = None,
) -> Task:
    """The task of teaching a model what texts are.

    Args:
        model: takes input_ids and attention_mask, and gives something with `logits`.
        cutter: of the model.
        learnt: examples to learn from.
        validation: examples that are only measured.
        labels: the names, by number.
        kind: whether a text has one label or any number.
        class_weights: `balanced` lets rare labels count as much as common ones; or a weight each.
        adapted: the model with a LoRA adapter, of `add_adapter`.
    """
    check_labels(learnt, len(labels), kind)
    check_labels(validation, len(labels), kind)
    weights = _weigh_labels(class_weights, learnt, len(labels), kind)
    texts.set_pad_token(model, cutter)

    def finish(folder: Path) -> Mapping[str, Any]:
        from anyrig.training.export import replace_folder, save_pretrained

        with replace_folder(folder / "model") as place:
            save_pretrained(model if adapted is None else merge_lora(adapted), place)
            cutter.save(place)
        written = {"model": str(folder / "model"), "labels": list(labels), "kind": kind}
        if adapted is not None:
            written["adapter"] = str(save_lora(adapted, folder / "adapter"))
        return written

    return Task(
        "classifier", model, _tokenize(cutter, learnt, len(labels)), LabelLoss(kind, weights),
        collate=partial(_pad_batch, pad=texts.get_pad_token(model)),
        validation=_tokenize(cutter, validation, len(labels)) or None,
        metrics=classification_metrics(kind), finish=finish,
    )  # fmt: skip


def _pad_batch(rows: Sequence[TokenizedText], pad: int) -> Batch:
    """Rows filled up to the longest of them."""
    ids, mask = texts.pad_rows([row.ids for row in rows], pad)
    truth = torch.tensor([row.truth for row in rows])
    return {"input_ids": ids, "attention_mask": mask, "truth": truth}


def check_labels(examples: Sequence[LabelledText], num_labels: int, kind: Kind) -> None:
    """Refuse examples whose labels make no sense."""
    for one in examples:
        if kind == "one" and len(one.labels) != 1:
            raise InvalidInputError(
                f"a text has {len(one.labels)} labels where it must have one: {one.text[:60]!r}",
                hint='kind "many" allows any number.',
            )
        if not all(0 <= label < num_labels for label in one.labels):
            raise InvalidInputError(
                f"a text has a label that there is not: {one.labels}",
                hint=f"They are counted from 0 to {num_labels - 1}.",
            )


def _tokenize(
    cutter: Cutter, examples: Sequence[LabelledText], num_labels: int
) -> list[TokenizedText]:
    cut = cutter.rows([one.text for one in examples])
    return [
        TokenizedText(ids, tuple(float(number in one.labels) for number in range(num_labels)))
        for ids, one in zip(cut, examples, strict=True)
    ]


def compute_logits(model: nn.Module, batch: Batch) -> Tensor:
    """The model's scores, not in half precision."""
    found = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    return texts.upcast_half(found.logits)


class LabelLoss(nn.Module):
    """The mean over texts. Weights have a mean of 1 over the examples, and are not divided by in a
    batch: so a batch in pieces gives what it gives whole.
    """

    whole_batch = False
    weights: Tensor | None

    def __init__(self, kind: Kind, weights: Tensor | None = None) -> None:
        super().__init__()
        self.kind = kind
        self.register_buffer("weights", weights)

    def forward(self, model: nn.Module, batch: Batch) -> Tensor:
        scores = compute_logits(model, batch)
        truth = batch["truth"].to(scores.dtype)
        weights = None if self.weights is None else self.weights.to(scores.dtype)
        if self.kind == "many":
            return F.binary_cross_entropy_with_logits(scores, truth, pos_weight=weights)
        return F.cross_entropy(scores, truth.argmax(1), weights, reduction="none").mean()


def _weigh_labels(
    choice: ClassWeights, learnt: Sequence[LabelledText], num_labels: int, kind: Kind
) -> Tensor | None:
    """What each label counts: by hand, or against its share among the examples."""
    if isinstance(choice, str):
        if choice == "none":
            return None
        if choice != "balanced":
            raise InvalidInputError(
                f"class weights {choice!r}", hint="none, balanced, or a number for each label."
            )
        counts = torch.zeros(num_labels)
        for one in learnt:
            for label in one.labels:
                counts[label] += 1
        if kind == "many":
            return ((len(learnt) - counts) / counts.clamp(min=1)).clamp(
                1 / _MAX_WEIGHT, _MAX_WEIGHT
            )
        even = len(learnt) / num_labels
        weights = (even / counts.clamp(min=1)).clamp(max=_MAX_WEIGHT)
        return weights * len(learnt) / (weights * counts).sum().clamp(min=1e-6)
    predict = torch.tensor([float(one) for one in choice])
    if (
        len(predict) != num_labels
        or bool((predict <= 0).any())
        or not bool(predict.isfinite().all())
    ):
        raise InvalidInputError(
            f"class weights {list(choice)}", hint=f"Pass {num_labels} numbers above 0."
        )
    return predict


def classification_metrics(kind: Kind) -> dict[str, Metric]:
    """Accuracy, where all labels of a text must be right, and macro F1."""

    def predict(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        scores, truth = compute_logits(model, batch), batch["truth"]
        if kind == "many":
            return (scores > 0).float(), truth
        return F.one_hot(scores.argmax(1), scores.shape[1]).float(), truth

    def accuracy(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        predicted, truth = predict(model, batch)
        right = (predicted == truth).all(1).float()
        return right.sum(), torch.tensor(float(len(right)), device=right.device)

    def macro_f1(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        predicted, truth = predict(model, batch)
        return 2 * (predicted * truth).sum(0), predicted.sum(0) + truth.sum(0)

    return {"accuracy": accuracy, "macro_f1": macro_f1}


def split(
    examples: Sequence[LabelledText], share: float, *, seed: int = 0
) -> tuple[list[int], list[int]]:
    """Numbers of the examples to learn from and of those to hold out, by label.

    Each label gives its share, the rarest first, and keeps at least one example to learn from. The
    same for the same seed.
    """
    random_order = random.Random(seed)
    order = random_order.sample(range(len(examples)), len(examples))
    by_label: dict[int, list[int]] = {}
    for number in order:
        for label in examples[number].labels or (-1,):
            by_label.setdefault(label, []).append(number)
    left = {label: len(numbers) for label, numbers in by_label.items()}
    held_out: set[int] = set()
    for label, numbers in sorted(by_label.items(), key=lambda pair: (len(pair[1]), pair[0])):
        want = round(share * len(numbers))
        if share > 0 and len(numbers) > 2:
            want = max(1, want)
        for number in numbers:
            its = examples[number].labels or (-1,)
            if (
                len(numbers) - left[label] < want
                and number not in held_out
                and _can_hold_out(its, left)
            ):
                held_out.add(number)
                for one in its:
                    left[one] -= 1
    learnt = [number for number in range(len(examples)) if number not in held_out]
    return learnt, sorted(held_out)


def _can_hold_out(labels: Sequence[int], left: Mapping[int, int]) -> bool:
    return all(left[one] > 1 for one in labels)
