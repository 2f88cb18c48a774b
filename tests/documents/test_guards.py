"""The guards pane."""

from __future__ import annotations

from dataclasses import replace

from tcexplore import events as ev
from tcexplore.documents.guards.guards_view import guards_document
from tcexplore.documents.line_facts import broken_expression
from tcexplore.events import FrameEntered, Guard, GuardsInstalled, Recompiled
from tcexplore.session import Snapshot
from tcexplore.session.links import guard_link
from tcexplore.ui.row_search import Query, Search, own_links
from tests import fakes


def test_values_on_dynamos_stack_are_described():
    names = {
        "___stack0": "break's value",
        "___stack1": "break's value 1",
        "___stack0.__code__": "carried value 0.__code__",
    }
    run = fakes.complete()
    for name, shown in names.items():
        guard = Guard(kind="EQUALS_MATCH", source=name, name=name, code=(f"{name} == 1.0",), summary="== 1.0")
        document = guards_document(replace(run, guards=(replace(run.guards[0], guards=(guard,)),)), frozenset(), 100)
        assert shown[-31:] in document.row(1).text


def test_a_recompile_for_a_value_over_the_break_names_it_and_the_break_to_remove():
    run = fakes.complete()
    graph_break = run.breaks[0]
    assert graph_break.location is not None
    entered = FrameEntered(graph="1/1", frame=graph_break.location, resumed=True)
    recompile = Recompiled(graph="1/1", failed_entry="1/0", failed_guard="___stack0 == 1.5", reason="", old="1.5",
                           new="2.5", kind="float", name="___stack0", origin="break")  # fmt: skip
    document = guards_document(replace(run, frames=(entered,), recompiles=(recompile,)), frozenset(), 100)
    rows = [document.row(index).text.strip() for index in range(6)]
    assert "1.5 → 2.5  break's value == 1.5" in rows
    place = f"line {graph_break.location.line} (`{broken_expression(graph_break)}`)"
    assert f"· Remove the break at {place}: a value that stays in the graph is not guarded." in " ".join(rows)
    unrelated = replace(entered, frame=replace(graph_break.location, line=1))
    document = guards_document(replace(run, frames=(unrelated,), recompiles=(recompile,)), frozenset(), 100)
    assert not any("Remove the break" in document.row(index).text for index in range(6))


def test_guards_of_one_line_stand_together_after_the_input_tensors():
    run = fakes.complete()

    def guard(name: str, line: int | None, kind: str = "EQUALS_MATCH", source: str = "L['x']") -> Guard:
        location = None if line is None else ev.Location(file=run.file, line=line)
        return Guard(kind=kind, source=source, name=name, summary="== 1", location=location)

    guards = (
        guard("width", 9), guard("depth", 5), guard("grad mode", None, "GLOBAL_STATE", ""), guard("size", 9),
        guard("second", 9, "TENSOR_MATCH"), guard("first", 5, "TENSOR_MATCH"), guard("free", None), guard("low", 5),
    )  # fmt: skip
    run = replace(run, recompiles=(), guards=(GuardsInstalled(run=run.run, graph="0/0", guards=guards),))
    document = guards_document(run, frozenset(), 100)
    names = [document.row(index).text.split()[0] for index in range(1, len(guards))]
    assert names == ["second", "first", "depth", "low", "width", "size", "free"]


def layered() -> Snapshot:
    """Return a run with four guards for each of 32 layers, and another value in one of them."""
    guards: list[Guard] = []
    for n in range(32):
        module = f"L['self']._modules['layers']._modules['{n}']"
        name = f"self.layers.{n}"
        guards += [
            Guard(kind="NONE_MATCH", source=f"{module}.bias", name=f"{name}.bias", summary="is None"),
            Guard(kind="EQUALS_MATCH", source=f"{module}.heads", name=f"{name}.heads",
                  summary="== 8" if n == 9 else "== 4"),
            Guard(kind="EQUALS_MATCH", source=f"{module}.index", name=f"{name}.index", summary=f"== {n}"),
            Guard(kind="DUPLICATE_INPUT", source="", summary=f"self.config is {name}.config"),
        ]  # fmt: skip
    run = fakes.complete()
    return replace(run, recompiles=(), guards=(GuardsInstalled(run=run.run, graph="0/0", guards=tuple(guards)),))


def test_guards_of_equal_layers_are_one_row_and_the_odd_one_is_apart():
    document = guards_document(layered(), frozenset(), 100)
    rows = [document.row(index) for index in range(len(document))]
    texts = [" ".join(row.text.split()) for row in rows]
    assert [text.partition("  ")[0] for text in texts[1:]] == [
        "▸ self.layers.*.bias is None ×32 NONE_MATCH",
        "▸ self.layers.*.heads == 4 ×31 EQUALS_MATCH",
        "▸ self.layers.*.index == * ×32 EQUALS_MATCH",
        "self.layers.9.heads == 8 EQUALS_MATCH",
        "▸ DUPLICATE_INPUT self.config is self.layers.*.config ×32 DUPLICATE_INPUT",
    ]
    ninth = guard_link("0/0", layered().guards[0].guards[4 * 9])
    assert ninth in own_links(rows[1])
    opened = guards_document(layered(), frozenset([rows[1].fold or ""]), 100)
    assert len(opened) == len(document) + 32
    assert own_links(opened.row(2 + 9)) == (ninth,)


async def test_a_search_finds_the_guard_of_a_layer_in_the_row_for_all():
    document = guards_document(layered(), frozenset(), 100)
    search = Search(Query("layers.9.bias"), document)
    await search.run(0, lambda _: None, lambda: None)
    assert search.matches == [1]


def test_a_narrow_pane_cuts_the_kind_of_a_guard_without_a_name_at_its_end():
    document = guards_document(layered(), frozenset(), 38)
    assert "DUPLICATE" in document.row(len(document) - 1).text
