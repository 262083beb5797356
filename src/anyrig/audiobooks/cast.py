r"""The cast file: who speaks in a book, in whose voice.

    narrator = "af_heart"        # all that nobody in the story says; left out: the voice asked for
    dialogue = "am_adam"         # speech of people without a role; left out: the narrator's

    [roles]
    Tom = "am_michael"           # a name as the book writes it, and a voice

    [roles."Mrs. Dalloway"]      # or a table, with more
    voice = "bf_emma"
    aliases = ["Clarissa", "the hostess"]
    rate = 0.95
    language = "en-GB"           # her words are read in it, whatever the paragraph is in
    pronoun = "she"              # so that `she said` can be hers

    [[rules]]                    # paragraphs that somebody else tells
    pattern = '^Dear diary'      # by a regular expression ...
    role = "Tom"
    whole = true                 # quoted words in them as well

    [[rules]]
    chapter = "3-5"              # ... or by chapters, as `--list` counts them
    voice = "bf_emma"

The first rule that fits is taken. Names are matched whatever their capitals; `Tom` is found in the
role `Tom Sawyer` where no other role has that name.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

from anyrig.audiobooks.dialogue_words import Gender, get_words
from anyrig.errors import InvalidInputError, Message
from anyrig.settings.toml import parse_toml
from anyrig.speech.source_text import VoiceStyle
from anyrig.speech.user_pattern import UserPattern, compile_pattern
from anyrig.text.decode import read_text
from anyrig.units import parse_range

_TOP_KEYS = ("narrator", "dialogue", "roles", "rules")
_VOICE_KEYS = ("voice", "rate", "language")
_ROLE_KEYS = (*_VOICE_KEYS, "aliases", "pronoun")
_RULE_KEYS = (*_VOICE_KEYS, "chapter", "pattern", "role", "whole")
_GENDERS: dict[str, Gender] = {"he": "m", "she": "f"}
_MAX_ROLES = 1000
_MAX_NAME = 200
_SLOWEST, _FASTEST = 0.25, 4.0
_ARTICLE = re.compile(r"(?:the|el|la|le|der|die|das)\s+|l['’]\s*")
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")


@dataclass(frozen=True)
class Role:
    """Somebody in the story."""

    name: str
    style: VoiceStyle
    aliases: tuple[str, ...] = ()
    gender: Gender = ""


@dataclass(frozen=True)
class CastRule:
    """Paragraphs that have a teller of their own."""

    style: VoiceStyle
    role: str = ""
    pattern: str = ""
    chapters: tuple[tuple[int, int], ...] = ()
    """From and to, counted from 1; empty: all."""
    whole: bool = False
    """Whether quoted speech in them is the teller's as well."""

    @cached_property
    def _compiled(self) -> UserPattern:
        return compile_pattern(self.pattern)

    def fits(self, chapter: int, text: str) -> bool:
        """Whether it holds for a paragraph."""
        if self.chapters and not any(low <= chapter <= high for low, high in self.chapters):
            return False
        return not self.pattern or self._compiled.matches(text)


