"""Dashboard and alerts: every expression is read by a parser of Prometheus' language."""

from __future__ import annotations

import promql_parser  # type: ignore[import-not-found, unused-ignore]
import pytest

from tests.server.test_serve_metrics import expressions

ROWS = list(expressions())


@pytest.mark.parametrize(("title", "expression"), ROWS, ids=lambda one: one[:40])
def test_an_expression_is_one(title: str, expression: str) -> None:
    promql_parser.parse(expression)


def test_a_mistake_is_seen() -> None:
    with pytest.raises(ValueError):
        promql_parser.parse("sum by instance (anyrig_ready)")
