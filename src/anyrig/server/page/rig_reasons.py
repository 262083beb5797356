"""Why a device is used or not, in the page's language.

The reasons are sentences of `devices`, which are English. The frequent ones are known here by their
form and said in the page's language; whatever is not known is shown as it is and marked as English.
A test holds the forms against every reason of the recorded machines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from anyrig.server.page.api import ENGLISH
from anyrig.server.page.pieces import tag
from anyrig.server.page.words import Words

_FORMS = tuple((key, re.compile(form)) for key, form in (
    ("no_gpu", r"no GPU found"),
    ("none_usable", r"no GPU can be used"),
    ("only", r"the only usable GPU"),
    ("best", r"best specifications of the usable GPUs"),
    ("flag", r"requested on the command line(?:: (?P<word>.+))?"),
    ("environment", r"requested by an environment variable(?:: (?P<word>.+))?"),
    ("settings", r"requested by a settings file(?:: (?P<word>.+))?"),
    ("saved", r"saved by `anyrig use`"),
    ("measured_alone", r"measured: (?P<speed>\S+) (?P<unit>\S+)"),
    ("measured", r"(?P<cpu>the CPU is )?the fastest measured: (?P<speed>\S+) (?P<unit>\S+), "
                 r"compared to (?P<other>\S+) on (?P<name>.+)"),
    ("slower", r"measured slower than (?P<name>.+): (?P<speed>\S+) compared to (?P<other>\S+) "
               r"(?P<unit>\S+)"),
    ("a_gpu", r"a GPU is available"),
    ("smaller", r"lower specifications"),
    ("not_asked", r"not requested"),
    ("not_installed", r"(?:no )?(?P<what>\S+|onnxruntime package|ONNX Runtime for \S+) is"
                      r"(?: not)? installed"),
    ("no_wheel", r"(?P<what>\S+) has no wheel for (?P<where>.+)"),
    ("hidden", r"hidden by (?P<what>.+)"),
    ("may_not_open", r"no permission to open (?P<what>\S+)"),
    ("no_kfd", r"(?P<what>/dev/\S+) does not exist: the amdgpu driver offers no compute"),
    ("not_given", r"(?P<what>/dev/\S+) is not mapped into this container"),
    ("not_handed", r"the NVIDIA driver is not available in this (?P<what>\S+) container"),
    ("no_driver", r"no driver is loaded for it"),
    ("wrong_driver", r"it uses the (?P<what>\S+) driver, which does not support CUDA"),
    ("silent", r"the NVIDIA driver is not responding: (?P<what>.+)"),
    ("no_cuda", r"(?P<what>torch .+) was built without CUDA"),
    ("no_kernels", r"(?P<what>torch .+) has no kernels for (?:compute capability )?(?P<name>\S+)"),
    ("old_driver", r"the driver supports CUDA (?P<name>\S+), (?P<what>.+) requires (?P<other>\S+)"),
    ("dropped", r"ROCm no longer supports (?P<name>\S+)"),
    ("no_build", r"AMD provides no torch for (?P<name>\S+) on Windows"),
    ("not_run", r"torch's XPU build does not support (?P<name>\S+)"),
    ("prohibited", r"compute mode is Prohibited"),
    ("mig_empty", r"MIG mode is enabled but has no instance"),
    ("mig_cut", r"partitioned into (?P<what>\d+) MIG instances?: use those instead"),
    ("keeps_out", r"(?P<what>\S+) excludes compute"),
    ("no_gpu_for", r"no GPU found \(requested by (?P<who>.+)\)"),
    ("no_kind", r"no (?P<what>[^,]+) (?:device|GPU) found"),
    ("no_kind_for", r"no (?P<what>[^,]+) (?:device|GPU) found \(requested by (?P<who>.+)\)"),
    ("no_match_for", r"no device matches '(?P<what>.+)' \(requested by (?P<who>.+)\)"),
    ("not_there", r"(?P<who>[A-Z_]+) lists (?P<what>\S+), which does not exist: ignored"),
    ("until_there", r"until there is one the CPU is used"),
    ("gone", r"the saved device (?P<name>.+) no longer exists"),
    ("using_cpu", r"using the CPU"),
    ("anew", r"choosing another"),
    ("mended", r"until that is mended the CPU is used"),
    ("librocdxg", r"ROCm in WSL2 requires librocdxg, which is not installed"),
))  # fmt: skip
_CANNOT = re.compile(r"(?P<name>.+?) cannot be used(?:: (?P<why>.+))?")


class Said(NamedTuple):
    """A piece of a reason, and its language where it is not the page's."""

    text: str
    lang: str = ""


def reason(t: Words, text: str) -> list[Said]:
    """A reason, piece by piece."""
    cannot = _CANNOT.fullmatch(text) if t.language != "en" else None
    if cannot:
        start = Said(t("rig.because.cannot", name=cannot["name"]))
        return [start, *reason(t, cannot["why"] or "")]
    return [_piece(t, part) for part in text.split("; ") if part]


def choice(t: Words, told: Mapping[str, Any]) -> tuple[str, list[Said]]:
    """The devices that are used, and why: of what `/devices` tells."""
    if not told["choice"]:
        return "", [Said(str(told["reason"]), ENGLISH)]
    names = {row["id"]: _name(t, "the CPU" if row["kind"] == "cpu" else row["name"])
             for row in told["devices"]}  # fmt: skip
    used = ", ".join(names.get(one, str(one)) for one in told["choice"]["devices"])
    return used, reason(t, str(told["choice"]["reason"]))


def _piece(t: Words, text: str) -> Said:
    if t.language == "en":
        return Said(text)
    for key, form in _FORMS:
        match = form.fullmatch(text)
        if match:
            given = {name: _name(t, value or "") for name, value in match.groupdict().items()}
            return Said(_tidy(t(f"rig.because.{key}", **given)))
    return Said(text, ENGLISH)


def _tidy(text: str) -> str:
    """Without the colon before a word that nobody said."""
    return text.strip().removesuffix(":").rstrip()


def _name(t: Words, name: str) -> str:
    return t("rig.the_cpu") if name == "the CPU" else name


def write(said: Sequence[Said]) -> None:
    """Into the element at hand: what is English in another language is marked for readers."""
    for number, one in enumerate(said):
        ending = "" if number == len(said) - 1 else "; "
        tag("span", f"{one.text}{ending}", lang=one.lang or None)
