"""Flags of a command, made from the options of its request.

A flag that is not given leaves no trace in the parsed arguments, so that settings and defaults are
filled in where the request is built.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from anyrig.errors import InvalidOptionError, Message, OptionRef
from anyrig.options import Option, list_options


def add_flags(
    parser: argparse.ArgumentParser, request: type, *, exclude: Collection[str] = ()
) -> None:
    """Add a flag for every option of a request, in groups by the class that defines them."""
    groups: dict[str, argparse._ArgumentGroup | argparse.ArgumentParser] = {}
    own = (request.__doc__ or "").partition("\n")[0].rstrip(".")
    for name, option in list_options(request).items():
        if not option.flag or name in exclude:
            continue
        if option.group not in groups:
            is_own = option.group == own
            groups[option.group] = parser if is_own else parser.add_argument_group(option.group)
        _add(groups[option.group], option)


def read_flags(arguments: argparse.Namespace, request: type) -> dict[str, Any]:
    """The options of a request that were given as flags."""
    given: dict[str, Any] = {}
    for name, option in list_options(request).items():
        value = getattr(arguments, name, None)
        if value is None or (option.positional and value == []):
            continue
        # False of a switch is a flag of every command that was not given.
        if value is not False or option.default is not False:
            given[name] = _join(option, value)
    return given


def _add(group: argparse._ArgumentGroup | argparse.ArgumentParser, option: Option) -> None:
    rules: dict[str, Any] = {"help": option.help.replace("%", "%%"), "default": argparse.SUPPRESS}
    metavar = option.metavar or _METAVARS.get(option.kind, "TEXT")
    if option.positional:
        many = "+" if option.required else "*"
        count = many if option.shape == "list" else None if option.required else "?"
        rules["default"] = None  # argparse would pass SUPPRESS through `type`
        group.add_argument(
            option.name, nargs=count, metavar=metavar, type=option.parse_text, **rules
        )
        return
    names = [*filter(None, [option.short]), option.flag_name]
    if option.const:
        rules |= {"nargs": "?", "const": option.const}
    if option.kind is bool:
        action = "store_true" if option.default is False else argparse.BooleanOptionalAction
        group.add_argument(*names, dest=option.name, action=action, **rules)
    elif option.shape == "mapping":
        group.add_argument(
            *names,
            dest=option.name,
            action="append",
            metavar="KEY=VALUE",
            type=_parse_pair,
            **rules,
        )
    elif option.shape == "list":
        group.add_argument(
            *names, dest=option.name, action="append", metavar=option.metavar or "LIST",
            type=option.parse_list, **rules,
        )  # fmt: skip
    else:
        if option.choices and not option.normalize:
            rules["choices"] = option.choices
        else:
            rules["metavar"] = metavar
        group.add_argument(*names, dest=option.name, type=option.parse_text, **rules)


_METAVARS = {int: "N", float: "X", Path: "PATH"}


def _parse_pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidOptionError(
            "set", "must be KEY=VALUE", value=text,
            hint=Message("For example {set}.", set=OptionRef("set", "seed=3")),
        )  # fmt: skip
    return name.strip(), value


def _join(option: Option, value: Any) -> Any:
    """Several values of one flag as one: lists are joined, pairs become a mapping."""
    if option.shape == "mapping" and not isinstance(value, Mapping):
        return dict(value)
    if option.shape == "list" and not option.positional:
        return tuple(item for part in value for item in part)
    return value
