"""How espeak-ng reads a text, in IPA, for the languages that hibari does not know.

espeak-ng is GPL: it comes with the `espeak` extra alone and is loaded only when a voice needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from anyrig.errors import MissingPackageError
from anyrig.install import format_install
from anyrig.speech.phonemes import INLINE, PronouncedWord

INSTALL = format_install("anyrig[espeak]")
TIE = "^"
"""What joins the signs of one sound."""
_MARKS = ';:,.!?¡¿—…"()“”«»'
_TAIL = re.compile(rf"^([{re.escape(_MARKS)}]*)(.*?)([{re.escape(_MARKS)}]*)$", re.DOTALL)

# Before another letter on its own: `a m`, not the article.
_SPELT_A = re.compile(r"\bA(?= [A-Z]\b)")


class Espeak:
    """A text in one language, read by espeak-ng."""

    def __init__(
        self,
        language: str,
        *,
        map_phonemes: Callable[[str], str] = str,
        map_inline: Callable[[str], str] = str,
        tie: bool = False,
    ) -> None:
        """Load the library.

        Args:
            language: as espeak-ng names it: `es`, `fr-fr`, `en-us`.
            map_phonemes: from its phonemes to the model's alphabet.
            map_inline: from IPA between brackets to the model's alphabet.
            tie: whether the signs of one sound are joined.
        """
        try:
            import espeakng_loader
            from phonemizer.backend import EspeakBackend
            from phonemizer.backend.espeak.wrapper import EspeakWrapper
        except ImportError as error:
            raise MissingPackageError(
                f"reading {language} aloud needs the package {error.name}", hint=INSTALL
            ) from error
        EspeakWrapper.set_library(espeakng_loader.get_library_path())
        EspeakWrapper.set_data_path(espeakng_loader.get_data_path())
        self._backend = EspeakBackend(
            language,
            punctuation_marks=_MARKS,
            preserve_punctuation=True,
            with_stress=True,
            tie=TIE if tie else False,
            language_switch="remove-flags",
        )
        self._map_phonemes, self._map_inline = map_phonemes, map_inline
        self._english = language.startswith("en")

    def read(self, text: str) -> list[PronouncedWord]:
        """Its words with their phonemes."""
        words: list[PronouncedWord] = []
        last = 0
        if self._english:
            text = _SPELT_A.sub("[[ˈeɪ]]", text)
        for match in INLINE.finditer(text):
            words += self._read_plain(text[last : match.start()])
            ipa = match.group(1).strip()
            follows = text[match.end() : match.end() + 1].isspace()
            words.append(PronouncedWord(ipa, self._map_inline(ipa.strip("/")), follows))
            last = match.end()
        return words + self._read_plain(text[last:])

    def _read_plain(self, text: str) -> list[PronouncedWord]:
        written = text.split()
        if not written:
            return []
        spoken = self._backend.phonemize([" ".join(written)], strip=True)[0].split()
        words: list[PronouncedWord] = []
        for index, (before, chunk) in enumerate(_pair_words(written, spoken)):
            follows = index + 1 < len(spoken) or text[-1:].isspace()
            words += self._split(before, chunk, follows)
        return words

    def _split(self, written: str, chunk: str, follows: bool) -> list[PronouncedWord]:
        """A word and the punctuation around it."""
        found = _TAIL.match(chunk)
        assert found is not None
        head, core, tail = found.groups()
        parts = [("", head), (written.strip(_MARKS), core), ("", tail)]
        signed = [(name, signs) for name, signs in parts if signs]
        return [
            PronouncedWord(
                name,
                self._map_phonemes(signs) if name or signs is core else signs,
                last and follows,
            )
            for (name, signs), last in zip(signed, _mark_last(len(signed)), strict=True)
        ]


def _mark_last(count: int) -> list[bool]:
    return [index + 1 == count for index in range(count)]


def _pair_words(written: Sequence[str], spoken: Sequence[str]) -> list[tuple[str, str]]:
    """Each spoken stretch with the written word or words behind it.

    espeak-ng joins some words and parts others; then the written ones are shared out evenly.
    """
    count, total = len(spoken), len(written)
    return [
        (" ".join(written[i * total // count : (i + 1) * total // count]), spoken[i])
        for i in range(count)
    ]
