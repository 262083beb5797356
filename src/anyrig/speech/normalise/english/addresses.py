"""Web and mail addresses, files and paths, names in code, telephone numbers, ISBNs.

A web address is read from its host on: nobody says the protocol, and the last slash is not said.
"""

from __future__ import annotations

import re

from anyrig.speech.normalise.english.acronym_words import SPELLED
from anyrig.speech.normalise.english.symbols import split_name
from anyrig.speech.normalise.english.words import DIGITS, cardinal, digits, label_number, letters
from anyrig.speech.normalise.rules import Rule, rule

_SIGNS = {
    ".": "dot", "/": "slash", "-": "dash", "_": "underscore", "?": "question mark", "=": "equals",
    "&": "and", "#": "hash", "%": "percent", "~": "tilde", "+": "plus", ":": "colon", "@": "at",
    ",": "comma", "\\": "backslash", "*": "star", "!": "exclamation mark", ";": "semicolon",
    "$": "dollar", "'": "", "(": "", ")": "", "|": "", "[": "", "]": "",
}  # fmt: skip
_BARE_TOP = (
    "com|org|net|edu|gov|io|ai|dev|app|info|biz|eu|co\\.uk|ac\\.uk|org\\.uk|de|fr|ca|com\\.au|tv"
)
_SPELLED = frozenset(
    "ai api au bbc br cdn cfg ch cn cnn cpp css csv de dll docx eu exe faq flac fm fr ftp gg "
    "gif hr htm html http https ibm id ini io ip iso jp jpg js md mit mp nhs nl npr nyt pbs pc "
    "pdf php png ppt pptx pr py rb rss rtf ru se sh sql ssh svg ts tsv tv txt ucla uk uri url "
    "us usa vpn wav www xls xlsx xml yml".split()
)
_FILES = (
    "pdf docx?|xlsx?|pptx?|txt|csv|tsv|json|ya?ml|toml|xml|html?|css|jsx?|tsx?|py|ipynb|"
        "rb|rs|go|java|cpp|sh|bat|exe|dll|zip|"
    "tar|gz|rar|jpe?g|png|gif|svg|bmp|tiff?|mp3|mp4|m4a|m4b|wav|flac|ogg|avi|mov|mkv|"
        "epub|mobi|md|rtf|log|ini|cfg|conf|iso|"
    "dmg|apk|psd|sql|db|php|bin|dat|bak|tmp"
).replace(" ", "|")  # fmt: skip
_SAID = {
    "jpeg": "jay peg",
    "jpg": "J P G",
    "gif": "gif",
    "mp": "M P",
    "md": "M D",
    "docx": "D O C X",
}


def spoken(address: str) -> str:
    """An address, sign by sign and word by word."""
    said: list[str] = []
    for part in re.findall(r"[^\W\d_]+|\d+|[\W_]", address):
        if part.isdecimal():
            said.append(_number(part))
        elif part.isalpha():
            said.append(_word(part, said[-1:] == ["dot"]))
        elif name := _SIGNS.get(part, ""):
            said.append(name)
    return " ".join(said)


def _number(text: str) -> str:
    return digits(text) if len(text) > 4 or text[0] == "0" else label_number(text)


def _word(text: str, host: bool) -> str:
    lower = text.lower()
    if lower in _SAID:
        return _SAID[lower]
    if lower in _SPELLED and (lower != "us" or host) or text in SPELLED:
        return letters(text)
    if len(text) > 1 and not re.search("[aeiouy]", lower) and len(text) < 6:
        return letters(text)
    return split_name(text)


@rule(
    "url",
    r"(?<![\w@])(?:(?:https?|ftp)://|www\.)[^\s<>\"{}|^`]{1,2000}",
    flags=re.IGNORECASE,
    needs="/wW",
)
def _url(match: re.Match[str]) -> str:
    return _trimmed(re.sub(r"^(?i:https?|ftp)://", "", match[0]))


