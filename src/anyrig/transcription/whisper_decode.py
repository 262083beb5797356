"""Whisper's decoding, row by row of a batch: which tokens may follow, and how sure it is.

Tokens of time come in pairs around each line, never go back, and never reach behind the end of
the recording; where all times together are likelier than any word, a time it is. These are the
rules Whisper was published with; the last bound is ours, as pieces are of unequal length and what
lies behind them is padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from anyrig.transcription.protocol import Line
from anyrig.transcription.whisper import LANGUAGES

if TYPE_CHECKING:
    from torch import Tensor

TICK_S = 0.02
"""What a token of time counts."""
_LATEST_BEGIN = 50  # the first line begins within a second
_MOST_TOKENS = 224
_MULTILINGUAL = 51_865


@dataclass(frozen=True)
class Vocabulary:
    """The tokens that steer a Whisper."""

    start: int
    end: int
    no_times: int
    no_speech: int
    languages: dict[str, int] = field(default_factory=dict)
    """Empty for a model of one language."""
    tasks: dict[str, int] = field(default_factory=dict)
    never: tuple[int, ...] = ()
    """Tokens that are no speech."""
    not_first: tuple[int, ...] = ()

    @property
    def first_time(self) -> int:
        """The token of 0 seconds."""
        return self.no_times + 1

    @classmethod
    def of(cls, model: Any, tokenizer: Any) -> Vocabulary:
        """As a model and its tokenizer have them."""
        told, config = model.generation_config, model.config
        known = tokenizer.get_vocab()

        def number(name: str, fallback: int) -> int:
            return int(known.get(name, fallback))

        no_times = getattr(told, "no_timestamps_token_id", None)
        no_times = number("<|notimestamps|>", -1) if no_times is None else int(no_times)
        languages = {
            str(name).strip("<|>"): int(n)
            for name, n in (getattr(told, "lang_to_id", None) or {}).items()
        }
        tasks = {str(k): int(n) for k, n in (getattr(told, "task_to_id", None) or {}).items()}
        if int(config.vocab_size) >= _MULTILINGUAL:  # older folders do not list their tokens
            names = {f"<|{code}|>": code for code in LANGUAGES}
            languages = languages or {names[n]: int(known[n]) for n in names if n in known}
            tasks = tasks or {k: number(f"<|{k}|>", -1) for k in ("transcribe", "translate")}
        end = config.eos_token_id if told.eos_token_id is None else told.eos_token_id
        return cls(
            start=int(config.decoder_start_token_id),
            end=int(end[0] if isinstance(end, list) else end),
            no_times=no_times,
            no_speech=number("<|nospeech|>", number("<|nocaptions|>", no_times - 1)),
            languages=languages,
            tasks=tasks,
            never=tuple(getattr(told, "suppress_tokens", None) or ()),
            not_first=tuple(getattr(told, "begin_suppress_tokens", None) or ()),
        )


class Decoded(NamedTuple):
    """The tokens of a recording, without the end, and how likely they are."""

    tokens: list[int]
    avg_logprob: float


class Rules:
    """Which tokens may come next in each row."""

    def __init__(self, vocabulary: Vocabulary, size: int, lasts_s: Sequence[float], device: Any):
        self._known = vocabulary
        ids = torch.arange(size, device=device)
        first = vocabulary.first_time
        self._is_time = ids >= first
        self._is_text = ids < vocabulary.end
        self._never = torch.zeros(size, dtype=torch.bool, device=device)
        special = [*vocabulary.never, vocabulary.no_times, vocabulary.start, vocabulary.no_speech]
        special += [*vocabulary.languages.values(), *vocabulary.tasks.values()]
        self._never[[n for n in special if 0 <= n < size]] = True
        last = torch.tensor([first + max(1, round(s / TICK_S)) for s in lasts_s], device=device)
        self._late = ids[None, :] > last[:, None]
        self._ids = ids
        rows = len(lasts_s)
        self._step = 0
        self._was_time = torch.zeros(rows, dtype=torch.bool, device=device)
        self._before_was_time = torch.ones(rows, dtype=torch.bool, device=device)
        self._least = torch.full((rows,), first, device=device)

    def allowed(self, logits: Tensor) -> Tensor:
        """Logarithms of probabilities; those of tokens that may not follow are minus infinity."""
        banned = self._never[None, :] | self._late
        if self._step == 0:
            banned = banned | ~self._is_time[None, :]
            banned = banned | (self._ids > self._known.first_time + _LATEST_BEGIN)[None, :]
        else:
            pair = self._was_time & self._before_was_time
            banned = banned | (pair[:, None] & self._is_time[None, :])
            lone = self._was_time & ~self._before_was_time
            banned = banned | (lone[:, None] & self._is_text[None, :])
            least = torch.where(lone, self._least, self._least + 1)
            early = self._is_time[None, :] & (self._ids[None, :] < least[:, None])
            banned = banned | (early & (self._least > self._known.first_time)[:, None])
        if self._step == 1 and self._known.not_first:
            banned[:, [n for n in self._known.not_first if n < len(self._ids)]] = True
        # Where nothing is left (a time at the very end), the end is.
        stuck = banned.all(dim=1)
        banned[:, self._known.end] &= ~stuck
        shares = logits.float().masked_fill(banned, float("-inf")).log_softmax(dim=-1)
        times = shares.masked_fill(~self._is_time[None, :], float("-inf")).logsumexp(dim=-1)
        words = shares.masked_fill(self._is_time[None, :], float("-inf")).amax(dim=-1)
        rather = (times > words)[:, None] & ~self._is_time[None, :]
        return shares.masked_fill(rather, float("-inf")).log_softmax(dim=-1)

    def took(self, chosen: Tensor) -> None:
        """Each row's next token was chosen."""
        time = chosen >= self._known.first_time
        self._before_was_time, self._was_time = self._was_time, time
        if self._step == 0:
            self._before_was_time = torch.ones_like(time)
        self._least = torch.where(time, chosen, self._least)
        self._step += 1


