"""Spans, which arrive after their children, are built into a tree."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore.documents.timing.timing_view import (
    critical_path_rows,
    other_time_lines,
    span_lines,
    summarize_compile_time,
)
from tcexplore.events import CallMade, KernelCompiled, PhaseTimed, RegionCompiled
from tcexplore.session.compile_time import CompileSpan, compile_time, compiler_runs, critical_path, shorten, tree
from tests import fakes


def spans(*facts: tuple[str, float, int]) -> list[PhaseTimed]:
    return [PhaseTimed(name=name, seconds=seconds, graph="0/0", depth=depth) for name, seconds, depth in facts]


PHASES = spans(
    ("trace", 0.1, 2), ("compile_file", 0.4, 3), ("compile_file", 0.2, 3), ("inductor", 0.75, 2), ("backend", 0.9, 1),
    ("guards", 0.02, 1), ("gc", 0.001, 1), ("guards", 0.03, 1), ("dynamo", 1.0, 0), ("gc", 0.2, 1),
    ("backward", 0.5, 0),
)  # fmt: skip


def test_each_span_is_a_child_of_the_one_that_ends_after_it():
    dynamo, backward = tree(PHASES)
    assert [(span.name, span.count) for span in dynamo.children] == [("backend", 1), ("guards", 2), ("gc", 1)]
    assert [span.name for span in dynamo.children[0].children] == ["inductor", "trace"]
    assert dynamo.self_seconds == pytest.approx(1.0 - 0.9 - 0.05 - 0.001)
    assert [span.name for span in backward.children] == ["gc"]


def test_spans_of_files_are_not_joined():
    assert compiler_runs(tree(PHASES)) == (0.4, 0.2)


def test_short_spans_are_dropped_and_chains_are_joined():
    whole = CompileSpan(
        "a",
        1.0,
        children=(
            CompileSpan("b", 0.99, children=(CompileSpan("c", 0.5), CompileSpan("d", 0.4))),
            CompileSpan("e", 0.001),
        ),
    )
    short = shorten(whole, 1.0)
    assert (short.name, [span.name for span in short.children]) == ("a › b", ["c", "d"])
    chain = CompileSpan(
        "a",
        1.0,
        children=(CompileSpan("b", 1.0, children=(CompileSpan("c", 1.0, children=(CompileSpan("d", 1.0),)),)),),
    )
    assert shorten(chain, 1.0).name == "a › … › d"


def timed(name: str, at: float, seconds: float, depth: int, graph: str | None = "0/0") -> PhaseTimed:
    return PhaseTimed(name=name, seconds=seconds, graph=graph, depth=depth, at=at)


def test_the_critical_path_has_the_innermost_stage_at_each_time():
    run = fakes.complete()
    phases = (
        timed("build_guards", 1.0, 0.1, 1),
        timed("compile_file", 4.0, 3.0, 3), timed("async_compile.wait", 7.0, 1.0, 3),
        timed("inductor_compile", 3.0, 6.0, 2), timed("backend_compile", 2.0, 7.5, 1),
        timed("entire_frame_compile", 0.5, 9.5, 0), timed("entire_frame_compile", 11.0, 1.0, 0, "1/0"),
    )  # fmt: skip
    name = run.code.kernels[0].name
    slow = KernelCompiled(graph=run.code.kernels[0].graph, name=name, seconds=0.9)
    call = CallMade(index=0, variant="compiled", seconds=12.0, compiles=2, graph_seconds=0.7, frame_seconds=0.3)
    path = critical_path(replace(run, phase_times=phases, calls=(call,), kernel_compiles=(slow,)))
    assert [(segment.stage, segment.graph, round(segment.seconds, 3)) for segment in path.segments] == [
        ("Dynamo", "0/0", 1.5), ("AOTAutograd", "0/0", 1.0), ("Inductor", "0/0", 1.0), ("C++ compiler", "0/0", 3.0),
        ("compile workers", "0/0", 1.0), ("Inductor", "0/0", 1.0), ("AOTAutograd", "0/0", 0.5), ("Dynamo", "0/0", 0.5),
        ("Dynamo", "1/0", 1.0), ("frames", "", 0.3), ("compiled code", "", 0.7),
    ]  # fmt: skip
    assert path.segments[4].waits_for == name
    assert path.share == pytest.approx(11.5 / 12.0)
    text = " ".join(" ".join(row.text.split()) for row in critical_path_rows(path, 120))
    assert "in all: Dynamo 3.00 s · C++ compiler 3.00 s · Inductor 2.00 s · AOTAutograd 1.50 s" in text


def test_the_path_of_a_script_is_compared_with_its_regions_calls_and_backwards():
    phases = timed("dynamo", 1.0, 2.0, 0), timed("entire_backward_compile", 4.0, 1.0, 0)
    calls = tuple(
        RegionCompiled(region=region, call=1, at=at, seconds=seconds, graphs=("0/0",))
        for region, at, seconds in ((0, 0.9, 2.4), (1, 1.0, 2.1))
    )
    path = critical_path(replace(fakes.complete(), phase_times=phases, calls=(), region_compiles=calls))
    assert path.wall_seconds == pytest.approx(3.4)
    assert path.share == pytest.approx(3.0 / 3.4)


def test_spans_of_another_thread_are_not_counted_twice():
    phases = (timed("compile_file", 1.0, 2.5, 0), timed("entire_frame_compile", 0.0, 3.0, 0))
    path = critical_path(replace(fakes.complete(), phase_times=phases, calls=()))
    assert path.seconds == pytest.approx(3.0)
    assert path.share is None


def test_coverage_refers_to_the_calls_that_compiled():
    time = compile_time(fakes.complete())
    assert time.wall_seconds == pytest.approx(1.93)
    assert time.coverage == pytest.approx((1.62 + 0.29) / 1.93)
    assert summarize_compile_time(time) == "compiling took 1.91 s, 99% of the 1.93 s of the calls that compiled"
    assert [(depth, name) for depth, name, _, _ in span_lines(time)] == [
        (0, "0/0 entire_frame_compile"), (1, "backend_compile"), (2, "compile_file"),
        (0, "1/0 entire_frame_compile"), (1, "compile_file"),
    ]  # fmt: skip
    assert compile_time(fakes.running()).roots == ()


def test_time_in_graphs_counts_as_covered_and_not_as_compiling():
    made = CallMade(index=0, variant="compiled", seconds=2.0, compiles=1, graph_seconds=0.3, frame_seconds=0.1)
    warm = CallMade(index=1, variant="compiled", seconds=9.0)
    time = compile_time(replace(fakes.complete(), phase_times=tuple(PHASES[-1:]), calls=(made, warm)))
    assert (time.wall_seconds, time.seconds) == (2.0, 0.5)
    assert time.share == pytest.approx(0.25)
    assert time.coverage == pytest.approx(0.45)
    assert time.unaccounted_seconds == pytest.approx(1.1)
    assert [(seconds, share) for _, seconds, share in other_time_lines(time)] == [
        ("300 ms", "15.0%"), ("100 ms", "5.0%"), ("1.10 s", "55.0%"),
    ]  # fmt: skip
    calls = (CallMade(index=0, variant="compiled", seconds=2.0, compiles=1),)
    unmeasured = compile_time(replace(fakes.complete(), calls=calls))
    assert unmeasured.unaccounted_seconds is None
    assert not list(other_time_lines(unmeasured))
