"""Why a device is used or not: codes, their messages, and the values that fill them in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ReasonCode(StrEnum):
    """Why a device is used or not, with the message in English.

    Codes and the names of their values are public: other languages translate by them.
    """

    template: str

    def __new__(cls, code: str, template: str = "") -> ReasonCode:
        member = str.__new__(cls, code)
        member._value_ = code
        member.template = template
        return member

    # The device cannot be used, whatever is installed.
    HIDDEN = "hidden", "hidden by {setting}"
    MIG_PARENT = "mig_parent", "partitioned into {instances}: use those instead"
    MIG_EMPTY = "mig_empty", "MIG mode is enabled but has no instance"
    COMPUTE_PROHIBITED = "compute_prohibited", "compute mode is Prohibited"
    PASSED_THROUGH = "passed_through", "passed through to a virtual machine (vfio-pci)"
    NO_DRIVER = "no_driver", "no driver is loaded for it"
    WRONG_DRIVER = "wrong_driver", "it uses the {driver} driver, which does not support {feature}"
    DRIVER_FAILED = "driver_failed", "the NVIDIA driver does not work: {error}"
    DRIVER_NOT_IN_CONTAINER = (
        "driver_not_in_container",
        "the NVIDIA driver is not available in this {container} container",
    )
    NOT_IN_NVML = "not_in_nvml", "the NVIDIA driver does not list it"
    LOST = "lost", "not responding: {error}"

    # A backend cannot use the device.
    NOT_INSTALLED = "not_installed", "{package} is not installed"
    WRONG_BUILD = "wrong_build", "{package} was built without {feature}"
    TORCH_TOO_OLD = (
        "torch_too_old",
        "{package} keeps torch at {installed}, anyrig needs {required} or newer",
    )
    WRONG_PYTHON = "wrong_python", "this Python is built for Intel: Metal requires one for arm64"
    NO_WHEEL = "no_wheel", "{package} has no wheel for {platform}"
    NO_KERNELS = "no_kernels", "{package} has no kernels for {capability}"
    DRIVER_TOO_OLD = (
        "driver_too_old",
        "the driver supports CUDA {supported}, {package} requires {required}",
    )
    NO_COMPUTE = "no_compute", "{setting} excludes compute"
    NO_PERMISSION = "no_permission", "no permission to open {path}"
    NOT_IN_CONTAINER = "not_in_container", "{path} is not mapped into this container"
    NO_RENDER_NODE = "no_render_node", "no /dev/dri/renderD* found"
    NO_KFD = "no_kfd", "/dev/kfd does not exist: the amdgpu driver offers no compute"
    NOT_IN_KFD = "not_in_kfd", "not listed by the kernel's kfd"
    NO_ROCDXG = "no_rocdxg", "ROCm in WSL2 requires librocdxg, which is not installed"
    ROCM_DROPPED = "rocm_dropped", "ROCm no longer supports {target}"
    NO_WINDOWS_BUILD = "no_windows_build", "AMD provides no torch for {target} on Windows"
    XPU_UNSUPPORTED = "xpu_unsupported", "torch's XPU build does not support {architecture}"
    OPENVINO_UNSUPPORTED = "openvino_unsupported", "OpenVINO does not support {architecture}"
    NO_VULKAN = "no_vulkan", "no Vulkan loader or driver found"
    NO_BACKEND = "no_backend", "{reasons}"

    # Another device is better, or was requested.
    WRONG_RESULTS = "wrong_results", "{error}"
    NOT_REQUESTED = "not_requested", "not requested"
    GPU_AVAILABLE = "gpu_available", "a GPU is available"
    SLOWER = "slower", "measured slower than {name}: {speed} compared to {best} TFLOP/s"
    UNMEASURED_IS_BETTER = (
        "unmeasured_is_better",
        "measured, but one with better specifications was not measured yet",
    )
    LOWER_SPECIFICATIONS = "lower_specifications", "lower specifications"

    # A workload does not run there.
    NO_GPU_BENEFIT = "no_gpu_benefit", "{workload} does not benefit from a GPU"
    NO_LIBRARY = "no_library", "{workload} needs {libraries}: {reasons}"
    WRONG_ENVIRONMENT = (
        "wrong_environment",
        "the environment of {workload} has torch for {installed}, not for this GPU",
    )
    INSUFFICIENT_MEMORY = "insufficient_memory", "needs {needed}, may use {budget}"

    # Why the chosen device is used.
    BY_FLAG = "by_flag", "requested: {selector}"
    BY_ENVIRONMENT = "by_environment", "requested by an environment variable: {selector}"
    BY_SETTINGS = "by_settings", "requested by a settings file: {selector}"
    SAVED = "saved", "saved by `anyrig use`"
    FASTEST = "fastest", "the fastest measured: {speed} TFLOP/s, compared to {second} on {name}"
    CPU_FASTEST = (
        "cpu_fastest",
        "the CPU is the fastest measured: {speed} TFLOP/s, compared to {second} on {name}",
    )
    ONLY_MEASURED = "only_measured", "measured: {speed} TFLOP/s"
    ONLY_USABLE = "only_usable", "the only usable GPU"
    BEST_SPECIFICATIONS = "best_specifications", "best specifications of the usable GPUs"
    NO_GPU = "no_gpu", "no GPU found"
    NO_USABLE_GPU = "no_usable_gpu", "no GPU can be used"
    KIND_NOT_FOUND = "kind_not_found", "no {kind} found{source}"
    DEVICE_NOT_FOUND = "device_not_found", "{error}{source}"
    UNUSABLE = "unusable", "{name} cannot be used: {reason}"
    BACKEND_UNUSABLE = (
        "backend_unusable",
        "{name} cannot be used as {selector} ({reason}); using it as {other}",
    )


@dataclass(frozen=True)
class DeviceReason:
    """Why a device is used or not. Code decides by `code`; people read `message` and `fix`."""

    code: ReasonCode
    fix: str = ""
    """A command, or where to read on."""
    values: tuple[tuple[str, str], ...] = ()
    """What the message is filled in with."""

    @property
    def message(self) -> str:
        return self.code.template.format_map(dict(self.values))

    def __str__(self) -> str:
        return self.message


def explain(code: ReasonCode, fix: str = "", **values: object) -> DeviceReason:
    return DeviceReason(code, fix, tuple((name, str(value)) for name, value in values.items()))
