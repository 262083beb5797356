"""Dashboard and alerts: every expression is read by a parser of Prometheus' language."""

from __future__ import annotations

import promql_parser  # type: ignore[import-not-found, unused-ignore]
import pytest

from tests.server.test_serve_metrics import expressions


def test_every_expression_is_valid(subtests: pytest.Subtests) -> None:
    for title, expression in expressions():
        with subtests.test(title=title):
            promql_parser.parse(expression)


def test_a_mistake_is_seen() -> None:
    with pytest.raises(ValueError):
        promql_parser.parse("sum by instance (anyrig_ready)")
