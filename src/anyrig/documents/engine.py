"""The engine of every model that reads texts: tokenize, pack, run, pool, normalise, join.

A worker receives blocks of texts. Texts become windows of tokens, windows of like length go through
the network together, and a head joins what it gives for the windows of a text: to its vector, to
the probabilities of its labels, or to the names in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from anyrig.documents.protocol import TextBlock
from anyrig.documents.tokenizer import TextTokenizer, TextWindows, TokenizerProcesses, split_pieces
from anyrig.errors import DeviceError, InvalidInputError, MissingWeightsError
from anyrig.memory.oom import detect_oom
from anyrig.memory.recovery import clear_frames
from anyrig.work.engine import BaseEngine

if TYPE_CHECKING:
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from anyrig.documents.model import EmbeddingModel
    from anyrig.documents.networks import Network
    from anyrig.documents.protocol import LongTexts
    from anyrig.documents.text_models import TextModel
    from anyrig.placement import Placement

    Matrix = NDArray[np.float32]

_MIN_PREPARED = 32
"""Texts of a block that are worth sending to another process."""
_MAX_TOKENIZERS = 16


class _PreparedBlock(NamedTuple):
    block: TextBlock
    windows: Future[TextWindows]


class OutputHead(Protocol):
    """What becomes of the rows that a network gives for windows, or for their tokens."""

    def join(self, block: TextBlock, windows: TextWindows, rows: Matrix) -> Any:
        """The result of a block."""


class TextEngine(BaseEngine):
    """Blocks of texts to what a head makes of each.

    Args:
        network: gives a row for each window, or for each token.
        head: joins rows.
        tokenizer: options of a `TextTokenizer`; None for a network that takes texts.
        prompts: set before texts, by their use.
        max_characters: of a window, for a network that takes texts.
        cut: whether a long text has only its first window.
        tokenizer_processes: how many tokenize beside this one.
    """

    name = "text"
    version = "2"
    pads = False

    def __init__(
        self,
        network: Network | TextModel,
        head: OutputHead,
        *,
        tokenizer: dict[str, Any] | None = None,
        prompts: dict[str, str] | None = None,
        max_characters: int = 0,
        cut: bool = False,
        tokenizer_processes: int = 0,
    ) -> None:
        self.network, self._head, self._prompts = network, head, prompts or {}
        self.handle = network.handle
        self.batch_invariant = network.batch_invariant
        self.first_batch_cost = network.first_batch_cost
        self._tokenizer = None if tokenizer is None else TextTokenizer(**tokenizer)
        self._tokenizer_options = tokenizer or {}
        self._num_processes = tokenizer_processes
        self._processes: TokenizerProcesses | None = None
        self._max_characters, self._cut = max_characters, cut

    def prepare_item(self, item: TextBlock) -> TextBlock | _PreparedBlock:
        """Have a block tokenized by another process, from when it arrives until its turn."""
        if not self._num_processes or len(item.texts) < _MIN_PREPARED:
            return item
        if self._processes is None:
            self._processes = TokenizerProcesses(self._num_processes, self._tokenizer_options)
        try:
            windows = self._processes.split(item.texts, self._prompts.get(item.use, ""))
        except BrokenExecutor:
            return item
        return _PreparedBlock(item, windows)

    def run(self, batch: Sequence[TextBlock | _PreparedBlock]) -> list[Any]:
        """What the head makes of each block."""
        windows = [self._split(one) for one in batch]
        rows = self._compute(windows)
        per_token = self._tokenizer is not None and self.network.per_token  # type: ignore[union-attr]
        counts = [len(part.tokens if per_token else part.lengths) for part in windows]
        edges = np.cumsum(counts)[:-1]
        return [
            self._head.join(_block_of(one), part, some)
            for one, part, some in zip(batch, windows, np.split(rows, edges), strict=True)
        ]

    def _split(self, item: TextBlock | _PreparedBlock) -> TextWindows:
        block = _block_of(item)
        prompt = self._prompts.get(block.use, "")
        if self._tokenizer is None:
            return _split_characters(block.texts, prompt, self._max_characters, self._cut)
        if isinstance(item, _PreparedBlock):
            try:
                return item.windows.result()
            except BrokenExecutor:  # a killed process: this one tokenizes from now on
                self._num_processes = 0
        return self._tokenizer.split(block.texts, prompt)

    def _compute(self, parts: Sequence[TextWindows]) -> Matrix:
        """A finite row for each window of all parts, or for each of their tokens."""
        network = self.network
        if self._tokenizer is None:
            texts = [text for part in parts for text in part.texts]
            rows = network.compute_texts(texts)  # type: ignore[union-attr]
            if not np.isfinite(rows).all():
                raise _not_finite()
            return rows
        tokens = np.concatenate([part.tokens for part in parts])
        lengths = np.concatenate([part.lengths for part in parts])
        rows = self._run(network, tokens, lengths)  # type: ignore[arg-type]
        finite = np.isfinite(rows).all(axis=1)
        if finite.all():
            return rows
        if network.per_token:  # type: ignore[union-attr]
            finite = np.logical_and.reduceat(finite, np.cumsum(lengths) - lengths)
        bad = np.flatnonzero(~finite)  # half precision overflowed
        careful = network.in_full_precision()  # type: ignore[union-attr]
        if careful is None:
            raise _not_finite()
        places = _find_tokens(lengths, bad)
        fixed = self._run(careful, tokens[places], lengths[bad])
        if not np.isfinite(fixed).all():
            raise _not_finite()
        rows = np.array(rows)
        rows[places if careful.per_token else bad] = fixed
        return rows

    def _run(
        self, network: Network, tokens: NDArray[np.int32], lengths: NDArray[np.int32]
    ) -> Matrix:
        """The rows of all windows, in batches that the network chooses."""
        found: Matrix | None = None
        batches = list(network.plan(lengths))
        while batches:
            members = batches.pop(0)
            is_whole = len(members) == len(lengths) and network.any_order
            places = slice(None) if is_whole else _find_tokens(lengths, members)
            try:
                made = network.compute(tokens[places], lengths if is_whole else lengths[members])
            except Exception as error:
                # Windows of one text cannot be sent to the queue again in two items.
                if len(members) == 1 or detect_oom(error) is None:
                    raise
                clear_frames(error)
                made = None
            if made is None:
                self._release()
                half = len(members) // 2
                network.budget = max(1, int(lengths[members].sum()) // 2)
                batches[:0] = [members[:half], members[half:]]
                continue
            if is_whole:
                return made
            if found is None:
                count = len(tokens if network.per_token else lengths)
                found = np.empty((count, made.shape[1]), np.float32)
            found[places if network.per_token else members] = made
        if found is None:
            raise InvalidInputError("there are no texts", hint="Send at least one.")
        return found

    def _release(self) -> None:
        if self.handle is not None:
            self.handle.release()


def _block_of(item: TextBlock | _PreparedBlock) -> TextBlock:
    return item.block if isinstance(item, _PreparedBlock) else item


def _split_characters(texts: Sequence[str], prompt: str, most: int, cut: bool) -> TextWindows:
    """Windows of so many characters."""
    pieces: list[str] = []
    owners: list[int] = []
    for number, text in enumerate(texts):
        some = list(split_pieces(prompt + text, most))
        some = some[:1] if cut else some
        pieces += some
        owners += [number] * len(some)
    lengths = np.array([max(1, len(piece)) for piece in pieces], np.int32)
    return TextWindows(np.zeros(0, np.int32), lengths, np.array(owners, np.int32), texts=pieces)


def _find_tokens(lengths: NDArray[np.int32], members: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the tokens of some windows stand, window after window; without a loop over them."""
    chosen = lengths[members]
    starts = np.cumsum(lengths)[members] - chosen
    shift = np.repeat(starts - np.concatenate(([0], np.cumsum(chosen)[:-1])), chosen)
    places: NDArray[np.int64] = np.arange(int(chosen.sum())) + shift
    return places


