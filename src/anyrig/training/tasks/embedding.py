"""Fine-tuning an embedding model: texts that belong together come to lie near each other.

    model = from_folder(folder)
    task = embedding(model, Cutter.of(tokenizer, 256), pairs, held)

From pairs: an anchor should find its positive among the positives of its batch and all negatives
given by hand. A batch with more rows is harder and teaches more, so the batch that the loss sees
matters: it is the micro batch of one process. Rows beyond the model's `piece` are computed piece by
piece, so a micro batch can be the whole batch whatever its memory (what others call cached
gradients). Cut all the same, by several processes or by memory running out, each part is a smaller
batch with fewer negatives: its loss is another, lower one.

From scored pairs: the cosine of two texts should be their score. That loss does not mind how a
batch is cut.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyrig.errors import InvalidInputError
from anyrig.training.batch import Batch
from anyrig.training.fine_tune import HELD_OUT_SHARE
from anyrig.training.tasks import Task, texts
from anyrig.training.tasks.texts import Cutter, Ids, write_json

SCALE = 20.0
"""What cosines are multiplied by before the softmax; a higher one looks at the nearest alone."""
PIECE = 32
"""Texts that are computed at once, while the loss sees the whole batch."""
_AT_ONCE, _ROWS = 64, 512


@dataclass(frozen=True)
class EmbeddingTable:
    """The `[task]` table of an embedding model."""

    pairs: str = ""
    """JSON lines or CSV: query and passage (and negatives), or text1, text2 and score."""
    model: str = "minilm"
    """The model to start from: a packaged model or a folder."""
    validation: float = HELD_OUT_SHARE
    """Fraction of the pairs used for validation."""
    scale: float = SCALE
    """Factor applied to cosine similarities before the softmax."""
    piece: int = PIECE
    """Texts per forward pass; the loss still covers the whole micro batch."""


class Pair(NamedTuple):
    """Two texts that belong together, and texts that do not belong to the first."""

    anchor: str
    positive: str
    negatives: tuple[str, ...] = ()


class Scored(NamedTuple):
    """Two texts and how near they are, from -1 to 1."""

    one: str
    other: str
    score: float


class PairRow(NamedTuple):
    """A pair in tokens."""

    anchor: Ids
    positive: Ids
    negatives: tuple[Ids, ...] = ()


class ScoredRow(NamedTuple):
    """A scored pair in tokens."""

    one: Ids
    other: Ids
    score: float


def embedding(
    model: SentenceModel,
    cutter: Cutter,
    learnt: Sequence[Pair] | Sequence[Scored],
    validation: Sequence[Pair] | Sequence[Scored] = (),
    *,
    scale: float = SCALE,
    prompts: Mapping[str, str] | None = None,
) -> Task:
    """The task of teaching a model what is near.

    Args:
        model: what learns.
        cutter: of the model.
        learnt: pairs, or scored pairs.
        validation: some of the same kind that are only measured.
        scale: what cosines of pairs are multiplied by.
        prompts: what stands before a text by its use: anchors are queries, the rest passages.
    """
    if not learnt:
        raise InvalidInputError("there are no pairs to learn from", hint="Pass some.")
    scored = isinstance(learnt[0], Scored)
    if any(isinstance(one, Scored) != scored for one in (*learnt, *validation)):
        raise InvalidInputError("pairs with scores and without", hint="Pass one kind of them.")
    if scale <= 0:
        raise InvalidInputError(f"a scale of {scale}", hint="It must be above 0; 20 is usual.")
    prompts = dict(prompts or {})

    def finish(folder: Path) -> Mapping[str, Any]:
        from anyrig.training.export import replace_folder

        with replace_folder(folder / "model") as place:
            save_sentence_model(model, cutter, place, prompts=prompts)
        return {"model": str(folder / "model")}

    def loss(module: nn.Module, batch: Batch) -> Tensor:
        return cosine_loss(module, batch) if scored else pair_loss(module, batch, scale)

    loss.whole_batch = not scored  # type: ignore[attr-defined]
    cut = _scored_rows if scored else _pair_rows
    return Task(
        "embedding", model, cut(cutter, learnt, prompts), loss,
        collate=partial(_scored_batch if scored else _pair_batch, pad=texts.get_pad_token(model)),
        validation=cut(cutter, validation, prompts) or None,
        metrics={"cosine_error": cosine_error} if scored else {"recall_at_1": recall_at_1},
        finish=finish,
    )  # fmt: skip


def split_pairs(rows: Sequence[Any], share: float, *, seed: int = 0) -> tuple[list[int], list[int]]:
    """Numbers of the pairs to learn from and of those held out.

    Pairs that share a text stay on one side: what was learnt word for word would flatter.
    """
    groups: dict[str, int] = {}
    parents = list(range(len(rows)))

    def find_root(number: int) -> int:
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    for number, row in enumerate(rows):
        for text in row[:2]:
            parents[find_root(number)] = find_root(groups.setdefault(text, number))
    members: dict[int, list[int]] = {}
    for number in range(len(rows)):
        members.setdefault(find_root(number), []).append(number)
    limit, held_out = round(share * len(rows)), set[int]()
    for some in random.Random(seed).sample(list(members.values()), len(members)):
        if len(held_out) + len(some) <= limit:
            held_out.update(some)
    return [number for number in range(len(rows)) if number not in held_out], sorted(held_out)


# -- rows and batches ------------------------------------------------------------------------------


def _pair_rows(cutter: Cutter, pairs: Sequence[Any], prompts: Mapping[str, str]) -> list[Any]:
    query, passage = prompts.get("query", ""), prompts.get("passage", "")
    anchors = cutter.rows([query + one.anchor for one in pairs])
    positives = cutter.rows([passage + one.positive for one in pairs])
    negatives = iter(cutter.rows([passage + text for one in pairs for text in one.negatives]))
    return [
        PairRow(anchor, positive, tuple(next(negatives) for _ in one.negatives))
        for one, anchor, positive in zip(pairs, anchors, positives, strict=True)
    ]


def _scored_rows(cutter: Cutter, pairs: Sequence[Any], prompts: Mapping[str, str]) -> list[Any]:
    passage = prompts.get("passage", "")
    ones = cutter.rows([passage + one.one for one in pairs])
    others = cutter.rows([passage + one.other for one in pairs])
    scores = [one.score for one in pairs]
    return [ScoredRow(*row) for row in zip(ones, others, scores, strict=True)]


def _scored_batch(rows: Sequence[ScoredRow], pad: int) -> Batch:
    ids, mask = texts.pad_rows([row.one for row in rows], pad)
    other_ids, other_mask = texts.pad_rows([row.other for row in rows], pad)
    score = torch.tensor([row.score for row in rows])
    return {"ids": ids, "mask": mask, "other_ids": other_ids, "other_mask": other_mask,
            "score": score}  # fmt: skip


def _pair_batch(rows: Sequence[PairRow], pad: int) -> Batch:
    ids, mask = texts.pad_rows([row.anchor for row in rows], pad)
    other_ids, other_mask = texts.pad_rows([row.positive for row in rows], pad)
    batch = {"ids": ids, "mask": mask, "other_ids": other_ids, "other_mask": other_mask}
    most = max((len(row.negatives) for row in rows), default=0)
    if most:
        # A place without a negative holds one token: a row without any would give no number.
        filled = [(*row.negatives, *[(pad,)] * (most - len(row.negatives))) for row in rows]
        flat = texts.pad_rows([one for some in filled for one in some], pad)
        wide = [part.view(len(rows), most, -1) for part in flat]
        counts = torch.tensor([len(row.negatives) for row in rows])
        batch |= {"negative_ids": wide[0], "negative_mask": wide[1],
                  "negatives": torch.arange(most)[None] < counts[:, None]}  # fmt: skip
    return batch


# -- losses and figures ----------------------------------------------------------------------------


def pair_scores(model: nn.Module, batch: Batch) -> Tensor:
    """Cosines of anchors (rows) with every candidate (columns, own positives first).

    A candidate that is no honest negative has -inf: the positive of a row with the same anchor or
    the same positive, and a place without a negative.
    """
    anchors = F.normalize(model(batch["ids"], batch["mask"]), dim=-1)
    candidates = F.normalize(model(batch["other_ids"], batch["other_mask"]), dim=-1)
    cosines = _cosines(anchors, candidates)
    twin = _find_equal_rows(batch["ids"], batch["mask"]) | _find_equal_rows(
        batch["other_ids"], batch["other_mask"]
    )
    twin &= ~torch.eye(len(twin), dtype=torch.bool, device=twin.device)
    cosines = cosines.masked_fill(twin, -torch.inf)
    if "negatives" not in batch:
        return cosines
    negatives = F.normalize(
        model(batch["negative_ids"].flatten(0, 1), batch["negative_mask"].flatten(0, 1)), dim=-1
    )
    absent = ~batch["negatives"].flatten()
    further = _cosines(anchors, negatives).masked_fill(absent, -torch.inf)
    return torch.cat([cosines, further], dim=1)


def _cosines(some: Tensor, others: Tensor) -> Tensor:
    """Not in half, whatever the model computes in: near cosines would be the same."""
    with torch.autocast(some.device.type, enabled=False):
        return texts.upcast_half(some) @ texts.upcast_half(others).T


def _find_equal_rows(ids: Tensor, mask: Tensor) -> Tensor:
    """Which rows hold the same tokens."""
    clean = torch.where(mask > 0, ids, -1)
    return (clean[:, None] == clean[None]).all(-1)


def pair_loss(model: nn.Module, batch: Batch, scale: float = SCALE) -> Tensor:
    """How hard it is to tell each anchor's positive from all other candidates; a mean over rows."""
    scores = pair_scores(model, batch) * scale
    return F.cross_entropy(scores, torch.arange(len(scores), device=scores.device))


