"""The cache entries of each frame, their limit, and fixes for recompiles."""

from __future__ import annotations

from dataclasses import replace

from tcexplore import events as ev
from tcexplore.documents.guards.guards_view import guards_document
from tcexplore.documents.guards.recompile_rows import describe_limit
from tcexplore.documents.guards.symbols_view import describe_fix
from tcexplore.session.cache_entries import cache_entries, guard_diff, guards_of
from tcexplore.session.history import summarize
from tcexplore.session.next_steps import next_steps
from tcexplore.session.recompile_fixes import BUCKETS, DYNAMIC, MARK_DYNAMIC, MARK_UNBACKED, TENSOR, recompile_fixes
from tests.documents.views import rows
from tests.snapshots import recompiling


def test_entries_have_calls_causes_and_seconds():
    first, rest = cache_entries(recompiling.run())
    assert [(e.graph, e.failed_entry, e.call, e.seconds) for e in first.entries] == [
        ("0/0", "", 1, 1.0), ("0/1", "0/0", 2, 1.25), ("0/2", "0/1", 3, 1.5), ("0/3", "0/1", 4, 1.75),
    ]  # fmt: skip
    assert [cause.failed_entry for cause in first.entries[2].causes] == ["0/1", "0/0"]
    assert (first.limit_hit, first.free_entries, [e.call for e in first.over_limit]) == ("recompile_limit", 0, [5])
    assert (rest.resumed, rest.free_entries, rest.error_at_limit) == (True, 2, True)


def test_the_limit_is_described_before_and_after_it_is_reached():
    first, rest = cache_entries(recompiling.run())
    assert "since call 5, this frame runs eagerly" in describe_limit(first)
    assert "2 entries left (recompile_limit = 4); after that" in describe_limit(rest)
    assert "raises an error" in describe_limit(rest)
    assert "raised an error" in describe_limit(replace(first, error_at_limit=True))
    assert "runs this frame eagerly" in describe_limit(replace(rest, error_at_limit=False))


def test_a_frame_over_the_limit_is_not_a_recompile():
    assert summarize(recompiling.run()).recompiles == 4


def test_guard_diff_lists_values_that_two_entries_guard_differently():
    snapshot = recompiling.run()
    one, other = (guards_of(snapshot, graph) for graph in ("0/1", "0/2"))
    assert one is not None
    assert other is not None
    texts = [(d.before and d.before.summary, d.after and d.after.summary) for d in guard_diff(one, other)]
    assert texts == [("== 1", "== 2"), ("== 0.1", "type is float")]
    assert guard_diff(one, one) == ()


def test_fixes_are_offered_only_if_they_apply():
    snapshot = recompiling.run()
    fixes = {(fix.kind, fix.name) for fix in recompile_fixes(replace(snapshot, symbols=()))}
    assert fixes == {(MARK_DYNAMIC, "x"), (DYNAMIC, "x"), (MARK_UNBACKED, "x"), (BUCKETS, "x"), (TENSOR, "lr")}

    without_one = tuple(r for r in snapshot.recompiles if r.new != "1")
    kinds = {fix.kind for fix in recompile_fixes(replace(snapshot, symbols=(), recompiles=without_one))}
    assert kinds == {MARK_DYNAMIC, DYNAMIC, TENSOR}

    fixed = replace(snapshot, symbols=(), recompiles=without_one, config=ev.Config(dynamic=False))
    assert {fix.kind for fix in recompile_fixes(fixed)} == {BUCKETS, TENSOR}


def test_frames_of_compiled_autograd_are_separate_and_get_no_fix():
    entered = [ev.FrameEntered(graph=graph) for graph in ("0/0", "!0/10/0", "!1/10/1", "10/2")]
    source = ev.SymbolSource(name="sizes[0]", kind="size", dim=0)
    fixed = ev.Symbol(name="s0", sources=(source,), specialized=(ev.Specialization(value="3", reason=""),))
    snapshot = recompiling.run()
    snapshot = replace(snapshot, recompiles=(), frames=tuple(entered), guards=tuple(
        ev.GuardsInstalled(graph=frame.graph, guards=()) for frame in entered),
        symbols=(ev.GraphSymbols(graph="!0/10/0", symbols=(fixed,)),))  # fmt: skip
    frames = cache_entries(snapshot)
    assert [(frame.number, [entry.graph for entry in frame.entries]) for frame in frames] == [
        ("0", ["0/0"]), ("10", ["!0/10/0", "!1/10/1", "10/2"]),
    ]  # fmt: skip
    assert recompile_fixes(snapshot) == ()


def test_a_size_that_the_code_specializes_is_not_offered_as_dynamic():
    fixes = [fix for fix in recompile_fixes(recompiling.run()) if fix.name == "y"]
    assert [(fix.kind, fix.blocked_by.value, fix.location) for fix in fixes] == [(BUCKETS, "6", recompiling.at(5))]


def test_a_size_that_also_recompiles_after_a_break_is_one_change_with_the_lowest_limit():
    snapshot = recompiling.run()
    size = next(one for one in snapshot.recompiles if (one.graph, one.name) == ("0/1", "x"))
    (later,) = (one for one in snapshot.recompiles if one.graph == "1/1")
    after = replace(later, kind="size", name="h", dim=0, old=size.old, new=size.new, origin="")
    source = ev.SymbolSource(name="h", kind="size", dim=0)
    symbol = ev.Symbol(name="s5", sources=(source,), hint="7", lower="2", upper="9")
    snapshot = replace(
        snapshot, recompiles=(size, after), symbols=(*snapshot.symbols, ev.GraphSymbols(graph="1/1", symbols=(symbol,)))
    )
    fix = next(one for one in recompile_fixes(snapshot) if one.kind == MARK_DYNAMIC)
    assert (fix.graphs, fix.after_breaks) == (("0/1",), ("1/1",))
    assert fix.limited == symbol, "0/1 holds up to 32"
    assert "The same size compiles 1/1 again, after a break." in describe_fix(fix, "f.py")
    text = "\n".join(row.text for row in rows(guards_document, snapshot))
    assert "the same size as for 0/1: see there how to avoid it" in text
    phases = tuple(
        ev.PhaseTimed(name="compile", seconds=seconds, depth=0, graph=graph, at=0.0)
        for graph, seconds in (("0/1", 1.0), ("1/1", 18.0))
    )
    (step,) = (one for one in next_steps(replace(snapshot, phase_times=phases)) if one.action == "avoid_recompiles")
    assert (step.number, step.gain.high) == (2, 19.0)
    other = replace(snapshot, recompiles=(size, replace(after, new="9")))
    assert not any(one.after_breaks for one in recompile_fixes(other)), "another change of the size"


def test_sizes_that_change_together_are_marked_together():
    snapshot = recompiling.run()
    again = next(one for one in snapshot.recompiles if one.kind == "size")
    sources = [ev.SymbolSource(name=name, kind="size", dim=0) for name in ("x", "z", "self.cache")]
    symbols = tuple(ev.Symbol(name=f"s{index}", sources=(one,)) for index, one in enumerate(sources))
    snapshot = replace(snapshot, symbols=(ev.GraphSymbols(run=1, graph=again.graph, symbols=symbols),))
    fix = next(one for one in recompile_fixes(snapshot) if one.kind == MARK_DYNAMIC)
    assert fix.other_sizes == (("z", 0),)
    assert describe_fix(fix, "f.py").startswith(
        "torch._dynamo.mark_dynamic(x, 0); torch._dynamo.mark_dynamic(z, 0) before"
    )
