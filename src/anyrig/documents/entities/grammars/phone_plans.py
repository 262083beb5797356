"""How telephone numbers are built: calling codes, and how many digits follow each."""

from __future__ import annotations

import re

# Calling code -> (country, the numbers of digits that may follow).
PLANS: dict[str, tuple[str, tuple[int, ...]]] = {
    "1": ("US", (10,)), "7": ("RU", (10,)), "20": ("EG", (8, 9, 10)), "27": ("ZA", (9,)),
    "30": ("GR", (10,)), "31": ("NL", (9,)), "32": ("BE", (8, 9)), "33": ("FR", (9,)),
    "34": ("ES", (9,)), "36": ("HU", (8, 9)), "39": ("IT", (6, 7, 8, 9, 10, 11)),
    "40": ("RO", (9,)), "41": ("CH", (9,)), "43": ("AT", (7, 8, 9, 10, 11, 12)),
    "44": ("GB", (9, 10)), "45": ("DK", (8,)), "46": ("SE", (7, 8, 9, 10)), "47": ("NO", (8,)),
    "48": ("PL", (9,)), "49": ("DE", (6, 7, 8, 9, 10, 11)), "51": ("PE", (8, 9)),
    "52": ("MX", (10, 11)), "53": ("CU", (8,)), "54": ("AR", (10, 11)), "55": ("BR", (10, 11)),
    "56": ("CL", (9,)), "57": ("CO", (8, 10)), "58": ("VE", (10,)), "60": ("MY", (8, 9, 10)),
    "61": ("AU", (9,)), "62": ("ID", (8, 9, 10, 11)), "63": ("PH", (9, 10)),
    "64": ("NZ", (8, 9, 10)),
    "65": ("SG", (8,)), "66": ("TH", (8, 9)), "81": ("JP", (9, 10)), "82": ("KR", (8, 9, 10)),
    "84": ("VN", (9, 10)), "86": ("CN", (10, 11)), "90": ("TR", (10,)), "91": ("IN", (10,)),
    "92": ("PK", (9, 10)), "98": ("IR", (10,)), "212": ("MA", (9,)), "213": ("DZ", (8, 9)),
    "216": ("TN", (8,)), "221": ("SN", (9,)), "225": ("CI", (10,)), "234": ("NG", (8, 10)),
    "254": ("KE", (9,)), "262": ("RE", (9,)), "351": ("PT", (9,)), "352": ("LU", (5, 6, 7, 8, 9)),
    "353": ("IE", (8, 9)), "354": ("IS", (7,)), "356": ("MT", (8,)), "357": ("CY", (8,)),
    "358": ("FI", (6, 7, 8, 9, 10)), "359": ("BG", (8, 9)), "370": ("LT", (8,)),
    "371": ("LV", (8,)),
    "372": ("EE", (7, 8)), "376": ("AD", (6,)), "377": ("MC", (8, 9)), "380": ("UA", (9,)),
    "381": ("RS", (8, 9)), "385": ("HR", (8, 9)), "386": ("SI", (8,)), "420": ("CZ", (9,)),
    "421": ("SK", (9,)), "502": ("GT", (8,)), "503": ("SV", (8,)), "504": ("HN", (8,)),
    "505": ("NI", (8,)), "506": ("CR", (8,)), "507": ("PA", (7, 8)), "590": ("GP", (9,)),
    "591": ("BO", (8,)), "593": ("EC", (8, 9)), "595": ("PY", (9,)), "598": ("UY", (8,)),
    "852": ("HK", (8,)), "886": ("TW", (8, 9)), "961": ("LB", (7, 8)), "966": ("SA", (9,)),
    "971": ("AE", (8, 9)), "972": ("IL", (8, 9)),
}  # fmt: skip
# What the digits behind a code must look like, where that is simple to say.
_SHAPES = {
    "1": re.compile(r"[2-9][0-9]{2}[2-9][0-9]{6}"), "33": re.compile(r"[1-9][0-9]{8}"),
    "34": re.compile(r"[5-9][0-9]{8}"), "44": re.compile(r"[1-35789][0-9]{8,9}"),
}  # fmt: skip


def code_of(digits: str) -> str:
    """The calling code with which digits begin; empty for one that is not in the table."""
    return next((digits[:size] for size in (1, 2, 3) if digits[:size] in PLANS), "")


def fits(code: str, rest: str) -> bool:
    """Whether digits can follow a calling code."""
    if rest.startswith("0") and code != "39":  # only Italy dials its nought from abroad
        return False
    shape = _SHAPES.get(code)
    return len(rest) in PLANS[code][1] and (shape is None or shape.fullmatch(rest) is not None)
