"""The log, and the warnings of libraries that mean nothing to a user.

Configured by the doors alone. Silence is the default; -v tells what is done, -vv everything.
"""

from __future__ import annotations

import logging
import sys
import warnings

from anyrig.errors import InvalidSettingError

# Said by libraries on perfectly good machines. (Beginning of the message, why it is harmless.)
HARMLESS: tuple[tuple[str, str], ...] = (
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


class HarmlessFilter(logging.Filter):
    """Drops log records that say one of the harmless things."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is worth showing."""
        import re

        text = record.getMessage()
        return not any(re.match(pattern, text) for pattern, _ in HARMLESS)


def configure(verbose: int, log_file: str = "") -> None:
    """Set the log up for one command."""
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
        screen.addFilter(HarmlessFilter())
        for pattern, _ in HARMLESS:
            warnings.filterwarnings("ignore", message=pattern)


def _file_handler(path: str) -> logging.Handler:
    try:
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise InvalidSettingError(
            f"cannot write the log to {path}: {error.strerror}", hint="Name another --log-file."
        ) from error
    handler.setLevel(logging.DEBUG)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    return handler


def _add(root: logging.Logger, handler: logging.Handler) -> None:
    handler.anyrig = True  # type: ignore[attr-defined]  # ours, to be replaced at the next command
    root.addHandler(handler)
