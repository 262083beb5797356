"""`anyrig use`: choose the device to use from now on."""

from __future__ import annotations

import argparse
from dataclasses import replace

from anyrig.app.compute import DeviceOptions
from anyrig.app.devices import choice_to_json, forget_device, use_device
from anyrig.app.rig import Rig
from anyrig.cli.output import PlainEventPrinter, print_json, print_warning
from anyrig.cli.prompts import ask_device, can_ask
from anyrig.cli.rig import open_rig, read_device_options
from anyrig.devices.choose import describe_choice
from anyrig.errors import InvalidInputError

HELP = """Choose the device to use from now on. Without a name it asks, on a terminal. The choice is
saved in your configuration folder by the device's stable id; --device and ANYRIG_DEVICE override
it."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="DEVICE", help="as for --device")
    parser.add_argument("--reset", action="store_true", help="delete the saved choice")
    parser.add_argument(
        "--list", action="store_true", help="show the saved choice and the device in use"
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.name and arguments.device:
        raise InvalidInputError(
            "a device was named twice", hint="Once is enough: anyrig use DEVICE."
        )
    name = arguments.name or arguments.device
    if name and (arguments.reset or arguments.list):
        raise InvalidInputError(
            f"{name!r} cannot be combined with --reset or --list", hint="Leave it out."
        )
    with PlainEventPrinter() as printer:
        rig = open_rig(arguments, printer)
        options = read_device_options(rig, arguments)
        if arguments.reset:
            return _reset(rig, json=arguments.json)
        if arguments.list or (arguments.json and not name):
            return _print_saved(rig, options, json=arguments.json)
        if not name:
            if not can_ask():
                raise InvalidInputError(
                    "there is no terminal to ask on", hint="Name a device: anyrig use DEVICE."
                )
            name = ask_device(rig.machine, rig.measured_devices)
            if name is None:
                print("Nothing was saved.")
                return 0
        saved = use_device(rig, replace(options, device=name))
    if arguments.json:
        print_json({"saved": {"device": saved.device, "name": saved.name}})
    else:
        place = "" if saved.device == saved.name else f" ({saved.device})"
        print(f"Saved: {saved.name}{place}.")
    return 0


def _reset(rig: Rig, *, json: bool) -> int:
    deleted = forget_device(rig)
    if json:
        print_json({"saved": None, "forgotten": deleted})
    else:
        print("Deleted; the best device is used again." if deleted else "Nothing was saved.")
    return 0


def _print_saved(rig: Rig, options: DeviceOptions, *, json: bool) -> int:
    choice, saved = rig.preview_device(options), rig.saved_device
    if json:
        data = {"device": saved.device, "name": saved.name} if saved else None
        print_json({"saved": data, "choice": choice_to_json(choice)})
        return 0
    print(f"Saved: {saved.name or saved.device}." if saved else "Nothing is saved.")
    print(f"Using {describe_choice(choice)}.")
    for warning in choice.warnings:
        print_warning(warning)
    return 0