@rule(
    "url",
    rf"(?<![\w@./-])(?:[A-Za-z0-9][A-Za-z0-9-]{{0,62}}\.){{1,5}}(?:{_BARE_TOP})(?![\w-]|"
    rf"\.\w)(?::\d{{2,5}})?"
    r"(?:/[^\s<>\"{}|^`]{0,500})?",
    needs=".",
)
def _domain(match: re.Match[str]) -> str | None:
    return None if re.match(r"^[\d.]+$", match[0]) else _trimmed(match[0])


def _trimmed(address: str) -> str:
    bare = address.rstrip(".,;:!?'\"")
    while bare.endswith(")") and bare.count(")") > bare.count("("):
        bare = bare[:-1].rstrip(".,;:!?'\"")
    tail = address[len(bare) :]
    return spoken(bare.rstrip("/")) + tail


@rule("url", r"\blocalhost:\d{2,5}\b(?:/[^\s<>\"]{0,200})?", needs=":")
def _local(match: re.Match[str]) -> str:
    return _trimmed(match[0])


@rule(
    "email",
    r"(?<![\w.+-])(?:mailto:)?([\w.+%-]{1,64})@((?:[A-Za-z0-9-]{1,63}\.)"
    r"{1,5}[A-Za-z]{2,24})(?![\w-])",
    needs="@",
)
def _email(match: re.Match[str]) -> str:
    return f"{spoken(match[1])} at {spoken(match[2])}"


@rule("symbol", r"(?<![\w@.])@([A-Za-z_]\w{1,40})", needs="@")
def _handle(match: re.Match[str]) -> str:
    return f"at {split_name(match[1])}"


@rule(
    "path",
    r"(?<!\w)[A-Za-z]:\\[^\s<>\"|?*,;]{0,500}|(?<![\w.])(?:\.{1,2}|~)/[\w.~/-]{1,500}|"
    r"(?<![\w./<])/(?:[\w.~-]{1,100}/)+[\w.~-]{0,100}|"
    r"(?<![\w./<:])/(?:usr|etc|var|home|tmp|bin|opt|dev|root|mnt|api)\b",
    needs="/\\",
)
def _path(match: re.Match[str]) -> str:
    bare = match[0].rstrip(".")
    return spoken(bare) + match[0][len(bare) :]


@rule(
    "file",
    rf"(?<![\w./])([A-Za-z0-9_][\w-]{{0,80}}(?:\.[\w-]{{1,20}}){{0,2}})\.({_FILES})(?![\w]|\.\w)",
    needs=".",
    flags=re.IGNORECASE,
)
def _file(match: re.Match[str]) -> str | None:
    if match[1].isdecimal():
        return None
    return f"{spoken(match[1])} dot {spoken(match[2])}"


@rule(
    "file",
    rf"(?<![\w.])\.({_FILES}|gitignore|env|bashrc)(?= (?:files?|format|extension|document))",
    needs=".",
)
def _extension(match: re.Match[str]) -> str:
    return f"dot {spoken(match[1])}"


@rule(
    "code",
    r"(?<![\w@#])[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+(?:\(\))?(?!\w)|(?<![\w@#])"
    r"[a-z]{2,}(?:[A-Z][a-z0-9]+)+(?:\(\))?(?!\w)",
    needs="_ABCDEFGHIJKLMNOPQRSTUVWXYZ",
)
def _identifier(match: re.Match[str]) -> str | None:
    if match[0].startswith(
        (
            "iPhone",
            "iPad",
            "iPod",
            "iMac",
            "iTunes",
            "iCloud",
            "eBay",
            "eBook",
            "iBook",
            "mRNA",
            "macOS",
        )
    ):
        return None
    if "_" not in match[0] and re.match(
        r"(?:mac|mc|de|la|le|van|von|du|di|da)[A-Z]", match[0], re.IGNORECASE
    ):
        return None
    return split_name(match[0].removesuffix("()"))


@rule("isbn", r"\b(ISBN(?:-1[03])?:? ?)((?:97[89][- ]?)?(?:\d[- ]?){9}[\dXx])(?!\w)", needs="I")
def _isbn(match: re.Match[str]) -> str:
    groups = [one for one in re.split(r"[- ]", match[2]) if one]
    return "I S B N " + ", ".join(_digits_and_letters(one) for one in groups)


