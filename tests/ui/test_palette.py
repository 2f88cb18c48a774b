"""The command palette, and what the mouse does outside of rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.command import CommandPalette, Hit
from textual.widgets import OptionList

from tcexplore.events import Job
from tcexplore.session.links import break_link, kernel_link
from tcexplore.session.stable_ids import link_id, links_with_id
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.palette import EXACT, Command, CommandProvider, compilable_names, find_places
from tcexplore.ui.saved_settings import Settings, load, store
from tests import fakes
from tests.studies.playback import JOB
from tests.ui.app_under_test import AppUnderTest, FakeEngine, run_app

LISTED = 20
"""Number of entries that the palette shows in 50 rows."""


async def titles(ui: AppUnderTest, query: str) -> list[str]:
    """Return the titles that the palette lists for a query, the best first."""
    provider = CommandProvider(ui.app.main)
    hits = [hit async for hit in provider.search(query) if isinstance(hit, Hit)]
    return [str(hit.match_display) for hit in sorted(hits, key=lambda hit: hit.score, reverse=True)]


async def test_colon_opens_the_palette_with_the_most_used_commands_first():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.app.used_commands["View device in Code"] += 3
        await ui.press("colon")
        assert isinstance(ui.app.screen, CommandPalette)
        listed = ui.app.screen.query_one(OptionList)
        assert "View device in Code" in str(listed.get_option_at_index(0).prompt)


TITLES = {
    "fix": "Try and verify fixes for the graph break under the cursor",
    "ptx": "View device in Code",
    "ptx h100": "PTX and SASS for h100",
    "gpu": "Generate code for h100",
    "batch": "Time one dimension of the inputs at several sizes",
    "memory": "View timing in Timing",
    "screenshot": "Save a screenshot of the screen as SVG",
    "export": "Save the run as one HTML page to share",
    "mode": "Compile with mode=reduce-overhead",
    "wrong": "Find the compiler stage that crashes or gives a wrong result",
    "sample": "Open sample fusion.py",
    "dynamic": "Compile with dynamic=True",
    "aot": "Compile with backend=aot_eager",
    "gelu": "line 23: h = F.gelu(self.norm(h))",
    "which line is slow": "View lines in Timing",
    "cost of lines": "View lines in Timing",
    "fuse": "View fusion in Code",
    "why are kernels not fused": "View fusion in Code",
    "stop recompiling": "Vary the inputs: recompiles, and how to avoid them",
    "batch recompile": "Check whether other inputs would recompile",
    "best mode": "Compare all modes and backends",
    "changed since the last save": "Diff the run in view with the base or the previous run",
    "guards of a line": "View guards in Guards",
    "where does the graph break": "View breaks in Breaks",
    "would batch 33 recompile": "Check whether other inputs would recompile",
    "guards of line 24": "Go to the guards that come from the line under the cursor",
    "ptx of line 24": "Show the PTX or other machine code of the line or the kernel under the cursor",
    "time per line": "View lines in Timing",
    "worth compiling": "Time one dimension of the inputs at several sizes",
    "rewrite": "Try and verify fixes for the graph break under the cursor",
}
"""A title that the palette lists near the top, by the query."""


async def test_the_palette_finds_commands_by_keyword_and_places_by_text():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        assert [query for query, title in TITLES.items() if title not in (await titles(ui, query))[:LISTED]] == []


async def test_the_palette_opens_another_file_and_compiles_with_another_option(tmp_path: Path):
    (tmp_path / "other.py").write_text('"""Another model."""\n')
    run = replace(fakes.complete(7), file=str(tmp_path / "model.py"))
    async with run_app(fakes.session(run)) as ui:
        commands = {command.title: command for command in CommandProvider(ui.app.main).commands()}
        assert commands["Open other.py"].note == "Another model."
        commands["Compile with dynamic=True"].run()
        commands["PTX and SASS for h100"].run()
        await ui.settle()
        assert (ui.current, ui.pane("code").view.name) == ("code", "device")
        commands["Open other.py"].run()
        await ui.settle()
        assert ui.engine.requests == ["inductor default True", "retarget h100", f"open {tmp_path / 'other.py'}"]
        assert ui.app.session.newest is None
        ui.engine.deliver(Job(run=8, file=str(tmp_path / "other.py"), source="x = 1\n"))
        await ui.settle()
        assert "other.py" in ui.screen.splitlines()[0]


SEVERAL = """
model = Net()

