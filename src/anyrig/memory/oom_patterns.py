"""What libraries say when memory runs out or a device is lost, as patterns per backend.

No pattern is the bare words "out of memory": a title, a file name and a server's answer contain
them too. Each is a library's own wording or the name of an error code. Searching costs time in
proportion to a text's length, whatever it says: repeats of repeats are bounded and give nothing
back.
tests/memory/out_of_memory.toml gives a source for each wording, tests/memory/look_alikes.toml lists
texts that must not match.
"""

from __future__ import annotations

import functools
import re
from typing import Literal

MemoryLocation = Literal["device", "host"]

# Where a statement begins: "If you see CUDA out of memory, ..." is advice, not a failure, and
# "the text 'CUDA out of memory'" quotes what somebody wrote.
_START = r"(?:^|(?:[\n:;\])}>(]|(?<!\w )['\"`])[ \t]{0,8}|\s-\s|Error\s)"
# What follows a statement: "CUDA out of memory handling is disabled" is none.
_END = (
    r"(?=\s{0,8}(?:$|[^\s\w])| (?:and|at|before|during|error|exception|for|from|in|occurred|on|or"
    r"|to|when|while|with|[Tt]r(?:ied|ying))\b)"
)
_AMOUNT = r"\d[\d.,]{0,40}\s?(?:[Bb]ytes|[KMGTP]i?B?\b)"
_GPU = r"\b(?:CUDA|Cuda|cuda|HIP|Hip|hip|ROCm)\b"
# What stands between "CUDA error" and "out of memory": codes, file names, brackets. The first
# character of a part says which it is, and a part gives nothing back once it has matched, so
# that a text can be divided in one way only.
_CODE = (
    r"(?:\s{0,4}+(?:\([^()\n]{0,160}\)|\[[^\[\]\n]{0,160}\]|in [\w:~<>.]{1,200}+|with error"
    r"|code|status|\d{1,40}+|[:=,#.-])){0,20}\s{0,4}+['\"(]?"
)
_FAILED = r"(?: \w{1,40}+){0,3}? (?:[Ee]rror|[Ff]ailure|[Ff]ailed)" + _CODE

# What Python says where Windows could not load a library.
DLL_FAILED = "DLL load failed"

# An error number of Windows: bare digits may be anything.
_HRESULT = r"(?:\b0x|\btid\(\w{1,16}\) |\b(?:HRESULT|hr|[Ee]rror|[Cc]ode|status)[ :=(]{1,3})"

# Level Zero's ze_result_t as a number, in hexadecimal or, since Triton 3.2, in decimal digits.
_ZE_CODE = r"\bTriton Error \[ZE\]: "

