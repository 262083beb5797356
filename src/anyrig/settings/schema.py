"""Which settings there are: the options of requests that have a key, such as `speech.rate`.

The part of a key before the dot is its section. The classes of a section are imported when a file,
a variable or a caller names one of its settings: most commands need none of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence

from anyrig.options import Option, list_options


class SettingsSchema(Mapping[str, Option]):
    """Settings by key.

    Args:
        sections: the classes whose options are settings of a section, or their places, such as
            `anyrig.app.speech:SpeechRequest`; keys without a section are in `""`.
    """

    def __init__(self, sections: Mapping[str, Sequence[type | str]]) -> None:
        self._sections = sections
        self._loaded: dict[str, Mapping[str, Option]] = {}

    def load_section(self, name: str) -> Mapping[str, Option]:
        """The settings of a section by key; the first class that has a key defines it."""
        if name not in self._loaded:
            options: dict[str, Option] = {}
            for place in self._sections.get(name, ()):
                request = _import_class(place) if isinstance(place, str) else place
                for option in list_options(request).values():
                    if option.setting and option.setting.rpartition(".")[0] == name:
                        options.setdefault(option.setting, option)
            self._loaded[name] = options
        return self._loaded[name]

    def __getitem__(self, key: str) -> Option:
        return self.load_section(key.rpartition(".")[0])[key]

    def __iter__(self) -> Iterator[str]:
        for name in self._sections:
            yield from self.load_section(name)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _import_class(place: str) -> type:
    module, _, name = place.partition(":")
    found: type = getattr(importlib.import_module(module), name)
    return found
