"""Web and mail addresses, paths and files, names in code, handles, hashtags.

A web address is read from its host on: nobody says the protocol, and the last slash is not said.
"""

from __future__ import annotations

import re
from itertools import pairwise

from anyrig.text import values as v
from anyrig.text.recognizers import RECOGNIZED_LANGUAGES, LazyPattern, Proposal, recognizer
from anyrig.text.recognizers.stops import STOP_TABLES

_TOP = (
    "com|org|net|edu|gov|io|ai|dev|app|info|biz|eu|co\\.uk|ac\\.uk|org\\.uk|gov\\.uk|de|"
    "fr|es|ca|mx|"
    "com\\.au|com\\.mx|com\\.ar|com\\.es|tv|cat|cl"
)
_FILES = (
    "pdf|docx?|xlsx?|pptx?|txt|csv|tsv|json|ya?ml|toml|xml|html?|css|jsx?|tsx?|py|ipynb|rb|rs|go|"
    "java|cpp|sh|bat|exe|dll|zip|tar|gz|rar|jpe?g|png|gif|svg|bmp|tiff?|mp3|mp4|m4a|m4b|wav|flac|"
    "ogg|avi|mov|mkv|epub|mobi|md|rtf|log|ini|cfg|conf|iso|dmg|apk|psd|sql|db|php|bin|dat|bak|tmp|c|h|out|o"
)
_BRANDS = (
    "iPhone", "iPad", "iPod", "iMac", "iTunes", "iCloud", "eBay", "iOS", "macOS", "iPlayer",
    "iBooks", "eBook", "eBooks", "iMovie", "mRNA", "tRNA", "eSIM", "iWatch", "iMessage",
)  # fmt: skip
_SURNAME = LazyPattern(r"(?i:mac|mc|de|la|le|van|von|du|di|da)[A-Z]")


def _address(match: re.Match[str], address: str, offset: int) -> Proposal | None:
    """An address without the marks that close the sentence or its brackets."""
    bare = address.rstrip(".,;:!?'\"")
    while bare.endswith((")", "]")) and bare.count(")") + bare.count("]") > (
        bare.count("(") + bare.count("[")
    ):
        bare = bare[:-1].rstrip(".,;:!?'\"")
    if not bare:
        return None
    return Proposal(v.Web(bare.rstrip("/")), end=match.start() + offset + len(bare))


@recognizer(
    "web",
    r"(?<![\w@])(?:(?:https?|ftp)://|www\.)[^\s<>\"{}|^`]{1,2000}|"
    r"\blocalhost:\d{2,5}\b(?:/[^\s<>\"]{0,200})?",
    languages=RECOGNIZED_LANGUAGES,
    needs="/wW:",
    flags=re.IGNORECASE,
    weight=3,
)
def propose_url(match: re.Match[str]) -> Proposal | None:
    address = re.sub(r"^(?i:https?|ftp)://", "", match[0])
    return _address(match, address, len(match[0]) - len(address))


@recognizer(
    "web",
    rf"(?<![\w@./-])(?:[A-Za-z0-9][A-Za-z0-9-]{{0,62}}\.){{1,5}}(?:{_TOP})(?![\w-]|\.\w)"
    r"(?::\d{2,5})?(?:/[^\s<>\"{}|^`]{0,500})?",
    languages=RECOGNIZED_LANGUAGES,
    needs=("innerDot",),
    weight=2.5,
)
def propose_domain(match: re.Match[str]) -> Proposal | None:
    return None if re.match(r"[\d.]+$", match[0]) else _address(match, match[0], 0)


@recognizer(
    "email",
    r"(?<![\w.+-])(?:mailto:)?([\w.+%-]{1,64}@"
    r"(?:[A-Za-z0-9-]{1,63}\.){1,5}[A-Za-z]{2,24})(?![\w-])",
    languages=RECOGNIZED_LANGUAGES,
    needs="@",
    weight=3,
)
def propose_email(match: re.Match[str]) -> v.Value:
    return v.Web(match[1])