DEVICE = (
    # torch's caching allocators, its MPS and its cudaMallocAsync allocator
    _START
    + r"(?:CUDA|HIP|ROCm|XPU|MPS(?: backend)?|NPU|MTIA|MUSA|MLU|HPU|GPU) out of memory\b"
    + _END,
    r"\b[A-Z]\w{2,12}(?: backend)? out of memory\. \(?(?:Tried|tried) to allocate\b",
    r"\bMODULE:PT_DEVMEM Allocation failed\b",  # Gaudi
    r"\bAllocation on device ?\S* would exceed allowed memory\b",
    # torch's error class by name, in text that came from another process; under
    # cudaMallocAsync there may be no other text.
    r"(?:^|\n)[ \t]{0,8}torch\.(?:cuda\.|xpu\.)?_?OutOfMemoryError(?=:|[ \t]{0,8}(?:$|\n))",
    r"\bOutOfMemoryError: Allocation on device\b",
    r"(?:^|\n)[ \t]{0,8}Allocation on device(?: \d+)?\.?[ \t]{0,8}(?:$|\n)",
    _START + r"Invalid buffer size: [\d.]+ ?[KMGT]i?B\b",
    # the CUDA and HIP run-time, as torch, ONNX Runtime, TensorRT, NCCL, CTranslate2 quote it
    _GPU + _FAILED + r"[Oo]ut of memory\b",
    _GPU + _FAILED + r"the resource allocation failed\b",  # cuBLAS' words for it
    _GPU + r" error in file '[^'\n]{1,200}' (?:at|in) line \d{1,6} ?: ?out of memory\b",
    r"\bHip error creating buffer \d{1,40}[: ]{1,4}out of memory\b",  # MIOpen
    # Without NVML, as on a Jetson, torch fails over its own report of a shortage.
    r"\bNVML_SUCCESS == r INTERNAL ASSERT FAILED at \"?[^\"\n]{0,200}CUDACachingAllocator\.cpp",
    r"\bNvMapMemAlloc\w{0,20}: \d{1,40} error 12\b",  # the same, of its driver
    r"\b(?:CUDA|HIP|ROCM|ROCm|[Cc]uda (?:Runtime|Driver)):? \(?out of memory\b(?=\)|$|\n)",
    r"\bTriton Error \[\w{2,8}\]: {1,2}(?:Code: \d{1,4}, Mess?s?age: )?out of memory\b",
    r"\bFailed to CUDA (?:host )?(?:[cm])?alloc(?: async)? \d+ bytes\b",  # NCCL
    r"\b(?:cuda|hip|cu|musa)\w{0,20}(?:[Mm]alloc|Alloc|MemCreate|CtxCreate)\w{0,20}\b"
    r"[^\n]{0,80}?\bout of memory\b",
    r"\b(?:cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY)\b",
    r"\bhipError(?:OutOfMemory|MemoryAllocation)\b",
    _START + r"Error out of memory at line \d+ in file\b",  # bitsandbytes
    # the vendors' libraries
    r"\b(?:CU|HIP|ROC|MU)[A-Z]{3,9}_(?:STATUS_)?ALLOC(?:ATION)?_FAILED\b",
    r"\bCUSPARSE_STATUS_INSUFFICIENT_RESOURCES\b",
    r"\bCUDNN_STATUS_INTERNAL_ERROR_(?:DEVICE|HOST)_ALLOCATION_FAILED\b",
    r"\b(?:NVJPEG_STATUS_ALLOCATOR_FAILURE|QNN_[A-Z]{3,12}_ERROR_MEM_ALLOC)\b",
    r"\b(?:miopenStatusAllocFailed|rocblas_status_memory_error|MAGMA_ERR_(?:DEVICE|HOST)_ALLOC)\b",
    r"\bcannot allocate memory on (?:GPU device|CPU host)\b",  # MAGMA's words
    # Probably a shortage: without memory for a workspace cuDNN has no algorithm left, and torch
    # reports this. Exactly torch's sentence, because the bare code has other causes.
    r"\b[Cc]uDNN error: CUDNN_STATUS_NOT_SUPPORTED\. This error may appear if you passed in a"
    r" non-contiguous input",
    r"\bUnable to find a valid cuDNN algorithm to run convolution\b",
    # ONNX Runtime's arena and its providers
    r"\bFailed to allocate memory for requested buffer of size \d+",
    r"\bAvailable memory of \d+ is smaller than requested bytes of \d+",
    _HRESULT + r"8007000[Ee]\b",
    r"\b8007000[Ee] [A-Z][a-z]",
    r"\bE_OUTOFMEMORY\b",
    _START
    + r"Not enough (?:memory resources are|storage is) available to (?:complete|process) this",
    r"\bCould not allocate tensor with \d+ bytes\. There is not enough GPU video memory",
    r"\bDML allocator out of memory\b",
    r"\bMemory not available to allocate buffer: \d+",  # MIGraphX
    r"\b[Gg]pu allocation failed\b",
    r"\bRequested amount of (?:GPU )?memory \(\d+ bytes\) could not be allocated\b",  # TensorRT
    r"\bError [Cc]ode \d+: (?:OutOfMemory|[Oo]ut of [Mm]emory)\b",
    r"\bOutOfMemory Error in \w+",
    # OpenVINO, OpenCL, Level Zero, Vulkan, WebGPU
    r"\[GPU\] Exceeded max size of memory\b",
    r"\bExceeded max size of memory (?:object )?allocation: [Rr]e(?:quested|quired) \d+ bytes",
    r"\b(?:CL|PI_ERROR)_MEM_OBJECT_ALLOCATION_FAILURE\b",
    r"\bCL_INVALID_BUFFER_SIZE\b",  # larger than the device's largest buffer
    r"\b(?:CL|PI_ERROR|UR_RESULT_ERROR|ZE_RESULT_ERROR)_OUT_OF_HOST_MEMORY\b",
    # Intel's extension of torch: the second is a limit of the first Arc cards.
    r"\bAllocation is out of device memory on current platform\b",
    r"\bCurrent platform can NOT allocate memory block with size larger than 4GB\b",
    r"\b(?:cl|create_|enqueue_)\w+ failed: (?:MEM_OBJECT_ALLOCATION_FAILURE|OUT_OF_HOST_MEMORY)\b",
    r"\bdnnl(?:_|::status::)out_of_memory\b",
    r"\bVK_ERROR_OUT_OF_(?:DEVICE|HOST|POOL)_MEMORY\b",
    r"\bErrorOutOf(?:Device|Host)Memory\b",
    r"\bWebGPU device error ?\(\d\): Out of memory\b",
    r"\bBuffer size \(\d+\) exceeds the max buffer size limit \(\d+\)",
    _START + r"Not enough memory left\.?[ \t]{0,8}(?:$|\n)",  # wgpu
    # Metal and MLX
    r"\bInsufficient Memory \((?:0*8:|IOAF code 8)",
    r"\bCommandBufferCallbackErrorOutOfMemory\b|\bkIO\w+ErrorOutOfMemory\b",
    r"\bFailed to allocate \w+ MTLBuffer for size [1-9]",
    r"\[(?:metal::malloc|malloc(?:_or_wait)?)\] (?:Attempting|Unable) to allocate\b",
    # XLA, TensorFlow, Paddle, CuPy, ggml, faiss, XGBoost
    r"(?:RESOURCE_EXHAUSTED|[Rr]esource exhausted|ResourceExhaustedError)\b[^\n]{0,200}?"
    r"(?:[Oo]ut of memory|\bOOM\b|[Ff]ailed to allocate|Error allocating device buffer)",
    r"\bOOM when allocating (?:a )?(?:tensor|buffer)\b",
    r"\bfailed to allocate memory \[Op:\w+\]",
    r"\bstd::bad_alloc: (?:out_of_memory: )?(?:RMM failure|CUDA error) at\b",
    r"\bRan out of memory in memory space \w+",
    r"\bDst tensor is not initialized\b",
    r"\bOut of memory error on (?:GPU|CPU|XPU|\w+ device)\b",
    r"\b[Oo]ut of memory (?:while trying to allocate|when allocating|allocating|to allocate) "
    + _AMOUNT,
    r"\b(?:failed|unable) to allocate (?:CUDA|ROCm|Metal|Vulkan|SYCL|CANN|backend|compute)\w*"
    r" (?:pp |tg )?buffers?\b",
    r"\bfailed to allocate buffer for kv cache\b",
    r"\bggml_(?:backend_)?(?:metal|cuda|sycl|opencl)\w{0,40}: (?:error: )?"
    r"(?:failed to|can't) allocate\b",
    r"\bDevice memory allocation of size \d+ failed\b",
    r"\bMemory allocation error on worker \d+",
)

