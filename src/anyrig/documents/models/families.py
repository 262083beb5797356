"""What kind of encoder a folder holds: its shape from config.json, its weights under our names.

BERT, RoBERTa and XLM-R, MPNet, DistilBERT and ModernBERT differ in names, in where they normalise,
and in how they know positions. Told here once, so that one forward pass serves all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from anyrig.errors import InvalidInputError

A = TypeVar("A")
B = TypeVar("B")
Array = NDArray[Any]

Attention = Literal["full", "local"]
FAMILIES = (
    "bert", "roberta", "xlm-roberta", "camembert", "mpnet", "distilbert", "modernbert",
)  # fmt: skip
_OFFSET_FAMILIES = (
    "roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "longformer", "roberta-prelayernorm",
)  # fmt: skip
ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu")
_DAMAGED_HINT = "The weights belong to another model than the config, or are damaged."
_PREFIX = re.compile(r"^(?:model\.)?(?:bert|roberta|mpnet|distilbert|model)\.")


@dataclass(frozen=True)
class EncoderLayer(Generic[A]):
    """One layer's weights; a bias that is not there is None."""

    qkv: A
    qkv_bias: A | None
    out: A
    out_bias: A | None
    norm_1: A | None
    """After attention, or before it where `Shape.before` holds; None normalises nothing."""
    norm_1_bias: A | None
    up: A
    up_bias: A | None
    down: A
    down_bias: A | None
    norm_2: A
    norm_2_bias: A | None


@dataclass(frozen=True)
class EncoderWeights(Generic[A]):
    """All weights of an encoder."""

    words: A
    norm: A
    norm_bias: A | None
    layers: tuple[EncoderLayer[A], ...]
    positions: A | None = None
    types: A | None = None
    """The row of the first token type."""
    bias: A | None = None
    """By bucket of distance and head."""
    last_norm: A | None = None
    last_norm_bias: A | None = None

    scale: A | None = None
    """Of each word's row, where words are kept as 8-bit numbers."""

    def map_arrays(self, change: Callable[[str, A], B]) -> EncoderWeights[B]:
        """Every array changed by a function that is told its name."""

        def change_value(name: str, value: Any) -> Any:
            if value is None:
                return None
            if isinstance(value, tuple):
                return tuple(change_value(name, one) for one in value)
            if isinstance(value, EncoderLayer):
                return EncoderLayer(
                    **{inner: change_value(inner, one) for inner, one in vars(value).items()}
                )
            return change(name, value)

        return EncoderWeights(**{name: change_value(name, one) for name, one in vars(self).items()})


@dataclass(frozen=True)
class EncoderShape:
    """What an encoder is, apart from its weights."""

    family: str
    heads: int
    hidden: int
    eps: float
    activation: str
    longest: int
    """The most tokens of a text, those at its ends included."""
    offset: int = 0
    """The position of the first token."""
    before: bool = False
    """Whether each half of a layer normalises its input, not its sum."""
    gated: bool = False
    thetas: tuple[float, ...] = ()
    """By layer, the base of rotary positions; empty where positions are learnt."""
    attention: tuple[Attention, ...] = ()
    """By layer; empty is full everywhere."""
    window: int = 0
    """How far a local layer looks to each side."""
    buckets: int = 0
    """Of relative distances."""

    @property
    def head(self) -> int:
        """The size of a head."""
        return self.hidden // self.heads


def read_shape(config: Mapping[str, Any]) -> EncoderShape:
    """The shape that a config.json tells."""
    family = str(config.get("model_type", ""))
    if family not in FAMILIES:
        raise InvalidInputError(
            f"an encoder of the family {family or 'without a name'!r}",
            hint=f"Packed encoders are: {', '.join(FAMILIES)}.",
        )
    shape = {"distilbert": _distilbert, "modernbert": _modernbert}.get(family, _bert)(config)
    if shape.heads < 1 or shape.hidden < 1 or shape.hidden % shape.heads or shape.longest < 1:
        raise InvalidInputError(
            f"config.json has {shape.heads} heads, a size of {shape.hidden} and"
            f" {shape.longest} positions",
            hint="The size must be a multiple of the heads: the file is damaged.",
        )
    return shape


def is_packable(config: Mapping[str, Any]) -> bool:
    """Whether an encoder can be run by our own forward pass; transformers has more variants."""
    try:
        return read_shape(config).activation in ACTIVATIONS
    except (InvalidInputError, KeyError, TypeError, ValueError):
        return False


def get_position_offset(config: Mapping[str, Any]) -> int:
    """The position of the first token; RoBERTa's kin count from behind the padding's number."""
    family = config.get("model_type")
    if family == "mpnet":  # which does so whatever its padding is
        return 2
    if family not in _OFFSET_FAMILIES:
        return 0
    pad = config.get("pad_token_id")
    return 1 + (1 if pad is None else int(pad))