@recognizer(
    "handle", r"(?<![\w@.])@([A-Za-z_]\w{1,40})|(?<![\w&])#([A-Za-z]\w*)", needs="@#", weight=1.5
)
def propose_handle(match: re.Match[str]) -> v.Value:
    return v.Phrase(("at" if match[1] else "hashtag", v.Identifier(match[1] or match[2])))


@recognizer(
    "path",
    r"(?<!\w)[A-Za-z]:\\[^\s<>\"|?*,;]{0,500}|(?<![\w.])(?:\.{1,2}|~)/[\w.~/-]{1,500}|"
    r"(?<![\w./<€$£])/(?:[\w.~-]{1,100}/)+[\w.~-]{0,100}|"
    r"(?<![\w./<:])/(?:usr|etc|var|home|tmp|bin|opt|dev|root|mnt|api)\b",
    languages=RECOGNIZED_LANGUAGES,
    needs="/\\",
    weight=2.5,
)
def propose_path(match: re.Match[str]) -> Proposal:
    bare = match[0].rstrip(".")
    return Proposal(v.Web(bare), end=match.start() + len(bare))


@recognizer(
    "file",
    rf"(?<![\w./])([A-Za-z0-9_][\w-]{{0,80}}(?:\.[\w-]{{1,20}}){{0,2}})\.({_FILES})(?![\w]|\.\w)",
    languages=RECOGNIZED_LANGUAGES,
    needs=("innerDot",),
    flags=re.IGNORECASE,
    weight=2,
)
def propose_file(match: re.Match[str]) -> v.Value | None:
    short = len(match[2]) < 2 or match[2] == "out"
    if match[0] != "a.out" and (
        match[1].isdecimal() or (short and not re.fullmatch(r"[a-z_]{2,}", match[1]))
    ):
        return None
    return v.Web(match[0])


@recognizer(
    "file",
    rf"(?<![\w.])\.({_FILES}|gitignore|env|bashrc)(?= (?:files?|format|extension|document))",
    needs=".",
    weight=2,
)
def propose_extension(match: re.Match[str]) -> v.Value:
    return v.Web(match[0])


@recognizer(
    "code",
    r"(?<![\w@#])[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+(?:\(\))?(?!\w)|"
    r"(?<![\w@#])[a-z]{2,}(?:[A-Z][a-z0-9]+)+(?:\(\))?(?!\w)",
    languages=RECOGNIZED_LANGUAGES,
    needs=("_", "innerCapital"),
    weight=1.2,
    at="word",
)
def propose_identifier(match: re.Match[str]) -> v.Value | None:
    name = match[0].removesuffix("()")
    if name.startswith(_BRANDS) or ("_" not in name and _SURNAME.match(name)):
        return None
    return v.Identifier(name)


@recognizer(
    "code",
    r"(?<![\w.@#/\\-])[A-Za-z_]\w+(?:\.[A-Za-z_]\w+)+(?:\(\))?(?![\w@]|[./-]\w)",
    needs=("innerDot",),
    weight=1.3,
    at="word",
)
def propose_dotted_name(match: re.Match[str]) -> v.Value | None:
    """A name in code with its module or object: `os.path.join()`.

    A capital behind a small letter begins a sentence whose space is missing: "left.She".
    """
    names = match[0].removesuffix("()").split(".")
    called = match[0].endswith(")") or match.string.startswith(("(", "["), match.end())
    if (
        not called
        and len(names) < 3
        and any(first[-1].islower() and second[0].isupper() for first, second in pairwise(names))
    ):
        return None
    if not called and (STOP_TABLES["en"].is_known(names[0].lower()) or len(names[0]) < 2):
        return None
    parts: list[v.Value | str] = []
    for name in names:
        plain = name.islower() and name.isalpha()
        parts += ["dot"] if parts else []
        parts.append(name if plain else v.Identifier(name))
    return v.Phrase(tuple(parts))


@recognizer(
    "code",
    r"(?<![\w.@#/\\-])([a-z][a-z_]{1,20}(?:\.[a-z_]{1,20})?)\(([1-9])\)(?!\w)",
    needs="(",
    digits=True,
    weight=1.3,
    at="word",
)
def propose_manual_page(match: re.Match[str]) -> v.Value:
    """A page of the Unix manual and its section: `mount(8)`."""
    return v.Phrase((match[1], v.Number(match[2])))