def _not_finite() -> DeviceError:
    return DeviceError(
        "the model gives no finite numbers for a text", hint="Its weights may be damaged."
    )


# -- embeddings ------------------------------------------------------------------------------------


class EmbedHead:
    """A vector for each text: the mean of its windows, weighed by their tokens.

    Args:
        dense: the folder of a layer after the pooling.
        normalize: whether vectors get length 1; the rows have it if the network normalizes.
        is_normalized: whether the rows have it already.
        batch_invariant: whether rows go through the layer one by one.
    """

    def __init__(
        self, dense: Path | None, *, normalize: bool, is_normalized: bool, batch_invariant: bool
    ) -> None:
        self._dense = _DenseLayer(dense) if dense is not None else None
        self._normalize, self._is_normalized = normalize, is_normalized
        self._batch_invariant = batch_invariant

    def join(self, block: TextBlock, windows: TextWindows, rows: Matrix) -> Matrix:
        """The vectors of a block's texts."""
        if self._dense is not None and self._batch_invariant:
            # A product of many rows sums in another order than one of a single row.
            rows = np.concatenate([self._dense(row[None]) for row in rows])
        elif self._dense is not None:
            rows = self._dense(rows)
        if self._normalize and not self._is_normalized:
            rows = normalize_rows(rows)
        if not np.isfinite(rows).all():
            raise _not_finite()
        if len(rows) == len(block.texts):
            return np.ascontiguousarray(rows, np.float32)
        starts = np.searchsorted(windows.owners, np.arange(len(block.texts)))
        weights = windows.lengths.astype(np.float64)
        mean = np.add.reduceat(rows * weights[:, None], starts, axis=0)
        mean /= np.add.reduceat(weights, starts)[:, None]
        several = np.diff(np.append(starts, len(rows))) > 1
        joined = np.array(rows[starts], np.float32)
        joined[several] = normalize_rows(mean[several]) if self._normalize else mean[several]
        return joined


