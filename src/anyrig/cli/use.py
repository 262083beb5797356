"""`anyrig use`: choose the device to use from now on, by word or by being asked."""

from __future__ import annotations

import argparse

from anyrig.cli.context import Context
from anyrig.cli.devices import choice_json
from anyrig.cli.pick import ask, can_ask, measure_first_use, remember
from anyrig.cli.show import print_json, print_warning
from anyrig.devices.choose import (
    DeviceRequest,
    describe_backend_fallback,
    describe_choice,
    resolve_request,
)
from anyrig.errors import DeviceUnusableError, InvalidInputError

HELP = """Choose the device to use from now on. Without a word it asks, on a terminal. The
choice is kept in your configuration folder by the device's stable id; --device and
ANYRIG_DEVICE override it."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument("word", nargs="?", metavar="DEVICE", help="as for --device")
    parser.add_argument("--reset", action="store_true", help="forget the saved choice")
    parser.add_argument("--list", action="store_true", help="say what is saved and would be used")


def run(options: argparse.Namespace) -> int:
    """Set, ask, forget or tell."""
    context = Context(options)
    if options.word and options.device:
        raise InvalidInputError(
            "a device was named twice", hint="Once is enough: anyrig use DEVICE."
        )
    word = options.word or options.device
    if word and (options.reset or options.list):
        raise InvalidInputError(
            f"{word!r} has no place beside --reset or --list", hint="Leave it out."
        )
    if options.reset:
        return _reset(context)
    if options.list or (options.json and not word):
        return _tell(context)
    if word:
        return _set(context, word)
    if not can_ask():
        raise InvalidInputError(
            "there is no terminal to ask on", hint="Name a device: anyrig use DEVICE."
        )
    answer = ask(context.machine, context.evidence)
    if answer is None:
        print("Nothing was saved.")
        return 0
    return _set(context, answer)


def _reset(context: Context) -> int:
    from anyrig.settings.saved_device import delete_saved_device

    gone = delete_saved_device(context.folders.saved_device)
    if context.options.json:
        print_json({"saved": None, "forgotten": gone})
    else:
        print("Forgotten; the best device is chosen anew." if gone else "Nothing was saved.")
    return 0


def _set(context: Context, word: str) -> int:
    plain = word.strip().lower()
    if plain in ("auto", "all"):
        return _save(context, plain, plain)
    found = resolve_request(context.machine, DeviceRequest(word, "flag"), strict=context.strict)
    if found.missing:
        print_warning(f"{found.missing}; until there is one the CPU is used")
        return _save(context, plain, plain)
    device = found.devices[0]
    reason = device.block_reason
    if reason and device.kind == "gpu":
        text = f"{device.name} cannot be used: {reason}"
        if context.strict:
            raise DeviceUnusableError(text, hint=reason.fix or "Run `anyrig doctor`.")
        print_warning(f"{text}; until that is mended the CPU is used")
    else:
        other_way = describe_backend_fallback(device, word)
        if other_way and context.strict:
            raise DeviceUnusableError(other_way, hint="Run `anyrig doctor`.")
        if other_way:
            print_warning(other_way)
        if context.measures:
            measure_first_use(context, device)
    return _save(context, device.id, device.name)


def _save(context: Context, word: str, name: str) -> int:
    remember(context, word, name)
    if context.options.json:
        print_json({"saved": {"device": word, "name": name}})
    else:
        print(f"Saved: {name}." if word == name else f"Saved: {name} ({word}).")
    stronger = context.loaded.origins.get("device")
    if stronger:
        asked = context.loaded.settings.device
        print_warning(f"{stronger[1]} asks for {asked!r}, which comes before the saved choice")
    return 0


def _tell(context: Context) -> int:
    choice = context.choose(quiet=True)
    if context.options.json:
        stored = context.saved
        data = {"saved": {"device": stored.device, "name": stored.name} if stored else None}
        print_json({**data, "choice": choice_json(choice)})
        return 0
    print(f"Saved: {context.saved.name or context.saved.device}." if context.saved
          else "Nothing is saved.")  # fmt: skip
    print(f"Using {describe_choice(choice)}.")
    for warning in choice.warnings:
        print_warning(warning)
    return 0