@dataclass(frozen=True)
class Cast:
    """All voices of a book."""

    narrator: VoiceStyle = VoiceStyle()
    dialogue: VoiceStyle | None = None
    """Of speech by people without a role; None: the narrator's."""
    roles: tuple[Role, ...] = ()
    rules: tuple[CastRule, ...] = ()

    @property
    def voices(self) -> tuple[str, ...]:
        """Every voice that is named, each once, in the order of the file."""
        styles = [self.narrator, *([self.dialogue] if self.dialogue else [])]
        styles += [role.style for role in self.roles] + [rule.style for rule in self.rules]
        return tuple(dict.fromkeys(style.voice for style in styles if style.voice))

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name and alias, in small letters."""
        return frozenset(self._by_name)

    @cached_property
    def genders(self) -> Mapping[str, Gender]:
        """Of the roles that have a pronoun."""
        return {role.name: role.gender for role in self.roles if role.gender}

    def find_role(self, name: str) -> Role | None:
        """The role that a name in the book belongs to."""
        key = _normalize_name(name)
        if not key:
            return None
        return self._by_name.get(key) or self._by_part.get(key)

    @cached_property
    def _by_name(self) -> Mapping[str, Role]:
        return {
            _normalize_name(name): role
            for role in self.roles
            for name in (role.name, *role.aliases)
        }

    @cached_property
    def _by_part(self) -> Mapping[str, Role]:
        """First and last words of longer names, where they belong to one role alone."""
        found: dict[str, set[str]] = {}
        roles = {role.name: role for role in self.roles}
        for role in self.roles:
            for name in (role.name, *role.aliases):
                for part in _name_parts(name):
                    found.setdefault(part, set()).add(role.name)
        return {part: roles[next(iter(of))] for part, of in found.items() if len(of) == 1}


def _normalize_name(name: str) -> str:
    return _ARTICLE.sub("", " ".join(name.replace("’", "'").casefold().split()), count=1)


def _name_parts(name: str) -> set[str]:
    """`Mr. Fogg` gives nothing: Mrs. Fogg may be meant by `Fogg`."""
    words = _normalize_name(name).split()
    titled = any(
        words[0].rstrip(".") in get_words(code).titles for code in ("en", "es", "fr", "de")
    )
    return {words[0], words[-1]} if len(words) > 1 and not titled else set()


# -- reading a cast file -------------------------------------------------------------------------


def load_cast(path: Path) -> Cast:
    """The cast of a file; InvalidInputError names what is wrong in it."""
    text = read_text(path, "the cast", hint="Pass a UTF-8 file; see docs/cast.md.")
    return parse_cast(text, name=str(path))


def parse_cast(text: str, *, name: str = "cast") -> Cast:
    """The same, from the text of a file."""
    try:
        data = parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(
            f"{name} is not valid TOML: {error}",
            hint='Under [roles], lines read `Tom = "voice"`; see docs/cast.md.',
        ) from None
    _check_names(data, _TOP_KEYS, name, 'Write people under [roles]: Tom = "voice".')
    narrator = _parse_style(data.get("narrator", {}), f"{name}, narrator", needed=False)
    given = data.get("dialogue")
    dialogue = _parse_style(given, f"{name}, dialogue") if given is not None else None
    roles = _parse_roles(data.get("roles", {}), name)
    rules = _parse_rules(data.get("rules", []), roles, name)
    made = Cast(narrator, dialogue, roles, rules)
    if made == Cast():
        raise InvalidInputError(
            f"{name} names no voice", hint="Give `narrator`, `dialogue` or `[roles]`."
        )
    return made


def _parse_roles(given: object, name: str) -> tuple[Role, ...]:
    if not isinstance(given, dict) or len(given) > _MAX_ROLES:
        raise InvalidInputError(
            f"{name}: `roles` must be a table of at most {_MAX_ROLES} names",
            hint='Write [roles], and under it lines such as Tom = "voice".',
        )
    roles: list[Role] = []
    seen: dict[str, str] = {}
    for key, value in given.items():
        role = _parse_role(key, value, f"{name}, role {key!r}")
        for each in (role.name, *role.aliases):
            if seen.setdefault(_normalize_name(each), role.name) != role.name:
                raise InvalidInputError(
                    f"{name}: {each!r} is both {seen[_normalize_name(each)]!r} and {role.name!r}",
                    hint="Give each name and alias to one role.",
                )
        roles.append(role)
    return tuple(roles)


def _parse_role(name: str, given: object, place: str) -> Role:
    if not _normalize_name(name) or len(name) > _MAX_NAME:
        raise InvalidInputError(f"{place}: not a valid name", hint=f"1 to {_MAX_NAME} characters.")
    style = _parse_style(given, place, allowed=_ROLE_KEYS)
    if not isinstance(given, dict):
        return Role(name, style)
    aliases = given.get("aliases", [])
    if not isinstance(aliases, list) or not all(
        isinstance(a, str) and _normalize_name(a) for a in aliases
    ):
        raise InvalidInputError(
            f"{place}: `aliases` must be a list of names, not {aliases!r:.60}",
            hint='Write aliases = ["Clarissa"].',
        )
    pronoun = given.get("pronoun", "")
    if pronoun and pronoun not in _GENDERS:
        raise InvalidInputError(
            f"{place}: unknown pronoun {pronoun!r:.60}", hint="Valid values: he, she."
        )
    return Role(name, style, tuple(aliases), _GENDERS.get(pronoun, ""))


def _parse_rules(given: object, roles: tuple[Role, ...], name: str) -> tuple[CastRule, ...]:
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise InvalidInputError(
            f"{name}: `rules` must be a list of tables", hint="Begin each with [[rules]]."
        )
    return tuple(
        _parse_rule(each, roles, f"{name}, rule {number}") for number, each in enumerate(given, 1)
    )


def _parse_rule(given: Mapping[str, object], roles: tuple[Role, ...], place: str) -> CastRule:
    _check_names(given, _RULE_KEYS, place)
    if "chapter" not in given and "pattern" not in given:
        raise InvalidInputError(
            f"{place}: it matches every paragraph", hint="Set `chapter` or `pattern`."
        )
    if ("voice" in given) == ("role" in given):
        raise InvalidInputError(f"{place}: needs either `voice` or `role`", hint="Set one of them.")
    style, role = _parse_style(given, place, allowed=_RULE_KEYS, needed=False), ""
    if "role" in given:
        role, style = _find_role(given["role"], roles, style, place)
    pattern = given.get("pattern", "")
    if "pattern" in given and (not isinstance(pattern, str) or not pattern):
        raise InvalidInputError(
            f"{place}: pattern is {pattern!r:.60}", hint="It is a regular expression."
        )
    if pattern:
        try:
            compile_pattern(str(pattern))
        except InvalidInputError as error:
            raise InvalidInputError(
                Message("{place}: {problem}", place=place, problem=error.message), hint=error.hint
            ) from None
    whole = given.get("whole", False)
    if not isinstance(whole, bool):
        raise InvalidInputError(
            f"{place}: `whole` must be true or false, not {whole!r:.60}",
            hint="Write whole = true.",
        )
    return CastRule(style, role, str(pattern), _parse_chapters(given.get("chapter"), place), whole)


def _find_role(
    name: object, roles: tuple[Role, ...], own: VoiceStyle, place: str
) -> tuple[str, VoiceStyle]:
    """The role that a rule names, with what the rule says of its own."""
    for role in roles:
        if role.name == name:
            rate = own.rate if own.rate != 1.0 else role.style.rate
            return role.name, VoiceStyle(
                own.language or role.style.language, role.style.voice, rate
            )
    raise InvalidInputError(
        f"{place}: there is no role {name!r:.60}",
        hint=_suggest_name(str(name), [role.name for role in roles]),
    )


def _parse_chapters(given: object, place: str) -> tuple[tuple[int, int], ...]:
    if given is None:
        return ()
    found: list[tuple[int, int]] = []
    for part in "" if isinstance(given, bool) else str(given).split(","):
        low, high = parse_range(part) or (0, 0)
        if not 0 < low <= high:
            found = []
            break
        found.append((low, high))
    if not found or not isinstance(given, (int, str)):
        raise InvalidInputError(
            f"{place}: chapter is {given!r:.60}", hint='A number, or text such as "3-7,9".'
        )
    return tuple(found)


def _parse_style(
    given: object, place: str, *, allowed: Collection[str] = _VOICE_KEYS, needed: bool = True
) -> VoiceStyle:
    """A voice's name, or a table with one."""
    if isinstance(given, str):
        given = {"voice": given}
    if not isinstance(given, dict):
        raise InvalidInputError(
            f"{place}: {given!r:.60} is not a voice", hint='Write "name" or a table.'
        )
    table = cast("Mapping[str, object]", given)
    _check_names(table, allowed, place)
    voice, language = table.get("voice", ""), table.get("language", "")
    if not isinstance(voice, str) or len(voice) > _MAX_NAME or ("voice" in table and not voice):
        raise InvalidInputError(
            f"{place}: voice is {voice!r:.60}", hint="`anyrig voices` lists the names."
        )
    if needed and not voice:
        raise InvalidInputError(
            f"{place}: it has no voice", hint="`anyrig voices` lists the names."
        )
    if not isinstance(language, str) or (language and not _LANGUAGE.fullmatch(language)):
        raise InvalidInputError(
            f"{place}: invalid language {language!r:.60}", hint="Such as en, es, fr-CA."
        )
    return VoiceStyle(language, voice, _parse_rate(table.get("rate", 1.0), place))


def _parse_rate(given: object, place: str) -> float:
    number = isinstance(given, (int, float)) and not isinstance(given, bool)
    if number and _SLOWEST <= cast("float", given) <= _FASTEST:
        return float(cast("float", given))
    raise InvalidInputError(
        f"{place}: invalid rate {given!r:.60}", hint=f"Use {_SLOWEST:g} to {_FASTEST:g}."
    )


def _check_names(
    given: Mapping[str, object], names: Collection[str], place: str, advice: str = ""
) -> None:
    for key in given:
        if key not in names:
            hint = " ".join(filter(None, (_suggest_name(key, names), advice)))
            raise InvalidInputError(f"{place}: unknown key {key!r:.60}", hint=hint)


def _suggest_name(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Valid names: {', '.join(known)}." if known else "Write it under [roles]."
