"""Notebooks: which cells run, which lines IPython alone understands, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tcexplore.files import NotWrittenError
from tcexplore.fixes.fix import write_change
from tcexplore.notebook import to_python
from tcexplore.watch import UnreadableError, read_source


def notebook(*cells: str | dict[str, Any], **metadata: Any) -> str:
    made = [cell if isinstance(cell, dict) else {"cell_type": "code", "source": cell} for cell in cells]
    return json.dumps({"nbformat": 4, "cells": made, "metadata": metadata})


def test_every_code_cell_runs_in_order_and_is_numbered_as_in_the_notebook() -> None:
    text = {"cell_type": "markdown", "source": "# A model"}
    source = to_python(notebook("import torch\n", text, {"cell_type": "code", "source": ["x = 1\n", "y = 2"]}))
    assert source == "# %% cell 1\nimport torch\n\n# %% cell 3\nx = 1\ny = 2\n"


@pytest.mark.parametrize(
    "marked", [{"source": "x = 1", "metadata": {"tags": ["tcexplore"]}}, {"source": "# tcexplore\nx = 1"}]
)
def test_only_the_marked_cells_run_if_there_are_any(marked: dict[str, Any]) -> None:
    source = to_python(notebook("train()", {"cell_type": "code", **marked}, "plot()"))
    assert source.startswith("# %% cell 2\n")
    assert "x = 1" in source
    assert source.count("# %%") == 1


def test_lines_of_ipython_become_comments_and_keep_their_place() -> None:
    source = to_python(notebook("%matplotlib inline\n!pip list\nmodel?\nx = 7 % 2\nif x:\n    %time f()\n    y = 1"))
    assert source.splitlines()[1:] == [
        "# %matplotlib inline", "# !pip list", "# model?", "x = 7 % 2", "if x:", "#     %time f()", "    y = 1",
    ]  # fmt: skip
    compile(source, "model.ipynb", "exec")


def test_a_cell_in_another_language_becomes_a_comment_and_a_timed_one_runs() -> None:
    source = to_python(notebook("%%bash\nrm -rf build", "%%time\nx = 1"))
    assert "# rm -rf build\n" in source
    assert "# %%time\nx = 1\n" in source


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "no list of cells"),
        ('{"worksheets": []}', "no list of cells"),
        (notebook(), "no code cell"),
        (notebook({"cell_type": "code", "source": 3}), "no code cell"),
        (notebook("x <- 1", language_info={"name": "R"}), "its language is R"),
        (notebook("x", language_info={"name": "\x1b[2J"}), "its language is ␛[2J"),
    ],
)
def test_a_notebook_without_python_is_refused_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "model.ipynb"
    file.write_text(text)
    with pytest.raises(UnreadableError) as refused:
        read_source(str(file))
    assert reason in refused.value.message
    assert refused.value.message.startswith(f"{file} cannot be read as a notebook")


def test_a_fix_is_never_written_into_a_notebook(tmp_path: Path) -> None:
    file = tmp_path / "model.ipynb"
    file.write_text(before := notebook("x = 1"))
    with pytest.raises(NotWrittenError, match="is a notebook"):
        write_change(str(file), "x = 1", "x = 2")
    assert file.read_text() == before