HOST = (
    # Python's error class by name, in text that came from another process.
    r"(?:^|\n)[ \t]{0,8}MemoryError(?=:|[ \t]{0,8}(?:$|\n))",
    r"\bDefaultCPUAllocator: (?:can't allocate memory|not enough memory)\b",
    r"\bnot enough memory: you tried to allocate\b",
    r"\bposix_memalign\([^\n]{0,200}\) == 0\. 12 vs 0\b",
    r"\bstd::bad_alloc\b",
    r"(?:^|[:\n][ \t]{0,8})bad allocation\.?[ \t]{0,8}(?:$|\n)",
    r"\[Errno 12\]",
    r"\b[Cc]annot allocate memory \((?:os error |errno[ =]?)?12\)",
    r"\[WinError (?:8|14|1455)\]",
    r"\(os error 1455\)",
    _START + r"The paging file is too small for this operation to complete\b",
    # Python's loader quotes Windows in the language of the user, without a number: German, French,
    # Spanish, Portuguese, Russian and Chinese; the last is "not enough memory resources".
    rf"^{DLL_FAILED}[^\n]{{0,200}}?(?:Auslagerungsdatei|fichier de pagination|archivo de paginación"
    r"|arquivo de paginação|ficheiro de paginação|Файл подкачки|页面文件|内存资源不足)",
    _HRESULT + r"(?:800705[Aa][Ff]|80070008)\b",  # the paging file, not enough memory
    r"\b(?:800705[Aa][Ff]|80070008) [A-Z][a-z]",
    # The kernel ended a process.
    r"\bDataLoader worker \(pid \d{1,10}\) is killed by signal: Killed\b",
    r"\b(?:Memory cgroup out|Out) of memory: Kill(?:ed)? process \d",
    r"\bDetected \d{1,9} oom[_-]kill event",  # Slurm
    r"\bUnable to allocate [\d.]+ ?(?:bytes|[KMGTPE]i?B) for an array with shape\b",
    r"\bmemory allocation of \d+ bytes failed\b",
    r"\bmalloc: (?:\*\*\* )?can't allocate region\b",  # macOS
    r"\(-4:?[^)\n]{0,24}\) Failed to allocate \d+ bytes\b",  # OpenCV
    r"\b[Mm]emory allocation error 12: \d+ bytes\b",  # Core ML's Espresso
    r"\b(?:could not|[Ff]ailed to|[Uu]nable to) allocate pinned (?:host )?memory\b",
    r"\bNVRTC_ERROR_OUT_OF_MEMORY\b",
    r"(?:^|\n)LLVM ERROR: out of memory\b",
    r"\bMemory allocation still failed after \d+ retries\b",  # OpenBLAS
)

