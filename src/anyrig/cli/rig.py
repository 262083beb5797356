"""The `Rig` and the log of a command, as its common flags and the terminal want them."""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.compute import DeviceOptions
from anyrig.app.rig import Rig
from anyrig.app.settings import WARNED_VARIABLE
from anyrig.cli.output import EventPrinter
from anyrig.cli.prompts import ask_device, can_ask
from anyrig.errors import InvalidSettingError
from anyrig.storage.files import create_private

if TYPE_CHECKING:
    from anyrig.events import OnEvent

# Warnings of libraries on good machines: the beginning of the message, and why it is harmless.
_HARMLESS: tuple[tuple[str, str], ...] = (
    ("APEX FusedLayerNorm not found", "torch's own layer norm is as fast"),
    (".*[Aa]pex is not installed", "torch's own fused kernels are used"),
    (".*flash_attn is not installed", "torch has flash attention built in"),
    ("Specified provider .* is not in available provider names", "reported by us, with the fix"),
    ("The pynvml package is deprecated", "nvidia-ml-py is the one that is used"),
    ("User provided device_type of 'cuda', but CUDA is not available", "the CPU was chosen"),
    (".*does not have many workers which may be a bottleneck", "measured by us"),
    ("CUDA initialization: .*", "the doctor says what is wrong with the driver"),
    (".*XDG_RUNTIME_DIR", "no display is needed"),
    (".*torch.utils._pytree.*", "an old name inside a library"),
    ("Skipping import of cpp extensions due to incompatible torch version", "plain kernels serve"),
)
DEVICE_FLAGS = ("device", "strict", "no_bench")


def open_rig(
    arguments: argparse.Namespace, on_event: OnEvent | None = None, *, ask: bool = True
) -> Rig:
    """Set up the log, load the settings and report what is wrong with them.

    Args:
        arguments: of the command.
        on_event: shows events in another way.
        ask: whether somebody at a terminal may be asked which GPU to use.
    """
    log_file = getattr(arguments, "log_file", None) or ""
    configure_log(getattr(arguments, "verbose", 0), log_file)
    machine = getattr(arguments, "machine", None)
    printer = on_event or EventPrinter()
    rig = Rig(
        config=getattr(arguments, "config", None),
        machine=Path(machine) if machine else None,
        on_event=printer,
        ask_device=partial(_ask_device, printer=printer) if ask and can_ask() else None,
        keep_models=False,
    )
    if rig.settings.log_file and not log_file:
        configure_log(getattr(arguments, "verbose", 0), rig.settings.log_file)
    if not rig.environment.get(WARNED_VARIABLE):
        for warning in rig.loaded_settings.warnings:
            rig.warn(warning)
        rig.environment[WARNED_VARIABLE] = "1"
    return rig


def read_device_options(rig: Rig, arguments: argparse.Namespace) -> DeviceOptions:
    return rig.request(DeviceOptions, **read_device_flags(arguments))


def read_device_flags(arguments: argparse.Namespace) -> dict[str, Any]:
    """The flags of every command that say something about the device, if they were given."""
    return {name: value for name in DEVICE_FLAGS if (value := getattr(arguments, name, None))}


def _ask_device(rig: Rig, printer: OnEvent | None = None) -> str | None:
    with printer.hold() if isinstance(printer, EventPrinter) else nullcontext():
        return ask_device(rig.machine, rig.measured_devices)


class _HarmlessFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        import re

        text = record.getMessage()
        return not any(re.match(pattern, text) for pattern, _ in _HARMLESS)


def configure_log(verbose: int, log_file: str = "") -> None:
    """Set up the log of a command: quiet by default, -v for information, -vv for everything."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        if getattr(handler, "anyrig", False):
            root.removeHandler(handler)
            handler.close()
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    screen = logging.StreamHandler(sys.stderr)
    screen.setLevel(level)
    screen.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    _add(root, screen)
    if log_file:
        _add(root, _file_handler(log_file))
    root.setLevel(logging.DEBUG if log_file else level)
    if not verbose:
        screen.addFilter(_HarmlessFilter())
        for pattern, _ in _HARMLESS:
            warnings.filterwarnings("ignore", message=pattern)


def _file_handler(path: str) -> logging.Handler:
    try:
        create_private(path)
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise InvalidSettingError(
            f"cannot write the log to {path}: {error.strerror}", hint="Name another --log-file."
        ) from error
    handler.setLevel(logging.DEBUG)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    return handler


def _add(root: logging.Logger, handler: logging.Handler) -> None:
    handler.anyrig = True  # type: ignore[attr-defined]  # ours, replaced by the next command
    root.addHandler(handler)
