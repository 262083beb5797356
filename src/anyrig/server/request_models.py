"""Pydantic models of requests, made from their options: an option is defined once, in `app`.

    OcrBody = build_model("OcrBody", OcrRequest, "format language engine pages", example={...})
    given = body.read_given()     # what the client gave, by the names of the options

A name may differ over HTTP: `templates=template` is the option `template`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from anyrig.options import Option, list_options

MAX_FILES = 200
EXAMPLE_UPLOAD = "upload:9f0c1e2d3b4a59687786950413223140"
Upload = Annotated[str, Field(pattern=r"^upload:[0-9a-f]{32}$", examples=[EXAMPLE_UPLOAD])]
Texts = Annotated[list[str], Field(fail_fast=True)]
"""One invalid text is enough for an error: there may be a million of them."""
_LIMITS: Mapping[str, Mapping[str, Any]] = {
    "language": {
        "pattern": r"^([A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})?)?$", "examples": ["en", "es", "fr"],
    },
    "pages": {"max_length": 200, "pattern": r"^[0-9,\- ]*$", "examples": ["1-3,7"]},
    "index": {"min_length": 1, "max_length": 64, "examples": ["letters"]},
    "question": {"min_length": 1, "max_length": 10_000},
    "title": {"max_length": 200},
    "model": {"max_length": 300},
    "classifier": {"max_length": 80},
    "after": {"max_length": 20, "examples": ["2026-03-01", "2026-03", "30d"]},
    "before": {"max_length": 20},
    "to_text": {},
}  # fmt: skip
"""What is checked of single texts before a worker sees them; others have `_MAX_CHARACTERS`."""
_MAX_CHARACTERS = 1000
_MAX_ITEMS = 200


class RequestModel(BaseModel):
    """Base of the models: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")
    option_names: ClassVar[Mapping[str, Option]] = {}
    """The option of each field that is one."""
    one_of: ClassVar[Sequence[str]] = ()
    """Fields of which exactly one must be given."""

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        given = {name for name in self.model_fields_set if getattr(self, name)}
        if self.one_of and len(given & set(self.one_of)) != 1:
            raise ValueError(f"give either {' or '.join(self.one_of)}")
        fields = {option.name: field for field, option in self.option_names.items()}
        for field, option in self.option_names.items():
            other = fields.get(option.excludes, "")
            if field in given and other in given:
                raise ValueError(f"give one of {field} and {other}")
        return self

    def read_given(self) -> dict[str, Any]:
        """The options that were given, by their own names; "" and null give nothing."""
        given = {}
        for field, option in self.option_names.items():
            value = getattr(self, field)
            is_given = field in self.model_fields_set and value not in (None, "", [])
            if is_given and not (value == 0 and _refuses_zero(option)):
                given[option.name] = value
        return given


def build_model(
    name: str,
    request: type,
    fields: str,
    *,
    choices: Mapping[str, tuple[str, ...]] = {},
    help: Mapping[str, str] = {},
    one_of: Sequence[str] = (),
    example: Mapping[str, Any] | None = None,
    **more: tuple[Any, Any],
) -> type[RequestModel]:
    """A model with some options of a request.

    Args:
        name: of the model, in `/openapi.json`.
        request: defines the options.
        fields: their names, with spaces; `http_name=option` for those with another name over HTTP.
        choices: of an option, if a client may not use all.
        help: of an option, if a client may use it in another way.
        one_of: fields of which exactly one must be given.
        example: a body.
        more: fields that are no options, as type and default.
    """
    options = list_options(request)
    names = {
        field: option or field for field, _, option in (f.partition("=") for f in fields.split())
    }
    types: dict[str, Any] = dict(more)
    for field, option in names.items():
        found = options[option]
        types[field] = _build_field(
            replace(
                found, choices=choices.get(option, found.choices), help=help.get(option, found.help)
            )
        )
    extra: dict[str, Any] = {"examples": [dict(example)]} if example else {}
    doc = (request.__doc__ or "").partition("\n")[0]
    model = create_model(
        name,
        __base__=RequestModel,
        __doc__=doc,
        __cls_kwargs__={"json_schema_extra": extra},
        **types,
    )
    model.option_names = {field: options[option] for field, option in names.items()}
    model.one_of = tuple(one_of)
    return model


def _build_field(option: Option) -> tuple[Any, Any]:
    """Type and default of a field."""
    limits = {name: getattr(option, name) for name in ("ge", "gt", "le", "lt")}
    if _refuses_zero(option):
        limits |= {"ge": 0, "gt": None}
    kind: Any = str if option.kind is Path else option.kind
    if option.choices:
        kind = Literal[tuple(option.choices)]
    elif option.shape == "list":
        kind = list[Annotated[str, Field(min_length=1, max_length=_MAX_CHARACTERS)]]
        limits["max_length"] = _MAX_ITEMS
    elif option.upload:
        kind = Upload
    elif kind is str:
        limits |= _LIMITS.get(option.name, {"max_length": _MAX_CHARACTERS})
    default = [] if option.shape == "list" else option.default
    if option.setting:
        default = None  # the settings of the server have one
    rules = {name: value for name, value in limits.items() if value is not None}
    if option.required:
        return kind, Field(description=option.help, **rules)
    kind = Annotated[kind, Field(**rules)] if rules else kind
    return (kind if default is not None else kind | None), Field(default, description=option.help)


def _refuses_zero(option: Option) -> bool:
    """Whether 0 is not in the range of an option that may be unset: it means "not given"."""
    bounds = option.ge is not None and option.ge > 0, option.gt is not None and option.gt >= 0
    return option.default is None and option.kind in (int, float) and any(bounds)