def _bert(config: Mapping[str, Any]) -> EncoderShape:
    family = str(config["model_type"])
    offset = get_position_offset(config)
    kind = str(config.get("position_embedding_type") or "absolute")
    if kind != "absolute":
        raise InvalidInputError(
            f"positions of the kind {kind}", hint="Absolute ones can be packed."
        )
    return EncoderShape(
        family, int(config["num_attention_heads"]), int(config["hidden_size"]),
        float(config.get("layer_norm_eps", 1e-12)), str(config.get("hidden_act", "gelu")),
        int(config["max_position_embeddings"]) - offset, offset,
        buckets=int(config.get("relative_attention_num_buckets", 32)) if family == "mpnet" else 0,
    )  # fmt: skip


def _distilbert(config: Mapping[str, Any]) -> EncoderShape:
    return EncoderShape(
        "distilbert", int(config["n_heads"]), int(config["dim"]), 1e-12,
        str(config.get("activation", "gelu")), int(config["max_position_embeddings"]),
    )  # fmt: skip


def _modernbert(config: Mapping[str, Any]) -> EncoderShape:
    count = int(config["num_hidden_layers"])
    every = int(config.get("global_attn_every_n_layers") or 3)
    kinds: tuple[Attention, ...] = tuple(
        "full" if kind == "full_attention" else "local" for kind in config.get("layer_types") or ()
    ) or tuple("local" if number % every else "full" for number in range(count))
    rope = config.get("rope_parameters") or {}
    far = rope.get("full_attention", {}).get("rope_theta", config.get("global_rope_theta", 160000))
    near = rope.get("sliding_attention", {}).get(
        "rope_theta", config.get("local_rope_theta") or far
    )
    return EncoderShape(
        "modernbert", int(config["num_attention_heads"]), int(config["hidden_size"]),
        float(config.get("norm_eps", 1e-5)), str(config.get("hidden_activation", "gelu")),
        int(config["max_position_embeddings"]), before=True, gated=True,
        thetas=tuple(float(far if kind == "full" else near) for kind in kinds), attention=kinds,
        window=int(config.get("local_attention", 128)) // 2,
    )  # fmt: skip


def build_weights(state: Mapping[str, Array], shape: EncoderShape) -> EncoderWeights[Array]:
    """The weights of a state dict under our names; InvalidInputError when one is missing."""
    named = {_strip_prefix(name): value for name, value in state.items()}
    build: Callable[[_Taker], EncoderWeights[Array]] = {
        "distilbert": _distilbert_weights, "modernbert": _modernbert_weights,
    }.get(shape.family, _bert_weights)  # fmt: skip
    try:
        weights = build(_Taker(named, shape))
    except (ValueError, IndexError) as error:  # of parts that cannot be joined
        raise InvalidInputError(str(error), hint=_DAMAGED_HINT) from error
    _check_shapes(weights, shape)
    return weights


def _check_shapes(weights: EncoderWeights[Array], shape: EncoderShape) -> None:
    """Refuse weights that no forward pass of this shape can use."""
    size, gates = shape.hidden, 2 if shape.gated else 1
    for name, table, rows in (("words", weights.words, 1),
                              ("positions", weights.positions, shape.offset + 1)):  # fmt: skip
        if table is not None and (table.ndim != 2 or len(table) < rows or table.shape[1] != size):
            raise _misfit(name, table)
    vectors = [("norm", weights.norm), ("norm", weights.norm_bias), ("types", weights.types),
               ("norm", weights.last_norm), ("norm", weights.last_norm_bias)]  # fmt: skip
    for number, layer in enumerate(weights.layers):
        inner = layer.down.shape[-1] if layer.down.ndim else 0
        parts = (
            ("qkv", layer.qkv, layer.qkv_bias, 3 * size, size),
            ("out", layer.out, layer.out_bias, size, size),
            ("up", layer.up, layer.up_bias, gates * inner, size),
            ("down", layer.down, layer.down_bias, size, inner),
        )
        for name, matrix, bias, rows, columns in parts:
            if matrix.shape != (rows, columns) or matrix.dtype.kind != "f":
                raise _misfit(f"layer {number}, {name}", matrix)
            if bias is not None and bias.shape != (rows,):
                raise _misfit(f"layer {number}, bias of {name}", bias)
        norms = (layer.norm_1, layer.norm_1_bias, layer.norm_2, layer.norm_2_bias)
        vectors += [(f"layer {number}, norm", norm) for norm in norms]
    for name, vector in vectors:
        if vector is not None and (vector.shape != (size,) or vector.dtype.kind != "f"):
            raise _misfit(name, vector)


def _misfit(name: str, found: Array) -> InvalidInputError:
    form = " x ".join(map(str, found.shape)) or "none"
    return InvalidInputError(f"{name} has the shape {form} ({found.dtype})", hint=_DAMAGED_HINT)


