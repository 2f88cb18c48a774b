from __future__ import annotations

import contextlib
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor
from torch._inductor.utils import fresh_inductor_cache

from tcexplore.events import GraphSymbols, Symbol
from tests.capture.dynamo_capture import capture_events, hook_failures, location_of, select

pytestmark = pytest.mark.torch


def shapes(x: Tensor, y: Tensor, lr: Any):
    z = x + y
    if x.shape[0] == 6:
        z = z + 1
    return z * lr if y.shape[1] > 3 else z


def doubled_rows(x: Tensor):
    return x.nonzero() * 2


def few(x: Tensor, y: Tensor):
    z = x - y
    return z * 2 if y.shape[0] < 100 else z


def adds_six(x: Tensor):
    return x + torch.ones(6, 5)


def captured_symbols(
    *calls: tuple[Any, ...], program: Any = shapes, backend: str = "eager", **options: Any
) -> GraphSymbols:
    """Return the symbols of the last graph with symbols."""
    with capture_events(__file__) as events:
        compiled = torch.compile(program, backend=backend, **options)
        for call in calls:
            with contextlib.suppress(Exception):
                compiled(*call)
    assert hook_failures(events) == []
    return select(GraphSymbols, events)[-1]


def symbol_of(symbols: GraphSymbols, name: str, dim: int | None = None) -> Symbol:
    return next(s for s in symbols.symbols if any((source.name, source.dim) == (name, dim) for source in s.sources))


def ones(*shape: int) -> Tensor:
    return torch.ones(*shape)


def test_symbols_have_ranges_sources_and_the_specializing_line():
    symbols = captured_symbols((ones(6, 9), ones(6, 9), 3), dynamic=True)
    rows = symbol_of(symbols, "x", 0)
    assert rows is symbol_of(symbols, "y", 0), "equal sizes share a symbol"
    (special,) = rows.specialized
    assert (special.value, special.location) == ("6", location_of(shapes, "if x.shape[0]"))
    assert special.reason.endswith("== 6")
    columns = symbol_of(symbols, "x", 1)
    assert (columns.lower, columns.upper, columns.hint, columns.unbacked) == ("4", "int_oo", "9", False)
    assert location_of(shapes, "y.shape[1] > 3") in [condition.location for condition in columns.conditions]
    assert symbol_of(symbols, "lr").lower == "-int_oo"


def total(x: Tensor):
    return (x * 2).sum()


def test_a_condition_of_inductor_names_its_place_in_torch():
    """Inductor writes sums of more than 4,096 numbers in another way."""
    places = []
    with fresh_inductor_cache():
        for _ in range(2):
            torch._dynamo.reset()
            symbols = captured_symbols((ones(4, 128),), (ones(8, 128),), program=total, backend="inductor")
            rows = symbol_of(symbols, "x", 0)
            (condition,) = rows.conditions
            assert (rows.lower, rows.upper, condition.location) == ("2", "32", None)
            places.append(condition.library_place)
    assert "_inductor/codegen/cpp.py:" in places[0]
    assert places[1] == "a graph from torch's cache"


def test_equal_sizes_have_one_range():
    symbols = captured_symbols((ones(4), ones(4)), (ones(8), ones(8)), program=few)
    assert [(one.lower, one.upper) for one in (symbol_of(symbols, "x", 0), symbol_of(symbols, "y", 0))] == [
        ("2", "99")
    ] * 2


def test_a_size_of_one_gets_no_symbol_and_is_reported():
    symbols = captured_symbols(
        (ones(6, 9), ones(6, 9), 0.5), (ones(7, 9), ones(7, 9), 0.5), (ones(1, 9), ones(1, 9), 0.25)
    )
    assert [(z.source.name, z.source.dim, z.value) for z in symbols.zero_one] == [("x", 0, "1"), ("y", 0, "1")]
    assert symbol_of(symbols, "lr").name.startswith("z")


def test_unbacked_symbols_have_a_location():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        (symbol,) = captured_symbols((ones(5),), program=doubled_rows).symbols
    assert (symbol.unbacked, symbol.hint, symbol.upper) == (True, "", "5")
    assert symbol.location == location_of(doubled_rows, "nonzero")


def test_a_violated_dynamic_mark_is_reported_even_if_nothing_is_compiled():
    x = ones(6, 5)
    torch._dynamo.mark_dynamic(x, 0)
    (symbol,) = captured_symbols((x,), program=adds_six).symbols
    assert symbol.specialized[0].location == location_of(adds_six, "torch.ones(6, 5)")
