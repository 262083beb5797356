from __future__ import annotations

import copy
import inspect
import json
import pickle
import traceback
from collections.abc import Iterator

import pytest

from anyrig import errors
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    InvalidOptionError,
    LimitExceededError,
    Message,
    OptionRef,
    OutOfMemoryError,
    cut_long_values,
    dump_message,
    error_from_dict,
    error_to_dict,
    load_message,
    message_from_json,
    messages_to_json,
    render,
    render_json,
)


def _tree(kind: type[AnyrigError]) -> Iterator[type[AnyrigError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _tree(below)


KINDS = [kind for kind in _tree(AnyrigError) if not kind.__name__.startswith("_")]


def test_every_error_demands_a_hint(subtests: pytest.Subtests) -> None:
    for kind in [kind for kind in KINDS if not issubclass(kind, InvalidOptionError)]:
        with subtests.test(kind=kind):
            with pytest.raises(TypeError, match="hint"):
                kind("went wrong")  # type: ignore[call-arg]
            error = kind("went wrong", hint="do this")
            assert (str(error), error.hint) == ("went wrong", "do this")
            assert 1 <= error.exit_code <= 125


def test_the_drawn_tree_shows_every_error_with_its_exit_code(subtests: pytest.Subtests) -> None:
    for kind in KINDS:
        with subtests.test(kind=kind):
            drawing = inspect.getdoc(errors) or ""
            rows = [line for line in drawing.splitlines() if kind.__name__ in line.split()]
            rows += [line for line in drawing.splitlines() if f"─ {kind.__name__} " in line]
            assert rows, f"{kind.__name__} is not drawn"
            assert f" {kind.exit_code} " in rows[0]


def test_an_error_crosses_processes_with_its_class_hint_and_fields() -> None:
    class Own(LimitExceededError):
        pass

    memory = OutOfMemoryError("full", hint="b")
    memory.devices, memory.on_host = ("gpu-1",), True
    for error in (memory, Own("large", hint="b", limit="pages"), InvalidInputError("c", hint="")):
        row = error_to_dict(error)
        crossed = error_from_dict(json.loads(json.dumps(row)))
        assert type(crossed) is (LimitExceededError if type(error) is Own else type(error))
        assert vars(crossed) == vars(error)
    option = errors.InvalidOptionError("rate", "must be a number", value="x", hint="Give one.")
    crossed = error_from_dict(json.loads(json.dumps(error_to_dict(option))))
    assert type(crossed) is errors.InvalidOptionError
    assert vars(crossed) == vars(option)
    unknown = error_from_dict({"class": "Mapping", "message": "a", "hint": "b"})
    assert type(unknown) is errors.WorkError


PAGES = Message(
    "{name}: pass {pages}, or {all}",
    name="{0.__class__} }{ --pages.pdf",  # what a user wrote is only ever a value
    pages=OptionRef("max_pages", "1 {3}"),
    all=OptionRef("all"),
)


def test_a_message_is_rendered_for_its_reader() -> None:
    name = "{0.__class__} }{ --pages.pdf"
    assert render(PAGES, "command") == f"{name}: pass --max-pages '1 {{3}}', or --all"
    assert render(PAGES, "http") == f'{name}: pass "max_pages": "1 {{3}}", or `all`'
    assert str(PAGES) == render(PAGES, "python") == f'{name}: pass max_pages="1 {{3}}", or `all`'
    assert render("{plain} --x", "http") == "{plain} --x"


def test_a_message_within_another_keeps_its_options() -> None:
    outer = Message("line {row:>3}: {problem}. {hint}", row=7, problem=PAGES, hint="{x!r}")
    assert outer.options == PAGES.options
    assert render(outer, "command").startswith("line   7: {0.__class__} }{ --pages.pdf: pass --max")
    assert outer.endswith("`all`. {x!r}")
    renamed = outer.replace("}{ --pages", "{a}")
    assert "{a}.pdf: pass --max-pages '1 {3}', or --all" in render(renamed, "command")


def test_a_message_with_a_text_before_or_after_keeps_its_options() -> None:
    message = "{a}: " + Message("pass {pages}", pages=OptionRef("pages", "1-3")) + "; {b}"
    message += " or nothing"
    assert render(message, "command") == "{a}: pass --pages 1-3; {b} or nothing"
    assert str(message) == '{a}: pass pages="1-3"; {b} or nothing'


def test_what_has_no_such_option_is_named_by_what_it_has() -> None:
    message = Message("{list} shows them. {more}", list=OptionRef("list"), more=errors.MORE_DETAILS)
    assert render(message, "command") == "--list shows them. For details, run with -vv."
    assert render(message, "http").startswith("POST /books/plan shows them. For details, see the")


def test_messages_cross_processes_and_files() -> None:
    for crossed in (
        pickle.loads(pickle.dumps(PAGES)),
        copy.deepcopy(PAGES),
        message_from_json(json.loads(json.dumps(messages_to_json(PAGES)))),
        load_message(dump_message(PAGES)),
        error_from_dict(
            json.loads(json.dumps(error_to_dict(InvalidInputError("", hint=PAGES))))
        ).hint,
    ):
        assert render(crossed, "command") == render(PAGES, "command")
    for plain in ("plain", "{", '{"template": 1}', '{"template": "{}", "options": []}', '"quoted"'):
        assert load_message(dump_message(plain)) == plain
        assert type(load_message(plain)) is str
    rows = messages_to_json({"warnings": [PAGES, "plain"], "number": 1})
    assert render_json(rows, "command")["warnings"] == [render(PAGES, "command"), "plain"]
    own = {"template": "a", "options": ["of a user"]}
    assert render_json(own, "command") == own


@pytest.mark.parametrize(
    "template", ["{0:>99999999999}", "{:>99999999999}", "{0.__class__}", "{!r}", "{", "{}{}", ""]
)
def test_a_message_from_another_process_can_do_no_harm(template: str) -> None:
    with pytest.raises(ValueError, match="."):
        message_from_json({"template": template, "options": [{"option": "a", "value": "b"}]})


@pytest.mark.parametrize(
    "given", ["x" * 5000, "a word " * 900, "{brace}" * 500, "/home/" + "d/" * 900]
)
def test_a_long_argument_is_cut_in_the_message_and_in_the_hint(given: str) -> None:
    problem = Message("{option}: unknown voice {value!r}", option=OptionRef("voice"), value=given)
    for message in (f"unknown voice {given!r}", problem):
        error = InvalidInputError(message, hint=f"Did you mean {given!r}?")
        assert len(error.message) < 300
        assert len(error.hint) < 300
        assert "…" in error.message
        assert "unknown voice" in error.message
    assert render(error.message, "command").startswith("--voice: unknown voice")
    assert cut_long_values(error.message) == error.message


def test_python_shows_the_hint_below_a_traceback() -> None:
    error = InvalidInputError(
        "no run was given", hint=Message("Pass {resume}.", resume=OptionRef("resume"))
    )
    lines = traceback.format_exception_only(error)
    assert "".join(lines).splitlines()[1:] == ["Pass `resume`."]
