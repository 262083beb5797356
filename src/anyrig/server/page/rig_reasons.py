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
    ("no_gpu", r"there is no GPU"),
    ("none_usable", r"no GPU can be used"),
    ("only", r"the only usable GPU"),
    ("best", r"the best of the usable GPUs by description"),
    ("flag", r"asked for on the command line(?:: (?P<word>.+))?"),
    ("environment", r"asked for by an environment variable(?:: (?P<word>.+))?"),
    ("settings", r"asked for by a settings file(?:: (?P<word>.+))?"),
    ("saved", r"saved by `anyrig use`"),
    ("measured_alone", r"measured: (?P<speed>\S+) (?P<unit>\S+)"),
    ("measured", r"(?P<cpu>the CPU is )?the fastest measured: (?P<speed>\S+) (?P<unit>\S+) against "
                 r"(?P<other>\S+) of (?P<name>.+)"),
    ("slower", r"measured slower than (?P<name>.+): (?P<speed>\S+) against (?P<other>\S+) "
               r"(?P<unit>\S+)"),
    ("a_gpu", r"a GPU is there"),
    ("smaller", r"described as slower or smaller"),
    ("not_asked", r"not asked for"),
    ("not_installed", r"(?:no )?(?P<what>\S+|onnxruntime package|ONNX Runtime for \S+) is"
                      r"(?: not)? installed"),
    ("no_wheel", r"(?P<what>\S+) has no wheel for (?P<where>.+)"),
    ("hidden", r"hidden by (?P<what>.+)"),
    ("may_not_open", r"this user may not open (?P<what>\S+)"),
    ("no_kfd", r"(?P<what>/dev/\S+) is not there: the amdgpu driver's compute part is off"),
    ("not_given", r"(?P<what>/dev/\S+) was not given to this container"),
    ("not_handed", r"the host's driver was not handed into this (?P<what>\S+) container"),
    ("no_driver", r"no driver holds it"),
    ("wrong_driver", r"the (?P<what>\S+) driver holds it, which runs no CUDA"),
    ("silent", r"NVIDIA's driver does not answer: (?P<what>.+)"),
    ("no_cuda", r"(?P<what>torch .+) has no CUDA"),
    ("no_kernels", r"(?P<what>torch .+) has no kernels for (?:compute capability )?(?P<name>\S+)"),
    ("old_driver", r"the driver runs CUDA (?P<name>\S+), (?P<what>.+) needs (?P<other>\S+)"),
    ("dropped", r"ROCm has dropped (?P<name>\S+)"),
    ("no_build", r"AMD publishes no torch for (?P<name>\S+) on Windows"),
    ("not_run", r"torch's XPU build does not run on (?P<name>\S+)"),
    ("prohibited", r"its compute mode is Prohibited"),
    ("mig_empty", r"MIG is on and has no instance"),
    ("mig_cut", r"it is cut into (?P<what>\d+) MIG instances: use those"),
    ("keeps_out", r"(?P<what>\S+) keeps libcuda out"),
    ("no_gpu_for", r"there is no GPU, which (?P<who>.+) asks for"),
    ("no_kind", r"there is no (?P<what>[^,]+) (?:device|GPU)"),
    ("no_kind_for", r"there is no (?P<what>[^,]+) (?:device|GPU), which (?P<who>.+) asks for"),
    ("no_match_for", r"no device matches '(?P<what>.+)', which (?P<who>.+) asks for"),
    ("not_there", r"(?P<who>[A-Z_]+) names (?P<what>\S+), which is not there: ignored"),
    ("until_there", r"until there is one the CPU is used"),
    ("gone", r"the saved device (?P<name>.+) is gone"),
    ("using_cpu", r"using the CPU"),
    ("anew", r"choosing anew"),
    ("mended", r"until that is mended the CPU is used"),
    ("librocdxg", r"ROCm in WSL2 needs librocdxg, which is not installed"),
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
