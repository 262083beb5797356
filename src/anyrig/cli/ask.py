"""`anyrig ask`: what indexed folders answer to a question, with the passages cited."""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap

from anyrig.app.ask import AskRequest, AskResult, ask
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import EventPrinter, paint, print_json
from anyrig.cli.rig import open_rig
from anyrig.cli.search import format_place

HELP = """Answer a question from what `anyrig index` has read, and cite the passages. Without a
language model the answer quotes the sentences that say most of what was asked. With --llm a
language model writes it, on any server with OpenAI's interface, such as llama.cpp, Ollama, vLLM or
LM Studio on this machine: it is sent the question and the passages. The exit code is 1 if nothing
in the index answers the question."""

_CITATION = re.compile(r"\[(\d{1,3})\]")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="QUESTION", help="what to answer")
    add_flags(parser, AskRequest)


def run(arguments: argparse.Namespace) -> int:
    """Answer, and list the passages that are cited."""
    question = " ".join(arguments.words)
    with EventPrinter() as events:
        rig = open_rig(arguments, events)
        flags = read_flags(arguments, AskRequest)
        result = ask(rig, rig.request(AskRequest, question=question, **flags), events)
    if arguments.json:
        print_json(result.to_json())
    else:
        _print_result(result)
    return 0 if result.text else 1


def _print_result(result: AskResult) -> None:
    if not result.text:
        print("Nothing in the index answers this. `anyrig search --all` shows what is nearest.")
        return
    width = max(40, min(110, shutil.get_terminal_size().columns))
    numbers = {cited: number for number, cited in enumerate(result.cited, 1)}
    text = _CITATION.sub(lambda match: f"[{numbers.get(int(match[1]), match[1])}]", result.text)
    for paragraph in text.splitlines():
        print(textwrap.fill(paragraph, width))
    print()
    for cited, number in numbers.items():
        print(f"[{number}] {format_place(result.passages[cited - 1])}")
    if result.method == "extract":
        print(paint("Quoted from these files; with --llm URL a language model answers.", "dim"))