def compute_cosines(model: nn.Module, batch: Batch) -> Tensor:
    """The cosine of each scored pair."""
    one, other = model(batch["ids"], batch["mask"]), model(batch["other_ids"], batch["other_mask"])
    return F.cosine_similarity(one, other, dim=-1)


def cosine_loss(model: nn.Module, batch: Batch) -> Tensor:
    """The mean of squares that cosines miss their scores by."""
    return F.mse_loss(compute_cosines(model, batch), batch["score"])


def recall_at_1(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """How many anchors have their positive nearest among the batch's candidates."""
    scores = pair_scores(model, batch)
    right = scores.argmax(1) == torch.arange(len(scores), device=scores.device)
    return right.float().sum(), torch.tensor(float(len(right)), device=right.device)


def cosine_error(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """How far cosines lie from their scores."""
    apart = (compute_cosines(model, batch) - batch["score"]).abs()
    return apart.sum(), torch.tensor(float(len(apart)), device=apart.device)


# -- the held-out part as a whole ------------------------------------------------------------------


@torch.no_grad()
def evaluate_retrieval(task: Task) -> dict[str, float]:
    """How well the model finds each held-out anchor's positive among all held-out positives, or
    how well its cosines order held-out pairs by their scores (Spearman's correlation).

    Unlike the figures of a run, these do not depend on a batch.
    """
    rows: Sequence[Any] = task.validation or ()
    if not rows:
        return {}
    was = task.model.training
    task.model.eval()
    pad = texts.get_pad_token(task.model)
    firsts = _embed_rows(task.model, [row[0] for row in rows], pad)
    seconds = _embed_rows(task.model, [row[1] for row in rows], pad)
    task.model.train(was)
    if isinstance(rows[0], ScoredRow):
        cosines = (firsts * seconds).sum(1)
        return {"spearman": _spearman(cosines, torch.tensor([row.score for row in rows]))}
    return _rank_positives(firsts, seconds, rows)


def _rank_positives(
    anchors: Tensor, positives: Tensor, rows: Sequence[PairRow]
) -> dict[str, float]:
    numbers: dict[Ids, int] = {}
    firsts: list[int] = []
    for number, row in enumerate(rows):
        if row.positive not in numbers:
            numbers[row.positive] = len(firsts)
            firsts.append(number)
    each = positives[firsts]
    own = torch.tensor([numbers[row.positive] for row in rows])
    found = []
    for at in range(0, len(rows), _ROWS):  # a million cosines at a time, not all of them
        cosines = anchors[at : at + _ROWS] @ each.T
        mine = cosines.gather(1, own[at : at + _ROWS, None])
        found.append(1 + (cosines > mine).sum(1))
    ranks = torch.cat(found)
    return {
        "recall_at_1": float((ranks == 1).float().mean()),
        "mean_reciprocal_rank": float((1 / ranks).mean()),
    }


def _embed_rows(model: nn.Module, rows: Sequence[Ids], pad: int) -> Tensor:
    """Vectors of length one, on the host."""
    device = next(model.parameters()).device
    order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
    found: list[Tensor] = [torch.empty(0)] * len(rows)
    for at in range(0, len(order), _AT_ONCE):
        some = order[at : at + _AT_ONCE]
        ids, mask = texts.pad_rows([rows[number] for number in some], pad)
        made = F.normalize(model(ids.to(device), mask.to(device)), dim=-1).cpu()
        for number, vector in zip(some, made, strict=True):
            found[number] = vector
    return torch.stack(found)


def _spearman(one: Tensor, other: Tensor) -> float:
    ranks = torch.stack([_ranks(one), _ranks(other)])
    if float(ranks.std(dim=1).min()) == 0.0 or len(one) < 2:
        return 0.0
    return float(torch.corrcoef(ranks)[0, 1])


def _ranks(values: Tensor) -> Tensor:
    """Places in order; equal ones share the middle of theirs."""
    found: tuple[Tensor, ...] = torch.unique(
        values.double(), return_inverse=True, return_counts=True
    )
    _, places, counts = found
    ends = counts.cumsum(0).double()
    return (ends - (counts - 1) / 2)[places]


# -- the model -------------------------------------------------------------------------------------
# Saved as sentence-transformers keeps such models: modules.json, a pooling, perhaps a dense layer,
# perhaps vectors of length one.

Pooling = Literal["mean", "cls", "max", "last", "mean_sqrt"]
_FLAGS: dict[Pooling, str] = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "mean_sqrt": "pooling_mode_mean_sqrt_len_tokens",
    "last": "pooling_mode_lasttoken",
}
_MODULES = "sentence_transformers.models"


class SentenceDense(nn.Module):
    """A layer behind the pooling, as some models have one."""

    def __init__(self, size: int, out: int, *, bias: bool = True, tanh: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(size, out, bias=bias)
        self.tanh = tanh

    def forward(self, vectors: Tensor) -> Tensor:
        """The vectors behind it."""
        outputs: Tensor = self.linear(vectors)
        return outputs.tanh() if self.tanh else outputs

    @classmethod
    def of(cls, folder: Path) -> SentenceDense:
        """The layer of a folder."""
        from safetensors.torch import load_file

        try:
            settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            state = load_file(str(folder / "model.safetensors"))
            weight = state["linear.weight"]
        except (OSError, ValueError, KeyError) as error:
            raise InvalidInputError(
                f"{folder} contains no dense layer: {error}", hint="Get the model again."
            ) from error
        kind = str(settings.get("activation_function", "")).rpartition(".")[2]
        if kind not in ("Tanh", "Identity", ""):
            raise InvalidInputError(
                f"a dense layer with {kind}", hint="Tanh and Identity are supported."
            )
        out, size = weight.shape
        layer = cls(size, out, bias="linear.bias" in state, tanh=kind == "Tanh")
        layer.load_state_dict({name: value.float() for name, value in state.items()})
        return layer


class SentenceModel(nn.Module):
    """Token numbers and their mask to a vector for each row, not in half precision.

    Args:
        encoder: of transformers; a pooler that it has is left out, since nothing reads it.
        pooling: how a row's tokens become one vector.
        normalise: whether vectors have length one.
        dense: a layer behind the pooling.
        piece: rows that are computed at once while learning. More are computed piece by piece, and
            each piece again on the way back: memory holds one piece's activations, the loss sees
            all vectors. 0 computes all at once.
    """

    def __init__(
        self,
        encoder: nn.Module,
        *,
        pooling: Pooling = "mean",
        normalise: bool = True,
        dense: SentenceDense | None = None,
        piece: int = 0,
    ) -> None:
        super().__init__()
        if pooling not in _FLAGS:
            raise InvalidInputError(
                f"pooling {pooling!r}", hint=f"Valid names: {', '.join(_FLAGS)}."
            )
        if getattr(encoder, "pooler", None) is not None:
            encoder.pooler = None  # type: ignore[assignment]  # a module or none
        self.encoder, self.dense = encoder, dense
        self.pooling: Pooling = pooling
        self.normalise, self.piece = normalise, piece

    @property
    def config(self) -> Any:
        """The encoder's."""
        return self.encoder.config

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """A vector for each row."""
        if not self.piece or len(ids) <= self.piece or not torch.is_grad_enabled():
            return self._vectors(ids, mask)
        from torch.utils.checkpoint import checkpoint

        pieces = [slice(at, at + self.piece) for at in range(0, len(ids), self.piece)]
        return torch.cat(
            [checkpoint(self._vectors, ids[n], mask[n], use_reentrant=False) for n in pieces]
        )

    def _vectors(self, ids: Tensor, mask: Tensor) -> Tensor:
        if ids.device.type == "cpu":  # where looking does not make anything wait
            width = max(1, int(mask.sum(1).max()))
            ids, mask = ids[:, :width], mask[:, :width]
        hidden = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        vectors = pool_tokens(texts.upcast_half(hidden), mask, self.pooling)
        if self.dense is not None:
            vectors = texts.upcast_half(self.dense(vectors))
        return F.normalize(vectors, dim=-1, eps=1e-12) if self.normalise else vectors


def pool_tokens(hidden: Tensor, mask: Tensor, pooling: Pooling) -> Tensor:
    """One vector of a row's tokens; rows are filled up at their ends."""
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "last":
        last = (mask.sum(1) - 1).clamp(min=0)
        return hidden[torch.arange(len(hidden), device=hidden.device), last]
    there = mask[:, :, None].to(hidden.dtype)
    if pooling == "max":
        return hidden.masked_fill(there == 0, -torch.inf).amax(1)
    count = there.sum(1).clamp(min=1)
    return (hidden * there).sum(1) / (count if pooling == "mean" else count.sqrt())


def from_folder(folder: Path, *, dense: Path | None = None, **options: Any) -> SentenceModel:
    """The model of an encoder's folder."""
    layer = None if dense is None else SentenceDense.of(dense)
    encoder, _ = texts.load_pretrained("AutoModel", folder)
    return SentenceModel(encoder, dense=layer, **options)


def from_state(
    config: Mapping[str, Any], state: Mapping[str, Tensor], **options: Any
) -> SentenceModel:
    """A BERT of these weights."""
    transformers = texts.import_transformers()
    with texts.quiet_transformers():
        encoder = transformers.BertModel(transformers.BertConfig(**config), add_pooling_layer=False)
    encoder.load_state_dict(dict(state))
    return SentenceModel(encoder, **options)


def save_sentence_model(
    model: SentenceModel, cutter: Cutter, folder: Path, *, prompts: Mapping[str, str] | None = None
) -> None:
    """A folder that sentence-transformers and `anyrig embed --model` take."""
    from anyrig.training.export import save_pretrained

    save_pretrained(model.encoder, folder)
    cutter.save(folder)
    names = ["Transformer", "Pooling"]
    size = int(model.config.hidden_size)
    settings: dict[str, Any] = {"word_embedding_dimension": size, "include_prompt": True}
    settings |= {flag: name == model.pooling for name, flag in _FLAGS.items()}
    write_json(folder / "1_Pooling" / "config.json", settings)
    if model.dense is not None:
        _save_dense(model.dense, folder / f"{len(names)}_Dense")
        names.append("Dense")
    if model.normalise:
        (folder / f"{len(names)}_Normalize").mkdir(exist_ok=True)
        names.append("Normalize")
    modules = [
        {"idx": number, "name": str(number), "path": f"{number}_{name}" if number else "",
         "type": f"{_MODULES}.{name}"}
        for number, name in enumerate(names)
    ]  # fmt: skip
    write_json(
        folder / "sentence_bert_config.json",
        {"max_seq_length": cutter.longest, "do_lower_case": cutter.lower},
    )
    write_json(
        folder / "config_sentence_transformers.json",
        {"prompts": dict(prompts or {}), "default_prompt_name": None},
    )
    write_json(folder / "modules.json", modules)


def _save_dense(layer: SentenceDense, folder: Path) -> None:
    from safetensors.torch import save_file

    linear = layer.linear
    kind = "activation.Tanh" if layer.tanh else "linear.Identity"
    settings = {"in_features": linear.in_features, "out_features": linear.out_features,
            "bias": linear.bias is not None,
            "activation_function": f"torch.nn.modules.{kind}"}  # fmt: skip
    write_json(folder / "config.json", settings)
    state = {f"linear.{name}": value.detach().float().cpu().contiguous()
             for name, value in linear.state_dict().items()}  # fmt: skip
    save_file(state, str(folder / "model.safetensors"))