# An allocation that failed, in any library's words.
_CANNOT = r"\b(?:[Ff]ail(?:ed)? to|[Cc]ould not|[Cc]annot|[Cc]an't|[Uu]nable to) alloc(?:ate)? "
ANY = (
    _CANNOT + r"(?:request for |a buffer of |memory of |memory for )?" + _AMOUNT,
    _CANNOT + r"(?:enough |more |any )?(?:GPU |CPU |device |host |video )?memory\b",
    _CANNOT + r"memory of \d+ size\b",
    _CANNOT + r"buffer(?: of size|, size =) {1,4}\d",
    r"\b[Mm]emory allocation (?:has )?fail(?:ed|ure)\b",
    r"\b[Nn]ot enough (?:GPU |CPU |device |host |video )?memory to allocate\b",
    r"\binsufficient memory \(attempted to allocate\b",
)
# But not disk space, nor the loader's block of thread-local data, nor a limit of the kernel on what
# may be locked or watched.
_NOT_MEMORY = (
    r"\b(?:disk|file|quota|shm|shared memory|TLS|thread-local|locked memory|RLIMIT_MEMLOCK|ulimit"
    r"|(?:ibv|fi_mr|io_uring|inotify)\w{0,40}|m?lock|bandwidth)\b"
)

# Shortages that break the context, so that only a new process helps. Intel drivers report shortages
# like this, even as a lost device (pytorch#177714, torch-xpu-ops#3155 and #1324); OpenVINO warns
# that any call after CL_OUT_OF_RESOURCES may hang (openvino#32649); HSA aborts its queue.
FATAL = (
    r"\b(?:UR_RESULT_ERROR|ZE_RESULT_ERROR)_OUT_OF_DEVICE_MEMORY\b",
    r"\b(?:UR_RESULT_ERROR|PI_ERROR|CL)_OUT_OF_RESOURCES\b",
    r"\b(?:cl|enqueue_)\w+ failed: OUT_OF_RESOURCES\b",
    r"\b(?:UR_RESULT_ERROR|ZE_RESULT_ERROR)_DEVICE_LOST\b",
    _ZE_CODE + r"(?:0x7000000[13]|187904819[35])\b",  # the same: lost, out of device memory
    r"\[GPU\] out of GPU resources\b",
    r"(?<!executable failed: )(?<!executable failed:\n)\bHSA_STATUS_ERROR_OUT_OF_RESOURCES\b",
)

