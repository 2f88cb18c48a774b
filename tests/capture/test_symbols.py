from __future__ import annotations

import contextlib
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor

from tcexplore.events import GraphSymbols, Symbol
from tests.capture.dynamo import at, broken, of, watching

pytestmark = pytest.mark.torch


def shapes(x: Tensor, y: Tensor, lr: Any):
    z = x + y
    if x.shape[0] == 6:
        z = z + 1
    return z * lr if y.shape[1] > 3 else z


def rows_that_are_not_zero(x: Tensor):
    return x.nonzero() * 2


def few(x: Tensor, y: Tensor):
    z = x - y
    return z * 2 if y.shape[0] < 100 else z


def adds_six(x: Tensor):
    return x + torch.ones(6, 5)


def found(*calls: tuple[Any, ...], program: Any = shapes, **options: Any) -> GraphSymbols:
    """The symbols of the last graph that has any."""
    with watching(__file__) as events:
        compiled = torch.compile(program, backend="eager", **options)
        for call in calls:
            with contextlib.suppress(Exception):
                compiled(*call)
    assert broken(events) == []
    return of(GraphSymbols, events)[-1]


def of_source(made: GraphSymbols, name: str, dim: int | None = None) -> Symbol:
    return next(s for s in made.symbols if any((source.name, source.dim) == (name, dim) for source in s.sources))


def ones(*shape: int) -> Tensor:
    return torch.ones(*shape)


def test_ranges_sources_and_the_line_that_specialized():
    made = found((ones(6, 9), ones(6, 9), 3), dynamic=True)
    rows = of_source(made, "x", 0)
    assert rows is of_source(made, "y", 0), "equal sizes share a symbol"
    (special,) = rows.specialized
    assert (special.value, special.location) == ("6", at(shapes, "if x.shape[0]"))
    assert special.reason.endswith("== 6")
    columns = of_source(made, "x", 1)
    assert (columns.lower, columns.upper, columns.hint, columns.unbacked) == ("4", "int_oo", "9", False)
    assert at(shapes, "y.shape[1] > 3") in [condition.location for condition in columns.conditions]
    assert of_source(made, "lr").lower == "-int_oo"


def test_sizes_that_have_to_be_equal_have_one_range():
    made = found((ones(4), ones(4)), (ones(8), ones(8)), program=few)
    assert [(one.lower, one.upper) for one in (of_source(made, "x", 0), of_source(made, "y", 0))] == [("2", "99")] * 2


def test_a_size_of_one_gets_no_symbol_and_is_named():
    made = found((ones(6, 9), ones(6, 9), 0.5), (ones(7, 9), ones(7, 9), 0.5), (ones(1, 9), ones(1, 9), 0.25))
    assert [(z.source.name, z.source.dim, z.value) for z in made.zero_one] == [("x", 0, "1"), ("y", 0, "1")]
    assert of_source(made, "lr").name.startswith("z")


def test_data_that_is_not_known_while_compiling():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        (symbol,) = found((ones(5),), program=rows_that_are_not_zero).symbols
    assert (symbol.unbacked, symbol.hint, symbol.upper) == (True, "", "5")
    assert symbol.location == at(rows_that_are_not_zero, "nonzero")


def test_a_mark_that_the_code_breaks_is_told_although_nothing_is_compiled():
    x = ones(6, 5)
    torch._dynamo.mark_dynamic(x, 0)
    (symbol,) = found((x,), program=adds_six).symbols
    assert symbol.specialized[0].location == at(adds_six, "torch.ones(6, 5)")
