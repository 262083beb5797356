"""How English is read: hibari's dictionary, tagger and rules, with the alphabet of its voices.

Kokoro's voices have the same alphabet.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.speech.phonemes import INLINE, PronouncedWord, from_ipa, tables
from anyrig.speech.phonemes.homographs import resolve
from anyrig.speech.phonemes.names import correct_unknown, find_name

if TYPE_CHECKING:
    from anyrig.devices.machine import Device

_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_SILENT_R = re.compile("[rɹ](?![ˈˌaeiouæɑɒɔəɛɜɪʊʌ])")
_QUOTES, _QUOTE_TAGS = ("“", "”", '"', "'"), ("``", "''", '""')
_PARTS = ("gold", "silver")
_G2P = "hibari_g2p"
"""The name under which `hibari.g2p` is imported."""
_PLAIN = str.maketrans({"’": "'", "‘": "'", "\u00a0": " ", "\u202f": " ", "‒": "-", "―": "—"})


class EnglishReader:
    """English in the alphabet of hibari's and Kokoro's models."""

    def __init__(self, device: Device, *, british: bool = False) -> None:
        self._device, self._british = device, british
        self._unknown_words: Any = None
        self._g2p = _build_g2p(british, self._read_unknown)

    def read(self, text: str) -> list[PronouncedWord]:
        """Its words with their phonemes."""
        tokens = self._g2p.tokenize(self._mark_ipa(text.translate(_PLAIN)))
        self._apply_readings(tokens)
        tokens = self._g2p.phonemize_tokens(tokens)
        return [PronouncedWord(t.text, t.phonemes or "", bool(t.whitespace)) for t in tokens]

    def _apply_readings(self, tokens: Sequence[Any]) -> None:
        """Names and homographs, before hibari's own rules."""
        for token in tokens:
            if token.text in _QUOTES and token.phonemes is None and token.tag not in _QUOTE_TAGS:
                token.phonemes = ""  # else it is read together with the word after it
        for token, after in zip_longest(tokens, tokens[1:]):
            name = find_name(token.text) if token.phonemes is None else ""
            if name:
                token.phonemes = self._convert(name)
                if after is not None and after.text == "'s" and not token.whitespace:
                    token.phonemes, after.phonemes = self._g2p.lexicon._s(token.phonemes), ""
        for token, reading in zip(tokens, resolve(tokens, self._has_forms), strict=True):
            if reading.startswith("/"):
                token.phonemes = self._convert(reading)
            elif reading.isupper():
                token.tag = reading
            elif reading:
                token.alias = reading

    def _has_forms(self, word: str) -> bool:
        return isinstance(self._g2p.lexicon.golds.get(word), dict)

    def _convert(self, ipa: str) -> str:
        if self._british:
            ipa = _SILENT_R.sub("", ipa)
        return from_ipa(ipa, british=self._british)

    def _mark_ipa(self, text: str) -> str:
        """The text with its IPA as hibari's rules take it: `[name](/phonemes/)`."""
        if "[[" not in text and "](" not in text:
            return text
        out, last = [], 0
        for match in INLINE.finditer(text):
            out.append(_LINK.sub(r"\1", text[last : match.start()]))
            ipa = match.group(1).strip()
            name, sounds = ipa.replace("]", ""), from_ipa(ipa, british=self._british)
            out.append(f"[{name}](/{sounds}/)")
            last = match.end()
        out.append(_LINK.sub(r"\1", text[last:]))
        return "".join(out)

    def _read_unknown(self, word: str) -> str | None:
        """A word that is in no dictionary, by a small network; few texts have one."""
        if self._unknown_words is None:
            from anyrig.backends.onnx import create_session
            from anyrig.devices.machine import DeviceBackend

            oov = importlib.import_module(f"{_G2P}.oov")
            path = f"{oov.ASSETS}/{'oov_gb' if self._british else 'oov'}.onnx"
            # Called word by word: the host is the right place, whatever the voice runs on.
            cpu = DeviceBackend("onnx", "cpu", "CPUExecutionProvider")
            session = create_session(path, self._device, cpu, threads=1)
            self._unknown_words = oov.OOV(path, session=session)
        name = word.replace("’", "'").removesuffix("'s")
        phonemes: str | None = self._unknown_words(name)
        if phonemes and not self._british:
            phonemes = correct_unknown(name, phonemes)
        if name != word:
            phonemes = self._g2p.lexicon._s(phonemes)
        return phonemes


def _build_g2p(british: bool, read_unknown: Any) -> Any:
    """hibari's `G2P`, with tables that are not parsed whole."""
    package = _import_g2p()
    assets = Path(package.ASSETS)
    accent = "gb" if british else "us"
    g2p = package.G2P.__new__(package.G2P)
    g2p.lexicon = package.Lexicon(
        *(tables.DictionaryFile(assets / f"lexicon_{accent}_{part}.json.gz") for part in _PARTS),
        british,
    )
    exceptions = (assets / "tokenizer_exceptions.json").read_text(encoding="utf-8")
    g2p.tokenizer = package.Tokenizer(json.loads(exceptions))
    model, scorer = tables.read_tagger(assets / "tagger.json.gz")
    g2p.tagger = package.Tagger(model)
    g2p.tagger.predict = scorer.predict
    g2p._oov, g2p.unk, g2p.british = read_unknown, "", british
    return g2p


def _import_g2p() -> Any:
    """hibari's reader alone: the package itself imports its synthesizer, and scipy with that."""
    if _G2P not in sys.modules:
        hibari = importlib.util.find_spec("hibari")
        assert hibari is not None
        assert hibari.origin is not None
        path = Path(hibari.origin).parent / "g2p" / "__init__.py"
        spec = importlib.util.spec_from_file_location(_G2P, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[_G2P] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[_G2P]