# Faults after which the device's context is unusable, whatever caused them.
LOST = (
    r"\ban illegal memory access was encountered\b",
    r"\bdevice-side assert triggered\b",
    r"\bunspecified launch failure\b",
    r"\buncorrectable (?:ECC|NVLink) error\b",
    _GPU + r" error: Invalid access of peer GPU memory over nvlink or a hardware error\b",
    r"\b(?:HW Exception by GPU|Memory critical error by agent) node\b",  # ROCr
    r"\bthe launch timed out and was terminated\b",
    r"\ban illegal instruction was encountered\b",
    _GPU + _FAILED + r"(?:misaligned address|invalid program counter|hardware stack error"
    r"|operation not supported on global/shared address space|context is destroyed"
    r"|unknown error)\b",
    r"\bcudaError(?:IllegalAddress|Assert|Launch(?:Failure|Timeout)|ECCUncorrectable"
    r"|IllegalInstruction|MisalignedAddress|HardwareStackError|InvalidPc|NvlinkUncorrectable)\b",
    r"\bCUDA_ERROR_(?:ILLEGAL_(?:ADDRESS|INSTRUCTION)|ASSERT|LAUNCH_(?:FAILED|TIMEOUT)"
    r"|ECC_UNCORRECTABLE|MISALIGNED_ADDRESS|HARDWARE_STACK_ERROR|INVALID_PC)\b",
    r"\bhipError(?:LaunchFailure|LaunchTimeOut|IllegalAddress|Assert|ECCNotCorrectable)\b",
    r"\bHSA_STATUS_ERROR_(?:EXCEPTION|ILLEGAL_INSTRUCTION|MEMORY_FAULT|MEMORY_APERTURE_VIOLATION)\b",
    r"\bMemory access fault by GPU node\b",
    r"\b(?:UR_RESULT_ERROR|ZE_RESULT_ERROR)_DEVICE_(?:LOST|REQUIRES_RESET)\b",
    r"\bPI_ERROR_DEVICE_NOT_AVAILABLE\b",  # either of these, before Unified Runtime
    r"\b(?:VK_)?ERROR_DEVICE_LOST\b|\bErrorDeviceLost\b",
    r"\bMPS client has been terminated by the server\b",  # NVIDIA's MPS, not Apple's
    r"\bDXGI_ERROR_(?:DEVICE_(?:REMOVED|HUNG|RESET)|DRIVER_INTERNAL_ERROR)\b",
    _HRESULT + r"887[Aa]00(?:0[567]|20)\b",
    r"\b887[Aa]00(?:0[567]|20) [A-Z][a-z]",
    r"\bGPU device instance has been suspended\b",
    r"\bThe GPU will not respond to more commands\b",
    r"\bUnable to determine the device handle for GPU ?[\w:.]{7,20}: Unknown Error\b",
    r"\bGPU is lost\b|\bGPU_IS_LOST\b|\bGPU has fallen off the bus\b|\bfallen off the bus\b",
    _ZE_CODE + r"(?:0x70000001|1879048193)\b",
    r"\bCL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST\b",  # a kernel that hung and was ended
    r"\bkIO\w+CommandBufferCallbackError(?:PageFault|SubmissionsIgnored|Hang|Timeout"
    r"|ImpactingInteractivity|InnocentVictim)\b",
    r"\bIgnored \(for causing prior/excessive GPU errors\)",
    r"\bCaused GPU (?:Address Fault|Hang|Timeout) Error\b",
    r"\b(?:WebGPU|wgpu|Vulkan|GPU) [Dd]evice (?:was |is |has been )?lost\b",
    r"\b[Pp]arent device is lost\b",  # wgpu
    r"\[Device(?: \"[^\"\n]{0,80}\"| \(unlabeled\))?\] is lost\b",  # Dawn
    r"\bNPU crashed\. SSR detected\b",  # Qualcomm's: the subsystem was restarted
)  # fmt: skip

# An open quotation with the word before it: "unknown voice 'std::bad_alloc". Not where that word
# says that an error is quoted: "after throwing an instance of 'std::bad_alloc'".
_QUOTATION = re.compile(
    r"(?<!\w)(?!(?:code|failure|of|message|raised|reason|reported|result|returned|said|status|with)\b"
    r"|\w{0,40}(?:[Ee]rror|[Ee]xception)\b)\w{1,40} (['\"`])(?:(?!\1)[^\n]){0,200}$"
)
# Host memory, although a device's library reports it.
_HOST_HINT = (
    r"pinned (?:host )?memory|cudaHostAlloc|cudaMallocHost|cuMemHostAlloc|hipHostMalloc"
    r"|cudaHostRegister|bytes on host\b|device:CPU:|by allocator \w*cpu\b|OUT_OF_HOST_MEMORY"
    r"|OutOfHostMemory|HOST_ALLOC|memory error on CPU\b|\[WinError |CUDA host alloc\b"
)
_DEVICE_HINT = (
    r"\bGPU|\bCUDA|\bcuda|\bHIP\b|\bXPU|\bVRAM|\bMetal\b|\bVulkan|\b(?:from|on) device\b|\bdml"
)

# -- amounts ---------------------------------------------------------------------------------------

