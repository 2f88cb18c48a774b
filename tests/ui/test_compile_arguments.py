"""Further arguments of torch.compile, asked for by the command palette."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.widgets import Input

from tcexplore.ui.screens.prompt_screen import PromptScreen, parse_arguments
from tests import fakes
from tests.ui.app_under_test import run_app


async def test_the_file_runs_again_with_further_arguments():
    run = fakes.complete(7)
    run = replace(run, config=replace(run.config, compile_arguments=("recompile_limit=4",)))
    async with run_app(fakes.session(run)) as ui:
        await ui.app.run_action("compile_arguments")
        await ui.settle()
        assert isinstance(ui.app.screen, PromptScreen)
        field = ui.app.screen.query_one(Input)
        assert field.value == "recompile_limit=4"
        field.value = "name"
        await ui.press("enter")
        assert "'name' is not NAME=VALUE" in ui.screen
        field.value = "name=block \"dynamic_shapes={'x': ['batch', None]}\""
        await ui.press("enter")
        assert ui.engine.requests == ["inductor default None name=block dynamic_shapes={'x': ['batch', None]}"]


def test_arguments_are_split_as_in_a_shell():
    assert parse_arguments("") == ()
    assert parse_arguments("a=1 b='x y'") == ("a=1", "b=x y")
    with pytest.raises(ValueError, match="no closing quotation"):
        parse_arguments("a='1")
