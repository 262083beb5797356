"""People found without a model in 300 sentences, beside spaCy's small English model.

Names are those of authors in the metadata of installed packages, half of them with a surname that
is not in the lists of the finder; they stand in thirty sentences written for this file, with tools,
bodies and places beside them, which are no people. A name counts when it is found exactly. The
sentences are few and their names many: the figures compare finders and versions, and are no
estimate for other texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from email.utils import getaddresses
from importlib.metadata import distributions
from itertools import chain

from anyrig.documents.entities.finder import EntityFinder, EntityText
from anyrig.documents.entities.people import fold, load_lists
from benchmarks.entities import Label, Passage, find_with_spacy, score
from benchmarks.harness import Row

COUNT = 300
SENTENCES = {
    "en": (
        "The parser was written by {} in the summer of 2019.",
        "{} maintains Git and the tests of Red Hat.",
        "Thanks to {} for the report on Windows.",
        "In New York, {} spoke about Python and the Apache License.",
        "The patch from {} was merged before Debian Bullseye.",
        "Yesterday {} joined the Free Software Foundation.",
        "Please ask {} before you change the Makefile.",
        "According to {}, the Linux Kernel was not the cause.",
        "The talk that {} gave in Berlin was about Unicode.",
        "Copyright 2015 {}, all rights reserved.",
        "It was {} who found the error in Visual Studio.",
        "Reviewed by {} and the Release Team.",
    ),
    "es": (
        "El programa fue escrito por {} en el verano de 2019.",
        "{} mantiene Git y las pruebas de Red Hat.",
        "Gracias a {} por el informe sobre Windows.",
        "En Nueva York, {} habló de Python y de Debian.",
        "Ayer {} se unió a la Universidad de Sevilla.",
        "Según {}, el núcleo de Linux no era la causa.",
        "La charla que dio {} en Berlín trataba de Unicode.",
        "Pregunte a {} antes de cambiar el archivo.",
        "Fue {} quien encontró el error en Madrid.",
    ),
    "fr": (
        "Le programme a été écrit par {} pendant l'été 2019.",
        "{} maintient Git et les essais de Red Hat.",
        "Merci à {} pour le rapport sur Windows.",
        "À New York, {} a parlé de Python et de Debian.",
        "Hier {} a rejoint l'Université de Lyon.",
        "Selon {}, le noyau Linux n'était pas la cause.",
        "L'exposé que {} a donné à Berlin portait sur Unicode.",
        "Demandez à {} avant de changer le fichier.",
        "C'est {} qui a trouvé l'erreur à Paris.",
    ),
}
_NAME = re.compile(
    r"[A-ZÀ-Ý][a-zà-ÿ]+(?: [A-Z]\.)?(?: (?:van|de|von|der))?(?: [A-ZÀ-Ý][\wà-ÿ'-]+){1,2}"
)
_NO_PERSON = re.compile(
    r"\b(?:AI|Agency|Authority|Authors|CERT|Community|Contributors|Corporation|Developers|Face"
    r"|Foundation|GmbH|Google|Group|Inc|Labs|Maintainers|Project|Research|Software|Systems|Team"
    r"|Technologies)\b"
)


def read_names() -> list[str]:
    """Of authors of installed packages: in turns one whose surname is in the lists, and one not."""
    found: set[str] = set()
    for package in distributions():
        fields = package.metadata.get_all
        plain = chain(fields("Author") or [], fields("Maintainer") or [])
        addresses = chain(fields("Author-email") or [], fields("Maintainer-email") or [])
        found |= {part.strip() for text in plain for part in re.split(r",| and |[;&\n]", text)}
        found |= {name for name, _ in getaddresses(list(addresses))}
    people = [one for one in sorted(found) if _NAME.fullmatch(one) and not _NO_PERSON.search(one)]
    lists = load_lists()
    known = lists.first | lists.last
    listed = [one for one in people if fold(one.split()[-1]) in known]
    others = [one for one in people if fold(one.split()[-1]) not in known]
    return list(chain.from_iterable(zip(listed, others, strict=False)))


def build_passages() -> list[Passage]:
    sentences = [(language, one) for language, some in SENTENCES.items() for one in some]
    names = read_names()
    found = []
    for number in range(COUNT):
        language, sentence = sentences[number % len(sentences)]
        name = names[(number + number // len(sentences)) % len(names)]  # not in step with them
        start = sentence.index("{}")
        label = Label("person", start, start + len(name))
        found.append(Passage(language, sentence.format(name), (label,)))
    return found


def find_without_model(texts: Sequence[Passage]) -> list[list[Label]]:
    with EntityFinder(None) as finder:
        found = list(finder.find(EntityText(one.text, language=one.language) for one in texts))
    return [[Label(one.kind, one.start, one.end) for one in each.entities] for each in found]


def run(hardware: str) -> list[Row]:
    texts = build_passages()
    ours, theirs = find_without_model(texts), find_with_spacy(texts)
    rows = []
    for language in SENTENCES:
        mine, other = (score(texts, one, ("person",), language) for one in (ours, theirs))
        count = sum(one.language == language for one in texts)
        has_peer = language == "en"  # the only one of spaCy's models that is installed
        for what in ("precision", "recall", "f1"):
            rows.append(Row(
                f"{what} of people, {language}, {count} sentences", getattr(mine, what), "",
                getattr(other, what) if has_peer else None, "spaCy small" if has_peer else "",
            ))  # fmt: skip
    return rows