def inputs(): return {}
def loss(output): return output.sum()
def score(x): return model(x)
def main(): score(1)
"""


def test_functions_with_parameters_can_be_compiled_if_the_file_has_inputs():
    assert compilable_names(SEVERAL) == ("score",)
    assert compilable_names(SEVERAL.replace("def inputs(): return {}", "inputs = ()")) == ("score",)
    assert compilable_names(SEVERAL.replace("inputs", "arguments")) == ()
    assert compilable_names("def f(:") == ()


async def test_the_palette_compiles_another_function_of_the_file():
    async with run_app(fakes.session(replace(fakes.complete(7), source=SEVERAL))) as ui:

        def commands() -> dict[str, Command]:
            return {command.title: command for command in CommandProvider(ui.app.main).commands()}

        assert "Compile the file's own entry" not in commands()
        commands()["Compile score"].run()
        ui.engine.job = replace(JOB, name="score")
        commands()["Compile the file's own entry"].run()
        assert ui.engine.requests == ["compile score", "compile None"]


async def test_letters_of_a_title_find_a_command_if_no_word_does():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        assert "Toggle zoom" in await titles(ui, "tglzm")
        assert "Toggle zoom" not in await titles(ui, "go")


async def test_used_commands_come_first_among_equal_matches():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.app.used_commands["PTX and SASS for h100"] += 1
        assert (await titles(ui, "ptx"))[0] == "PTX and SASS for h100"


async def test_a_view_is_listed_with_its_keys():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        notes = {command.title: command.note for command in CommandProvider(ui.app.main).commands()}
    assert notes["View timing in Timing"] == "timing pane, key 6"
    assert notes["View timeline in Timing"] == "timing pane, key 6, then 3 × v"


def test_a_number_finds_the_line_first():
    score, title, _, _ = next(find_places(fakes.complete(7), "24"))
    assert (score, title) == (EXACT, "line 24: h = h * 1.2")


async def test_the_number_of_a_line_or_a_kernel_comes_before_all_commands():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        assert (await titles(ui, "line 24"))[0] == "line 24: h = h * 1.2"
        assert (await titles(ui, "kernel 1"))[0].startswith("kernel 1: cpp_fused")


def test_kernels_ops_and_guards_are_places():
    notes = [note for _, _, note, _ in find_places(fakes.complete(7), "norm")]
    assert {"source", "code, graph 0/0 forward", "graph 0/0"} <= set(notes)


async def test_going_to_a_kernel_shows_the_code_pane_at_it():
    run = fakes.complete(7)
    async with run_app(fakes.session(run), (80, 24)) as ui:
        link = next(link for _, title, _, link in find_places(run, "gelu") if title.startswith("kernel"))
        ui.app.main.go_to(link)
        await ui.settle()
        assert ui.current == "code"
        assert link in ui.view("code").highlighted


async def test_clicks_on_the_footer_the_history_and_view_names_do_what_keys_do():
    async with run_app(fakes.session(fakes.complete(6), fakes.complete(7))) as ui:
        lines = ui.screen.splitlines()
        await ui.pilot.click("#footer", offset=(lines[-1].index("zoom"), 0))
        await ui.settle()
        assert ui.in_view == ["source"]
        await ui.press("escape")
        await ui.pilot.click("#history", offset=(lines[-2].index("6: "), 0))
        await ui.settle()
        assert ui.app.session.pinned == 6
        pane = ui.pane("code")
        title = lines[pane.region.y][pane.region.x :]
        await ui.pilot.click("#code", offset=(title.index("fusion"), 0))
        await ui.settle()
        assert pane.view.name == "fusion"


async def test_the_number_of_matches_stays_until_the_search_ends():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("slash", *"norm", "enter")
        assert "1 of " in ui.screen.splitlines()[-2]
        await ui.press("n")
        assert "2 of " in ui.screen.splitlines()[-2]
        await ui.press("escape")
        assert " of " not in ui.screen.splitlines()[-2]


async def test_the_palette_changes_the_theme(tmp_path: Path):
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("colon", *"theme nord", "enter")
        assert ui.app.theme == "nord"
        store(tmp_path / "settings.json", ui.app.chosen_settings(Settings()))
    again = ExplorerApp(FakeEngine, settings=load(tmp_path / "settings.json"))
    assert again.theme == ("nord" if again.console.color_system != "standard" else "ansi-dark")


def test_an_id_leads_to_its_part():
    run = fakes.complete(7)
    for link in (kernel_link(run.code.kernels[0]), break_link(run.breaks[0])):
        (found,) = find_places(run, link_id(run, link))
        assert (found[0], found[3]) == (EXACT, link)
    assert list(find_places(run, "k-000000000")) == []


async def test_the_id_of_the_row_is_copied(monkeypatch: pytest.MonkeyPatch):
    copied: list[str] = []

    def copy(_: object, text: str) -> str:
        copied.append(text)
        return "copied"

    monkeypatch.setattr("tcexplore.ui.terminal_driver.copy", copy)
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("3")
        await ui.app.run_action("copy_id")
        (id_,) = copied
        assert links_with_id(fakes.complete(7), id_)


async def test_the_phases_of_the_compile_are_found_by_name():
    async with run_app(fakes.session(fakes.complete())) as ui:
        await ui.press("colon", *"phases", "enter")
        assert (ui.current, ui.pane("timing").view.name) == ("timing", "timing")
        assert "▾ compiling took" in ui.row("timing")