def normalize_rows(rows: NDArray[Any]) -> Matrix:
    """Rows of length 1; those of zeros stay."""
    sizes = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    found: Matrix = (rows / np.maximum(sizes, 1e-12)).astype(np.float32)
    return found


class _DenseLayer:
    """A layer that sentence-transformers puts after the pooling: LaBSE has one."""

    def __init__(self, folder: Path) -> None:
        from anyrig.documents.model_folder import read_json
        from anyrig.documents.models.arrays import read_tensors

        file = folder / "model.safetensors"
        config = read_json(folder / "config.json", {})
        kind = str(config.get("activation_function", "")).rpartition(".")[2]
        if kind not in ("Tanh", "Identity", ""):
            raise InvalidInputError(
                f"a Dense layer with {kind}", hint="Tanh and Identity are supported."
            )
        found = read_tensors(file)
        weight = found.get("linear.weight")
        if weight is None or weight.ndim != 2:
            raise MissingWeightsError(
                f"{file} has no weights of a Dense layer", hint="Download it again: it is damaged."
            )
        self._weight = weight
        self._bias = found.get("linear.bias", np.zeros(len(weight), np.float32))
        self._tanh = kind == "Tanh"

    def __call__(self, vectors: Matrix) -> Matrix:
        made: Matrix = vectors @ self._weight.T + self._bias
        return np.tanh(made) if self._tanh else made


def open_embedding_engine(
    placement: Placement,
    *,
    model: EmbeddingModel,
    long: LongTexts = "windows",
    deterministic: bool = False,
) -> TextEngine:
    """The engine of an embedding model on a device's backend."""
    from anyrig.documents import networks
    from anyrig.documents.text_models import open_text_model

    cut = long == "cut"
    if not model.takes_tokens:
        text_model = open_text_model(placement, model, deterministic)
        head = EmbedHead(
            None, normalize=model.normalise, is_normalized=False, batch_invariant=False
        )
        return TextEngine(
            text_model, head, prompts=dict(model.prompts),
            max_characters=text_model.max_characters,
            cut=cut,
        )  # fmt: skip
    on_gpu = placement.device.kind == "gpu"
    network = networks.open_encoder(placement, model, deterministic)
    head = EmbedHead(
        model.dense, normalize=model.normalise, is_normalized=network.normalizes,
        batch_invariant=deterministic,
    )  # fmt: skip
    return TextEngine(
        network, head, tokenizer={**model.tokenizer_options(), "cut": cut},
        prompts=dict(model.prompts), cut=cut,
        tokenizer_processes=min(_MAX_TOKENIZERS, placement.threads - 1) if on_gpu else 0,
    )  # fmt: skip


def iter_batches(
    lengths: NDArray[np.int32], budget: int, *, spare: float, equal_only: bool = False
) -> Iterator[NDArray[np.int64]]:
    """Windows of like length together, the shortest first.

    Args:
        lengths: what each takes.
        budget: the most tokens of a batch, padding included; a longer window has one of its own.
        spare: padded over real tokens: rather a smaller batch than more padding.
        equal_only: whether only windows of one length go together.
    """
    order = np.argsort(lengths, kind="stable")
    start = real = 0
    for place, number in enumerate(order):
        length = int(lengths[number])
        padded = (place - start + 1) * length
        near = lengths[order[start]] == length if equal_only else padded <= spare * (real + length)
        if place > start and not (near and padded <= budget):
            yield order[start:place]
            start, real = place, 0
        real += length
    if len(order):
        yield order[start:]
