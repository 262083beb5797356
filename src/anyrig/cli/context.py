"""What a command stands on: environment, settings, folders, the machine, what was measured.

The one place that reads os.environ. Everything below takes arguments.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from anyrig.app.settings import LOADER, WARNED_VARIABLE, Settings
from anyrig.cli.output import print_warning
from anyrig.devices.choose import (
    DeviceChoice,
    DeviceRequest,
    Evidence,
    choose_device,
    resolve_request,
)
from anyrig.settings.folders import Folders, find_folders
from anyrig.settings.load import LoadedSettings

if TYPE_CHECKING:
    from anyrig.app.events import Event
    from anyrig.app.rig import Rig
    from anyrig.bench.measurements import Measurements
    from anyrig.devices.machine import Device, Machine
    from anyrig.settings.saved_device import SavedDevice

log = logging.getLogger(__name__)
T = TypeVar("T")
# A recorded machine is seen as if these were set there: so one can ask "what if".
_WHAT_IF = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
)  # fmt: skip


def _there(path: Path) -> bool:
    """Whether a file is there; one in a folder that may not be opened is not."""
    try:
        return path.exists()
    except OSError:
        return False


class Context:
    """Everything a command asks for, found on first use."""

    def __init__(
        self, options: argparse.Namespace, environment: Mapping[str, str] | None = None
    ) -> None:
        from anyrig.cli.rig import configure_log as configure

        self.options = options
        self.warned: set[str] = set()
        """Warnings that were given: each is given once, by copies of this context too."""
        self.environment = dict(os.environ if environment is None else environment)
        self._take_in(os.environ if environment is None else {})
        log_file = getattr(options, "log_file", None) or self.loaded.settings.log_file
        configure(getattr(options, "verbose", 0), log_file)

    def _take_in(self, own: MutableMapping[str, str]) -> None:
        """Set what the `.env` file says of devices, and say what was ignored of settings.

        Args:
            own: the process's variables, which libraries read when they load.
        """
        from anyrig.cli.output import print_warning

        self.environment.update(self.loaded.process_variables)
        own.update(self.loaded.process_variables)
        if self.loaded.warnings and not self.environment.get(WARNED_VARIABLE):
            for warning in self.loaded.warnings:
                print_warning(warning)
            self.environment[WARNED_VARIABLE] = "1"

    @cached_property
    def folders(self) -> Folders:
        """The user's folders."""
        return find_folders(self.environment)

    @cached_property
    def loaded(self) -> LoadedSettings[Settings]:
        """Settings, with where each came from."""
        named = getattr(self.options, "config", None) or self.environment.get("ANYRIG_CONFIG")
        if named and not Path(named).is_file():
            from anyrig.errors import InvalidSettingError

            raise InvalidSettingError(f"no settings file {named}", hint="Name one that is there.")
        return LOADER.load(
            self.environment,
            user_file=self.folders.config / "anyrig.toml",
            project_file=Path(named or "anyrig.toml"),
            project_named=bool(named),
            dotenv=Path(".env"),
        )

    @cached_property
    def rig(self) -> Rig:
        """The application, for what has moved there."""
        from anyrig.app.rig import Rig

        rig = Rig(
            config=getattr(self.options, "config", None), environment=self.environment,
            on_event=self._tell_event,
        )  # fmt: skip
        rig.machine = self.machine  # not discovered again
        return rig

    def request(self, kind: type[T], **given: Any) -> T:
        """A request of the application, with the flags about devices and computing."""
        from anyrig.app.compute import ComputeOptions
        from anyrig.options import list_options

        flags = {name: getattr(self.options, name, None) for name in list_options(ComputeOptions)}
        known = {name: value for name, value in flags.items() if value not in (None, "", False)}
        return self.rig.request(kind, **{**known, **given})

    def _tell_event(self, event: Event) -> None:
        from anyrig.app.events import NoticeEvent, WarningEvent

        if isinstance(event, WarningEvent):
            self.warn_once(event.message)
        elif isinstance(event, NoticeEvent) and not getattr(self.options, "unattended", False):
            print(event.message, file=sys.stderr)

    @cached_property
    def record(self) -> dict[str, Any] | None:
        """The recorded machine that stands in for this one, if one was named."""
        path = getattr(self.options, "machine", None)
        if not path:
            return None
        from anyrig.devices.probe import load_record

        return load_record(Path(path))

    @cached_property
    def machine(self) -> Machine:
        """The machine: this one, or the recorded one."""
        from anyrig.devices.discover import discover, from_record

        if self.record is not None:
            what_if = {n: self.environment[n] for n in _WHAT_IF if n in self.environment}
            return from_record(self.record, what_if)
        return discover(self.environment)

    @cached_property
    def measurements(self) -> Measurements:
        """What was measured on this machine; nothing for a recorded one."""
        from anyrig.bench.measurements import Measurements

        return Measurements() if self.record else Measurements.load(self.folders.measurements)

    @cached_property
    def saved(self) -> SavedDevice | None:
        """The device saved by `anyrig use`; none for a recorded machine."""
        if self.record is not None or not _there(self.folders.saved_device):
            return None
        from anyrig.settings.saved_device import load_saved_device

        return load_saved_device(self.folders.saved_device)

    @property
    def wishes(self) -> tuple[DeviceRequest, ...]:
        """What was asked for, the strongest first."""
        found: list[DeviceRequest] = []
        flag = getattr(self.options, "device", None)
        if flag:
            found.append(DeviceRequest(flag, "flag"))
        origin = self.loaded.origins.get("device")
        if origin is not None:
            found.append(DeviceRequest(self.loaded.settings.device, origin[0], place=origin[1]))
        if self.saved is not None:
            found.append(DeviceRequest(self.saved.device, "saved", self.saved.name))
        return tuple(found)

    @property
    def strict(self) -> bool:
        """Whether a device that cannot be used is an error."""
        return bool(getattr(self.options, "strict", False)) or self.loaded.settings.strict

    def resolve(self, word: str) -> tuple[Device, ...]:
        """The devices that a word of this command names; the CPU and a warning for an absent kind.

        Raises:
            DeviceNotFoundError: it names one device, which is not there.
        """
        found = resolve_request(self.machine, DeviceRequest(word, "flag"), strict=self.strict)
        self._tell(found.warning)
        return found.devices

    def _tell(self, *warnings: str) -> None:
        """Print warnings about the device, once for a command."""
        if not getattr(self.options, "device_told", False):
            for warning in filter(None, warnings):
                print_warning(warning)
            # Kept with the options: contexts made of these, here or in a child, stay silent.
            self.options.device_told = any(warnings)

    def choose_cpu(self) -> DeviceChoice:
        """The CPU, for work that runs nowhere else. A requested device that is not there is told of
        all the same; one that cannot be used does not matter here.
        """
        wish = next((one for one in self.wishes if one.origin != "saved"), None)
        if wish is not None and wish.selector.strip().lower() != "auto":
            self._tell(resolve_request(self.machine, wish, strict=self.strict).warning)
        return choose_device(self.machine, (DeviceRequest("cpu", "flag"),))

    def choose(self, *, quiet: bool = False) -> DeviceChoice:
        """The device for this command. Its warnings are printed once for a command.

        Args:
            quiet: the caller shows the warnings itself.
        """
        choice = choose_device(
            self.machine, self.wishes, evidence=self.evidence, strict=self.strict
        )
        if not quiet:
            self._tell(*choice.warnings)
        log.info("chosen: %s (%s)", ", ".join(d.name for d in choice.devices), choice.reason)
        for passed in choice.skipped:
            log.info("skipped: %s (%s)", passed.device.name, passed.reason)
        return choice

    @property
    def evidence(self) -> Evidence:
        """What was measured and found wrong."""
        if self.record is not None or not _there(self.folders.measurements):
            return Evidence()
        return self.measurements.evidence(self.machine)

    @property
    def measures(self) -> bool:
        """Whether a device may be measured on its first use."""
        off = bool(getattr(self.options, "no_bench", False))
        return self.loaded.settings.bench and not off and self.record is None

    def warn_once(self, text: str) -> None:
        """Warn a person at a terminal, or the log of a server."""
        if text in self.warned:
            return
        self.warned.add(text)
        if getattr(self.options, "unattended", False):
            log.warning("%s", text)
        else:
            from anyrig.cli.output import print_warning

            print_warning(text)

    def log_reasons(self, title: str, reasons: Iterable[str]) -> None:
        """Put into the log why something was decided so."""
        log.info("%s", title)
        for reason in reasons:
            log.info("  %s", reason)