def _strip_prefix(name: str) -> str:
    """Without the head's prefix; the first BERTs call a norm's weight gamma and its bias beta."""
    bare = _PREFIX.sub("", name)
    for old, new in (("gamma", "weight"), ("beta", "bias")):
        if bare.endswith(f"LayerNorm.{old}"):
            return bare.removesuffix(old) + new
    return bare


class _Taker:
    """Takes weights by name."""

    def __init__(self, named: Mapping[str, Array], shape: EncoderShape) -> None:
        self._named, self.shape = named, shape

    def __call__(self, name: str) -> Array:
        if name not in self._named:
            raise InvalidInputError(
                f"the weights lack {name}", hint="They belong to another model than its config."
            )
        return self._named[name]

    def maybe(self, name: str) -> Array | None:
        return self._named.get(name)

    def count(self, pattern: str) -> int:
        """How many layers there are."""
        found = {int(m[1]) for name in self._named if (m := re.match(pattern, name))}
        return len(found)

    def join(self, names: tuple[str, ...], end: str) -> Array | None:
        found = [self.maybe(f"{name}.{end}") for name in names]
        return np.concatenate([one for one in found if one is not None]) if all(
            one is not None for one in found
        ) else None  # fmt: skip

    def layer(
        self, qkv: tuple[str, ...], out: str, norms: tuple[str, str], up: str, down: str
    ) -> EncoderLayer[Array]:
        """A layer whose parts have these names."""
        joined = self.join(qkv, "weight")
        if joined is None:
            self(f"{qkv[0]}.weight")
        assert joined is not None
        return EncoderLayer(
            joined, self.join(qkv, "bias"), self(f"{out}.weight"), self.maybe(f"{out}.bias"),
            self.maybe(f"{norms[0]}.weight"), self.maybe(f"{norms[0]}.bias"),
            self(f"{up}.weight"), self.maybe(f"{up}.bias"),
            self(f"{down}.weight"), self.maybe(f"{down}.bias"),
            self(f"{norms[1]}.weight"), self.maybe(f"{norms[1]}.bias"),
        )  # fmt: skip


def _bert_weights(take: _Taker) -> EncoderWeights[Array]:
    mpnet = take.shape.family == "mpnet"
    parts = ("attn.q", "attn.k", "attn.v") if mpnet else ("self.query", "self.key", "self.value")
    out = "attn.o" if mpnet else "output.dense"
    norm = "LayerNorm" if mpnet else "output.LayerNorm"
    layers = []
    for number in range(take.count(r"encoder\.layer\.(\d+)\.")):
        at = f"encoder.layer.{number}"
        layers.append(
            take.layer(
                tuple(f"{at}.attention.{part}" for part in parts),
                f"{at}.attention.{out}",
                (f"{at}.attention.{norm}", f"{at}.output.LayerNorm"),
                f"{at}.intermediate.dense",
                f"{at}.output.dense",
            )  # fmt: skip
        )
    types = take.maybe("embeddings.token_type_embeddings.weight")
    return EncoderWeights(
        take("embeddings.word_embeddings.weight"), take("embeddings.LayerNorm.weight"),
        take("embeddings.LayerNorm.bias"), tuple(layers),
        take("embeddings.position_embeddings.weight"), None if types is None else types[0],
        take("encoder.relative_attention_bias.weight") if mpnet else None,
        scale=take.maybe("embeddings.word_embeddings.scale"),
    )  # fmt: skip


def _distilbert_weights(take: _Taker) -> EncoderWeights[Array]:
    layers = []
    for number in range(take.count(r"transformer\.layer\.(\d+)\.")):
        at = f"transformer.layer.{number}"
        layers.append(
            take.layer(
                tuple(f"{at}.attention.{part}_lin" for part in "qkv"),
                f"{at}.attention.out_lin",
                (f"{at}.sa_layer_norm", f"{at}.output_layer_norm"),
                f"{at}.ffn.lin1",
                f"{at}.ffn.lin2",
            )  # fmt: skip
        )
    return EncoderWeights(
        take("embeddings.word_embeddings.weight"), take("embeddings.LayerNorm.weight"),
        take("embeddings.LayerNorm.bias"), tuple(layers),
        take("embeddings.position_embeddings.weight"),
    )  # fmt: skip


def _modernbert_weights(take: _Taker) -> EncoderWeights[Array]:
    layers = [
        take.layer(
            (f"layers.{n}.attn.Wqkv",),
            f"layers.{n}.attn.Wo",
            (f"layers.{n}.attn_norm", f"layers.{n}.mlp_norm"),
            f"layers.{n}.mlp.Wi",
            f"layers.{n}.mlp.Wo",
        )  # fmt: skip
        for n in range(take.count(r"layers\.(\d+)\."))
    ]
    return EncoderWeights(
        take("embeddings.tok_embeddings.weight"), take("embeddings.norm.weight"),
        take.maybe("embeddings.norm.bias"), tuple(layers),
        last_norm=take("final_norm.weight"), last_norm_bias=take.maybe("final_norm.bias"),
    )  # fmt: skip