def decode(
    model: Any,
    hidden: Tensor,
    prompts: Sequence[Sequence[int]],
    lasts_s: Sequence[float],
    vocabulary: Vocabulary,
    *,
    temperature: float = 0.0,
    seed: int = 0,
) -> list[Decoded]:
    """The tokens of each row of a batch: the likeliest, or drawn at a temperature."""
    device = hidden.device
    ids = torch.tensor([list(prompt) for prompt in prompts], device=device)
    rules: Rules | None = None
    chance = torch.Generator(device=device if device.type == "cuda" else "cpu").manual_seed(seed)
    rows = len(prompts)
    over = torch.zeros(rows, dtype=torch.bool, device=device)
    total = torch.zeros(rows, device=device)
    count = torch.zeros(rows, device=device)
    taken: list[Tensor] = []
    cache: Any = None
    most = min(_MOST_TOKENS, int(model.config.max_target_positions) - ids.shape[1])
    for _ in range(most):
        told = model(
            encoder_outputs=(hidden,), decoder_input_ids=ids, past_key_values=cache, use_cache=True
        )
        cache, logits = told.past_key_values, told.logits[:, -1]
        rules = rules or Rules(vocabulary, logits.shape[-1], lasts_s, device)
        shares = rules.allowed(logits)
        chosen = _chosen(shares, temperature, chance)
        chosen = torch.where(over, vocabulary.end, chosen)
        share = shares.gather(1, chosen[:, None])[:, 0]
        total += torch.where(over, 0.0, share)
        count += (~over).float()
        rules.took(chosen)
        taken.append(chosen)
        over = over | (chosen == vocabulary.end)
        if bool(over.all()):
            break
        ids = chosen[:, None]
    table = torch.stack(taken, dim=1).tolist() if taken else [[] for _ in prompts]
    means = (total / count.clamp(min=1)).tolist()
    return [
        Decoded(_before(row, vocabulary.end), float(mean))
        for row, mean in zip(table, means, strict=True)
    ]


def _chosen(shares: Tensor, temperature: float, chance: torch.Generator) -> Tensor:
    if temperature <= 0:
        return shares.argmax(dim=-1)
    weights = (shares / temperature).softmax(dim=-1)
    if chance.device != weights.device:
        drawn = torch.multinomial(weights.cpu(), 1, generator=chance)[:, 0]
        return drawn.to(shares.device)
    return torch.multinomial(weights, 1, generator=chance)[:, 0]


def _before(row: list[int], end: int) -> list[int]:
    return row[: row.index(end)] if end in row else row


def lines_of(
    tokens: Sequence[int], vocabulary: Vocabulary, tokenizer: Any, lasts_s: float
) -> list[Line]:
    """The lines that tokens of time part; the last may have no end of its own."""
    found: list[Line] = []
    held: list[int] = []
    start_s = 0.0
    for token in tokens:
        if token < vocabulary.first_time:
            held.append(token)
            continue
        now = min(lasts_s, (token - vocabulary.first_time) * TICK_S)
        if held:
            found += _line(held, tokenizer, start_s, now)
            held = []
        start_s = now
    return [*found, *(_line(held, tokenizer, start_s, lasts_s) if held else [])]


def _line(held: list[int], tokenizer: Any, start_s: float, end_s: float) -> list[Line]:
    text = str(tokenizer.decode(held, skip_special_tokens=True)).strip()
    return [Line(text, start_s, max(start_s, end_s))] if text else []
