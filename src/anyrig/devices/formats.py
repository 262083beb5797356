"""Number formats under the names that people give them: torch's, Lightning's, our own."""

from __future__ import annotations

_NAMES = {
    "auto": ("auto",),
    "fp16": ("fp16", "float16", "half", "f16", "16", "16-mixed"),
    "bf16": ("bf16", "bfloat16", "bf16-mixed"),
    "fp32": ("fp32", "float32", "float", "single", "full", "f32", "32", "32-true"),
    "tf32": ("tf32", "tensorfloat32"),
    "fp8": ("fp8", "float8", "f8", "8", "float8_e4m3fn", "float8_e5m2"),
    "fp64": ("fp64", "float64", "double", "f64", "64", "64-true"),
}
_KNOWN = {name: known for known, names in _NAMES.items() for name in names}


def precision_named(value: object) -> str | None:
    """Our name of a number format: `fp16` for torch.float16, "float16" or "half"; None if unknown.

    fp64 has a name here and is no precision that can be asked for: it is the model's own.
    """
    if isinstance(value, bool):
        return None
    text = value.__name__ if isinstance(value, type) else str(value)
    return _KNOWN.get(text.strip().lower().removeprefix("torch."))