def _digits_and_letters(text: str) -> str:
    return " ".join(digits(sign) if sign.isdecimal() else sign.upper() for sign in text)


def _groups(text: str) -> str:
    """Each group digit by digit, with a rest after it."""
    said: list[str] = []
    for group in re.findall(r"\d+|[A-Za-z]+", text):
        if group.isalpha():
            said.append(group)
        elif group in ("800", "900"):
            said.append(f"{cardinal(group[0])} hundred")
        else:
            said.append(digits(group))
    if text.startswith("1-8") and len(said) > 1:
        said[:2] = [f"{said[0]} {said[1]}"]
    return ", ".join(said)


_EXT = r"(?:,? ?(?:ext\.?|x|extension) ?(\d{1,6})(?!\w))?"


@rule("phone", r"(?<![\w.])(\+\d{1,3}(?:[ .-]?\(?\d{1,5}\)?){2,5})" + _EXT + r"(?![\w])", needs="+")
def _world_phone(match: re.Match[str]) -> str | None:
    if sum(sign.isdecimal() for sign in match[1]) < 8:
        return None
    return f"plus {_groups(match[1])}" + _extended(match[2])


@rule(
    "phone",
    r"(?<![\w.$£€-])((?:1[ .-])?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4})" + _EXT + r"(?![\w-])",
    needs=DIGITS,
)
def _american_phone(match: re.Match[str]) -> str:
    return _groups(match[1]) + _extended(match[2])


@rule(
    "phone",
    r"(?<![\w.$£€-])(1-8\d\d-[A-Z0-9]{3,4}(?:-?[A-Z0-9]{2,7})?|1-8\d\d-[A-Z]{4,10})(?![\w-])",
    needs="1",
)
def _toll_free(match: re.Match[str]) -> str:
    return _groups(match[1])


@rule("phone", r"(?<![\w.,$£€-])(\d{3}-\d{4})" + _EXT + r"(?![\w-]|\.\d)", needs="-")
def _local_phone(match: re.Match[str]) -> str:
    return _groups(match[1]) + _extended(match[2])


@rule(
    "phone",
    r"(?<![\w.,$£€-])(\(?0\d{2,4}\)?[ -]\d{3,4}[ -]?\d{3,4}|0\d{9,10}|0\d(?: \d\d){4})"
    + _EXT
    + r"(?![\w-]|\.\d)",
    needs="0",
)
def _british_phone(match: re.Match[str]) -> str:
    return _groups(match[1]) + _extended(match[2])


@rule(
    "phone",
    r"(?<![\w.,$£€-])(?<!Porsche )(911)(?![\w%,]\w|\w|\.\d)(?! [a-z]+s\b)|(?<=(?:[Dd]ial|"
    r"[Cc]all) )(\d{3})(?!\w|[.,]\d| [a-z]+s\b)",
    needs=DIGITS,
)
def _emergency(match: re.Match[str]) -> str:
    return digits(match[0])


@rule("phone", r"\b([Ee]xt|[Ee]xtension)\b\.? ?(\d{1,6})(?!\w)", needs="eE")
def _bare_extension(match: re.Match[str]) -> str:
    word = "Extension" if match[1][0] == "E" else "extension"
    return f"{word} {digits(match[2])}"


@rule(
    "phone",
    r"(?:(?<=[Tt]el: )|(?<=[Tt]el\. )|(?<=[Pp]hone: )|(?<=[Pp]hone )|(?<=[Ff]ax: )|"
    r"(?<=[Pp]in )|(?<=PIN )|(?<=PIN is )|"
    r"(?<=code )|(?<=code is ))(\d{3,15})(?![\w,]|\.\d)",
    needs=DIGITS,
)
def _given(match: re.Match[str]) -> str:
    return digits(match[1])


def _extended(text: str | None) -> str:
    return f", extension {digits(text)}" if text else ""


RULES: tuple[Rule, ...] = (
    _url, _local, _email, _domain, _path, _file, _extension, _handle, _isbn, _world_phone,
    _toll_free, _american_phone, _british_phone, _local_phone, _emergency, _bare_extension, _given,
    _identifier,
)  # fmt: skip
