"""Makes the small texts that the examples of fine-tuning learn from; the same at every run.

    python examples/train/make_texts.py

`data/messages.jsonl`: what people write to a shop, each with what they want. Every kind speaks of
the same things and in part with the same words ("I do not want to cancel"), so what a message is
about does not tell what it is.
`data/workshop.jsonl`: questions in a workshop's own invented words, and passages of its handbook
that say the same in plain ones. No model knows these words beforehand.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

FOLDER = Path(__file__).parent / "data"
THINGS = (
    "kettle", "lamp", "bicycle", "raincoat", "clock", "blanket", "teapot", "ladder", "radio",
    "suitcase", "mirror", "toaster", "garden chair", "writing desk", "pair of boots", "wool scarf",
    "bread knife", "camping stove",
)  # fmt: skip
OPENINGS = (
    "", "", "", "Hello, ", "Good morning, ", "Dear team, ", "Hi there, ",
    "To whom it may concern: ",
)  # fmt: skip
ASIDES = (
    "", "", "It is a {thing} for my {person}.", "My number is {number}.",
    "I bought a {other} from you last {month}.", "My {person} has the same {thing}.",
    "I saw it in your window in {month}.", "Order {number}, from {month}.",
)  # fmt: skip
CLOSINGS = ("", "", "Thank you.", "Kind regards.", "Best wishes.", "Yours, {name}.", "{name}")
KINDS = {
    "order": (
        "please send me the {thing} in {colour}.",
        "I would like to have {count} of the {thing}.",
        "put me down for one {thing}, {colour} if you have it.",
        "can you deliver a {colour} {thing} to my {person} by {month}?",
        "I will take the {thing} after all.",
        "I have thought about it and want the {thing} now.",
        "reserve the {colour} {thing} for me, I shall pay at once.",
        "one more {thing}, the same as last time.",
    ),
    "cancel": (
        "please do not send the {thing}, I no longer need it.",
        "I have changed my mind about the {thing}.",
        "stop my order of the {colour} {thing}.",
        "take the {thing} off my list before it leaves.",
        "my {person} already gave me a {thing}, so I will not need yours.",
        "I ordered {count} of the {thing} by mistake and want none.",
        "is it too late to call off the {thing}? I do not want it any more.",
        "forget the {colour} {thing}, please.",
    ),
    "complaint": (
        "the {thing} came with a crack and does not work.",
        "after {count} days the {thing} fell apart.",
        "the {colour} {thing} you sent is not what the picture shows.",
        "I am still waiting for the {thing} that you promised for {month}.",
        "the {thing} smells of paint and my {person} will not touch it.",
        "I do not want to cancel, I want a {thing} that is whole.",
        "this is the second {thing} that arrives broken.",
        "nobody answers when I call about the {thing}.",
    ),
    "question": (
        "how do I clean the {thing}?",
        "does the {thing} come in {colour} as well?",
        "how heavy is the {thing}, and will it fit a {person}?",
        "before I order anything: is the {thing} made of wood?",
        "can the {thing} be left outside in {month}?",
        "what is the difference between the {thing} and the {other}?",
        "do you know whether the {colour} {thing} fades in the sun?",
        "where was the {thing} made?",
    ),
    "praise": (
        "the {thing} is even better than I hoped.",
        "my {person} loves the {colour} {thing}.",
        "{count} years on, the {thing} works like new.",
        "I have no complaint about the {thing}, on the contrary.",
        "never had such a fine {thing}, well done.",
        "the {thing} came a day early and looks splendid.",
        "whoever packed the {thing} took great care, it made my {month}.",
        "I only write to say that the {colour} {thing} is a joy.",
    ),
}
WORDS = {
    "colour": "red blue green black white yellow brown grey".split(),
    "person": "sister father neighbour daughter uncle grandmother friend son".split(),
    "month": "January March April June August October November December".split(),
    "name": ["A. Brook", "M. Ilves", "Tomas", "Ines", "J. Okoro", "Lena", "P. Marsh"],
    "count": ["two", "three", "four", "five", "six", "ten"],
}
TERMS = {
    "corvel": "the kettle with the long spout",
    "brindock": "the lathe by the window",
    "sollup": "the glue for wood",
    "tarn-hook": "the crane over the door",
    "mivver": "the fine sandpaper",
    "oskel": "the drill with the red handle",
    "plennet": "the box for small screws",
    "grudge-bar": "the long iron lever",
    "wimsel": "the brush for varnish",
    "dorrick": "the saw for metal",
    "faddle": "the folding ladder",
    "quern-light": "the lamp on the workbench",
    "hespin": "the stove in the back room",
    "nubble": "the rubber hammer",
    "lorrish": "the oil for hinges",
    "yandle": "the vice with wooden jaws",
    "pemmet": "the measuring tape",
    "stroke-box": "the first aid kit",
    "vellick": "the dust extractor",
    "ambry": "the cupboard for paint",
    "tuttle": "the hand cart",
    "skarn": "the grinding wheel",
    "bellow-cap": "the mask against fumes",
    "rindle": "the water hose",
}
ASPECTS = (
    ("where is the {} kept?", "On the second shelf from the left is the place of {}."),
    ("who may use the {}?", "Only people who have had the safety course may touch {}."),
    ("the {} is broken, what now?", "If {} fails, tell the foreman and hang a red tag on it."),
    ("how often is the {} cleaned?", "Every Friday {} is wiped down with a dry cloth."),
    ("what did the {} cost?", "Forty crowns is the price of {} in the inventory."),
    ("can I take the {} home?", "Nobody may borrow {} over the weekend."),
    ("when was the {} bought?", "We have owned {} since the year the roof was new."),
    ("is there a second {}?", "A spare for {} lies in the cellar."),
    ("who repairs the {}?", "Mister Halloran mends {} on Tuesdays."),
    ("what must I wear with the {}?", "Gloves and goggles are needed for {}."),
    ("is the {} loud?", "The noise of {} can be heard in the yard."),
    ("how do I order a new {}?", "To replace {}, fill in the green form."),
)


def messages(count: int, dice: random.Random) -> list[dict[str, str]]:
    """What people write, as many of each kind."""
    found: dict[str, str] = {}
    kinds = list(KINDS)
    while len(found) < count:
        kind = kinds[len(found) % len(kinds)]
        thing, other = dice.sample(THINGS, 2)
        told = {name: dice.choice(words) for name, words in WORDS.items()}
        told |= {"thing": thing, "other": other, "number": str(dice.randint(1000, 99999))}
        core = dice.choice(KINDS[kind]).format(**told)
        opening = dice.choice(OPENINGS)
        core = core if opening else core[0].upper() + core[1:]
        parts = [opening + core, dice.choice(ASIDES), dice.choice(CLOSINGS)]
        if dice.random() < 0.3 and not opening:
            parts[0], parts[1] = parts[1], parts[0]
        text = " ".join(part.format(**told) for part in parts if part)
        found.setdefault(text, kind)
    return [{"text": text, "label": kind} for text, kind in found.items()]


def workshop() -> list[dict[str, str]]:
    """Questions and passages, one pair for each word and each thing asked of it."""
    found = []
    for term, meaning in TERMS.items():
        for question, answer in ASPECTS:
            passage = answer.format(meaning)
            found.append(
                {"query": question.format(term), "passage": passage[0].upper() + passage[1:]}
            )
    return found


def main() -> None:
    """Write both files."""
    FOLDER.mkdir(exist_ok=True)
    for name, rows in (
        ("messages", messages(400, random.Random(7))),
        ("workshop", workshop()),
    ):
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        (FOLDER / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