# Libraries that print GB mean GiB: XLA's "17.79G (19104890880 bytes)" shows it.
_POWERS = {"b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}
_NUMBER = (
    r"(?P<number>\d[\d,]{0,30}(?:\.\d{0,12})?)\s?"
    r"(?P<unit>[Bb]ytes?|[KMGTPE]i?B|[KMGTPE]\b|B\b)"
)
_COUNT = r"(?P<number>\d{1,40})"
# Some print an amount twice, rounded and then exact.
_EXACT = re.compile(r"\s?\(([\d,]{1,40}) ?(?:B|[Bb]ytes)\)")
# The first match wins. {n} is a number with its unit, {c} a plain count of bytes.
_REQUESTED = (
    r"(?:[Tt]ried|attempted) to allocate (?:more than )?{n}",
    r"[Tt]rying to allocate {n}",
    r"requested buffer of size {c}",
    r"requested bytes of {c}",
    r"Requested[ ]*: {n}",
    r"[Rr]equested amount of (?:GPU )?memory \({n}\)",
    r"Requested size was {n}",
    r"[Rr]equested {n}",
    r"[Rr]equired {n}",
    r"allocate buffer: {c}",
    r"MTLBuffer for size {c}",
    r"Allocation failed for size::{c}",
    r"alloc memory of {c}",
    r"allocate tensor with {n}",
    r"Buffer size \({c}\)",
    r"Invalid buffer size: {n}",
    r"[Aa]llocation (?:request )?(?:for|of) (?:size )?{n}",
    r"request for {n}",
    r"[Aa]llocation error \d+: {n}",
    r"pinned (?:host )?memory of size: {c}",
    r"[Bb]uffer of size {c}",
    r"[Bb]uffer, size = {1,4}{n}",
    r"error creating buffer {c}",
    r"NvMapMemAlloc\w{0,20}: {c}",
    r"(?:alloc|allocate|allocating|cudaMalloc|mmap) {n}",
    r"(?:allocation|malloc|space \w+ stream \S+) (?:of )?size {c}",
)
_FREE = (
    r"of which {n} is free",
    r"Free \(according to CUDA\)[ ]*: {n}",
    r"[Aa]vailable memory is only {n}",
    r"Available memory of {c}",
    r"There are {n} free",
    r"[Ff]ree memory: {n}",
    r"; {n} free\b",
    r"Driver report {n} free",
)
_TOTAL = (
    r"total capac(?:i?ty) of {n}",
    r"{n} total capacity",
    r"Device limit[ ]*: {n}",
    r"max allowed: {n}",
    r"free and {n} total",
)


def find_shortage(text: str) -> tuple[MemoryLocation, bool] | None:
    """Which memory a text says has run out, and whether that broke the device's context."""
    fatal, device, host = (_search(one, text) for one in (FATAL, DEVICE, HOST))
    if not (fatal or device or host or _is_generic_failure(text)):
        return None
    if re.search(_HOST_HINT, text):
        return "host", bool(fatal)
    if fatal or device:
        return "device", bool(fatal)
    return ("device" if not host and re.search(_DEVICE_HINT, text) else "host"), False


def _search(patterns: tuple[str, ...], text: str) -> re.Match[str] | None:
    """The first match that is not a file's name or a word that the text is about."""
    return next((one for one in _any(patterns).finditer(text) if not _is_name(text, one)), None)


def _is_name(text: str, match: re.Match[str]) -> bool:
    """Whether a match is in a file's name, or is what the text is about: voice 'std::bad_alloc'."""
    start, end = match.span()
    if re.compile(r"[\w-]{0,40}\.[a-z][a-z0-9]{0,4}\b").match(text, end):
        return True
    if text[start - 1 : start] in ("/", "\\") and not re.search(r"\s", match[0]):
        return True
    quoted = _QUOTATION.search(text[max(0, start - 240) : start])
    return bool(quoted and quoted[1] not in match[0] and quoted[1] in text[end:].partition("\n")[0])


def _is_generic_failure(text: str) -> bool:
    return any(
        _search(ANY, line) and not re.search(_NOT_MEMORY, line) for line in text.splitlines()
    )


def mentions_device_loss(text: str) -> bool:
    return _search(LOST, text) is not None


def parse_amounts(text: str) -> tuple[int | None, int | None, int | None]:
    """Bytes requested, free and in total; None where the text does not tell."""
    return _first(_REQUESTED, text), _first(_FREE, text), _first(_TOTAL, text)


def _first(patterns: tuple[str, ...], text: str) -> int | None:
    for pattern in patterns:
        found = _amount_pattern(pattern).search(text)
        if found:
            exact = _EXACT.match(text, found.end())
            if exact:
                return _parse_bytes(exact[1], "B")
            return _parse_bytes(found["number"], found.groupdict().get("unit") or "B")
    return None


def _parse_bytes(number: str, unit: str) -> int:
    plain = number.replace(",", "")
    factor: int = 1024 ** _POWERS[unit[0].lower()]
    return int(plain) * factor if plain.isdigit() else round(float(plain) * factor)


@functools.cache
def _amount_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("{n}", _NUMBER).replace("{c}", _COUNT))


@functools.cache
def _any(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
