"""A fake of the module `pynvml`: the calls that the reader makes, with settable answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

NOT_SUPPORTED, NOT_FOUND, LOST, UNKNOWN = 3, 6, 15, 999
_WORDS = {3: "Not Supported", 6: "Not Found", 15: "GPU is lost", 999: "Unknown Error"}
GIB = 1024**3
# Numbers of nvmlDeviceGetFieldValues.
MEMORY_TEMPERATURE, POWER, ECC, TX, RX = 82, 185, 4, 197, 198


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(_WORDS[value])
        self.value = value


class FakeNvml:
    """One GPU; `errors` maps calls that fail to their error codes."""

    NVMLError = NVMLError

    def __init__(self, uuid: str = "GPU-1", mig: str = "") -> None:
        self.uuids = {uuid: "h0", **({mig: "h1"} if mig else {})}
        self.errors: dict[str, int] = {}
        self.calls: list[str] = []
        self.used = 10 * GIB
        self.reasons = 0x4 | 0x20
        self.fields = {MEMORY_TEMPERATURE: 61, POWER: 412_000, ECC: 0, TX: 0, RX: 0}
        self.processes: list[tuple[int, int | None]] = []
        self.busy: list[tuple[int, int]] = []
        self.inits = self.shutdowns = 0

    def nvmlInit(self) -> None:
        self._note("nvmlInit")
        self.inits += 1

    def nvmlShutdown(self) -> None:
        self.shutdowns += 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        self._note("nvmlDeviceGetHandleByUUID")
        if uuid not in self.uuids:
            raise NVMLError(NOT_FOUND)
        return self.uuids[uuid]

    def nvmlDeviceGetHandleByPciBusId(self, address: str) -> str:
        self._note("nvmlDeviceGetHandleByPciBusId")
        return "h0"

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        self._note("nvmlDeviceGetMemoryInfo")
        total = 140 * GIB if handle == "h0" else 10 * GIB
        return SimpleNamespace(total=total, used=self.used, free=total - self.used)

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:
        self._note("nvmlDeviceGetUtilizationRates")
        if handle == "h1":
            raise NVMLError(NOT_SUPPORTED)  # an instance has no load
        return SimpleNamespace(gpu=62, memory=31)

    def nvmlDeviceGetFieldValues(self, handle: str, numbers: list[int]) -> list[Any]:
        self._note("nvmlDeviceGetFieldValues")
        found = []
        for number in numbers:
            value = self.fields.get(number)
            union = SimpleNamespace(ullVal=value or 0, uiVal=value or 0)
            code = NOT_SUPPORTED if value is None else 0
            wide = 3 if number in (TX, RX) else 1
            found.append(SimpleNamespace(nvmlReturn=code, valueType=wide, value=union))
        return found

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        self._note("nvmlDeviceGetComputeRunningProcesses")
        return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in self.processes]

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: str) -> list[Any]:
        self._note("nvmlDeviceGetGraphicsRunningProcesses")
        return []

    def nvmlDeviceGetProcessUtilization(self, handle: str, since: int) -> list[Any]:
        self._note("nvmlDeviceGetProcessUtilization")
        if not self.busy:
            raise NVMLError(NOT_FOUND)
        return [
            SimpleNamespace(pid=pid, smUtil=share, timeStamp=number + 1)
            for number, (pid, share) in enumerate(self.busy)
        ]

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:
        self._note("nvmlDeviceGetCurrentClocksEventReasons")
        return self.reasons

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:
        self._note("nvmlDeviceGetClockInfo")
        return {1: 1755, 2: 3201}[kind]

    def nvmlDeviceGetMaxClockInfo(self, handle: str, kind: int) -> int:
        self._note("nvmlDeviceGetMaxClockInfo")
        return {1: 1980, 2: 3201}[kind]

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:
        self._note("nvmlDeviceGetTemperature")
        return 54

    def __getattr__(self, name: str) -> Any:
        """Calls that return one number."""
        plain = {
            "nvmlDeviceGetPowerUsage": 399_000, "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetCurrPcieLinkGeneration": 4, "nvmlDeviceGetMaxPcieLinkGeneration": 5,
            "nvmlDeviceGetCurrPcieLinkWidth": 8, "nvmlDeviceGetMaxPcieLinkWidth": 16,
            "nvmlDeviceGetEncoderUtilization": [3, 100],
            "nvmlDeviceGetDecoderUtilization": [0, 100], "nvmlDeviceGetPcieThroughput": 2048,
        }  # fmt: skip
        if name == "nvmlDeviceGetFanSpeed":
            return self._no_fan
        if name not in plain:
            raise AttributeError(name)

        def answer(handle: str, *_: Any) -> Any:
            self._note(name)
            return plain[name]

        return answer

    def _no_fan(self, handle: str) -> int:
        self._note("nvmlDeviceGetFanSpeed")
        raise NVMLError(NOT_SUPPORTED)

    def _note(self, name: str) -> None:
        self.calls.append(name)
        code = self.errors.get(name, self.errors.get("*"))
        if code is not None:
            raise NVMLError(code)
