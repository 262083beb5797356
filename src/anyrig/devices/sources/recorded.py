"""A recorded machine: the raw answers of its interfaces, from JSON, and the recorder that writes
it.

The file is described in docs/recorded-machines.md. It holds answers, not conclusions, so discovery
itself is what a recorded machine tests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyrig.devices.sources.system import Answers, NotThere, Silent, System
from anyrig.errors import InvalidRecordError

FORMAT = 1
_HINT = "Write one with `anyrig devices --record FILE`; docs/recorded-machines.md has the format."
SECTIONS = frozenset(
    "format about cites host environment files folders links nodes catalogue nvml drm dxgi dxcore "
    "registry commands packages package_files disk probes".split()
)
# What a machine's description hangs on; anything else in the environment is the user's own.
RECORDED_VARIABLES = (
    "CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES "
    "HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HSA_OVERRIDE_GFX_VERSION HSA_ENABLE_DXG_DETECTION "
    "ZE_AFFINITY_MASK ZE_FLAT_DEVICE_HIERARCHY ONEAPI_DEVICE_SELECTOR PYTORCH_ALLOC_CONF "
    "PYTORCH_CUDA_ALLOC_CONF PYTORCH_HIP_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING "
    "PYTORCH_MPS_HIGH_WATERMARK_RATIO CUDA_LAUNCH_BLOCKING TORCH_CUDNN_V8_API_ENABLED "
    "TORCH_CUDA_ARCH_LIST OMP_NUM_THREADS VK_ICD_FILENAMES VK_DRIVER_FILES "
    "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER container KUBERNETES_SERVICE_HOST WSL_DISTRO_NAME"
).split()


def relevant(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that shape what devices can do, and no secret beside them."""
    found = {name: environment[name] for name in RECORDED_VARIABLES if name in environment}
    # Paths may hold a person's name; that they are set is all that counts.
    return {name: "set" if name.startswith("VK_") else value for name, value in found.items()}


def load_record(path: Path) -> dict[str, Any]:
    """A recorded machine's data, checked for shape."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidRecordError(f"cannot read {path}: {error.strerror}", hint=_HINT) from error
    except (ValueError, RecursionError) as error:
        raise InvalidRecordError(f"{path} is not JSON: {error}", hint=_HINT) from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise InvalidRecordError(f"{path} is no recorded machine of format {FORMAT}", hint=_HINT)
    unknown = sorted(set(record) - SECTIONS)
    if unknown:
        raise InvalidRecordError(f"{path}: unknown section {', '.join(unknown)}", hint=_HINT)
    for section in SECTIONS - {"format", "about", "dxgi", "dxcore"}:
        if not isinstance(record.get(section, {}), dict):
            raise InvalidRecordError(f"{path}: {section} must be an object", hint=_HINT)
    return record


def recorded_system(record: Mapping[str, Any]) -> System:
    """A system that answers from a record, under the record's own environment."""
    environment = {str(k): str(v) for k, v in record.get("environment", {}).items()}
    return System(RecordedAnswers(record), environment)


def _failed(answer: Any) -> Any:
    """The answer itself, or the failure that it stands for."""
    if isinstance(answer, dict) and set(answer) == {"error"}:
        raise Silent(str(answer["error"]))
    return answer


class RecordedAnswers:
    """Answers from a record; what was not recorded is not there."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self._record = record

    def __call__(self, interface: str, *question: str) -> Any:
        """The recorded answer."""
        special = getattr(self, f"_{interface}", None)
        if special is not None:
            return _failed(special(*question))
        section = self._record.get(interface)
        if section is None:
            raise NotThere(f"no {interface} on this machine")
        if not question:
            return _failed(section)
        key = " ".join(question)
        if key not in section:
            raise NotThere(f"{key} is not there")
        return _failed(section[key])

    def _folders(self, path: str) -> Any:
        """Listed folders, and whatever the recorded paths imply lies below `path`."""
        listed = self._record.get("folders", {}).get(path)
        if listed is not None:
            return listed
        below = path.rstrip("/") + "/"
        names = {
            recorded[len(below) :].split("/", 1)[0]
            for section in ("files", "folders", "links", "nodes")
            for recorded in self._record.get(section, {})
            if recorded.startswith(below)
        }
        if not names:
            raise NotThere(f"{path} is not there")
        return sorted(names)

    def _subkeys(self, key: str) -> Any:
        below = key + "\\"
        keys = {
            k[len(below) :].split("\\", 1)[0]
            for k in self._record.get("registry", {})
            if k.startswith(below)
        }
        return sorted(keys)

    def _nvml(self, function: str, handle: str) -> Any:
        library = self._record.get("nvml")
        if library is None:
            raise NotThere("NVIDIA's library NVML is not on this machine")
        _failed(library)
        place: Any = library
        if handle:
            index, _, instance = handle.partition("/")
            place = library["devices"][int(index)]
            if instance:
                place = place["mig"][int(instance)]
        elif function == "nvmlDeviceGetCount":
            return library.get(function, len(library.get("devices", [])))
        elif function == "nvmlInit":
            return library.get(function)
        if function == "mig":
            return len(place.get("mig", []))
        if function not in place:
            raise Silent("NVML_ERROR_FUNCTION_NOT_FOUND")
        return place[function]


class Recorder:
    """Passes every question on and writes down what came back, failures included."""

    def __init__(self, answers: Answers, environment: Mapping[str, str]) -> None:
        self._answers = answers
        self.record: dict[str, Any] = {
            "format": FORMAT,
            "about": "Recorded by `anyrig devices --record`.",
            "cites": {"**": "capture: anyrig devices --record on this machine"},
            "environment": relevant(environment),
        }

    def __call__(self, interface: str, *question: str) -> Any:
        """The other's answer."""
        try:
            answer = self._answers(interface, *question)
        except NotThere:
            raise
        except Silent as failure:
            self._note(interface, question, {"error": str(failure)})
            raise
        self._note(interface, question, answer)
        return answer

    def _note(self, interface: str, question: tuple[str, ...], answer: Any) -> None:
        if interface == "nvml":
            function, handle = question
            self._note_nvml(function, handle, answer)
        elif interface == "subkeys":
            pass  # implied by the keys below, which are asked for next
        elif question:
            self.record.setdefault(interface, {})[" ".join(question)] = answer
        else:
            self.record[interface] = answer

    def _note_nvml(self, function: str, handle: str, answer: Any) -> None:
        if function == "nvmlInit" and answer is not None:
            self.record["nvml"] = {"nvmlInit": answer}
            return
        library = self.record.setdefault("nvml", {"devices": []})
        if not handle:
            library[function] = answer
            return
        if function == "mig":
            return
        index, _, instance = handle.partition("/")
        place = _slot(library["devices"], int(index))
        if instance:
            place = _slot(place.setdefault("mig", []), int(instance))
        place[function] = answer


def _slot(rows: list[dict[str, Any]], index: int) -> dict[str, Any]:
    while len(rows) <= index:
        rows.append({})
    return rows[index]
