"""What the process for the next save imports while it waits, and which jobs it may then run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tcexplore.events import Job
from tcexplore.supervisor.leading_imports import leading_imports, may_run

SOURCE = """\
'''A model.'''
from __future__ import annotations

import os
import torch
import transformers
from mine import layer

os.environ["A"] = "1"
import pygments
"""


def job(source: str, **values: Any) -> Job:
    return replace(Job(run=1, file="/m.py", source=source), **values)


@pytest.mark.parametrize(
    ("source", "statements"),
    [
        (SOURCE, ("import transformers", "from mine import layer")),
        ("import torch\nfrom torch import nn\nimport math\n", ()),
        ("try:\n    import transformers\nexcept ImportError:\n    pass\n", ()),
        ("from .near import layer\nimport transformers\n", ()),
        ("x = 1\nimport transformers\n", ()),
        ("import transformers as t, math\n", ("import transformers as t, math",)),
        ("import (", ()),
    ],
    ids=["until another statement", "what is loaded", "optional", "relative", "after a statement", "two", "invalid"],
)
def test_only_the_first_imports_are_made_ahead(source: str, statements: tuple[str, ...]) -> None:
    early = leading_imports(job(source))
    assert (() if early is None else early.statements) == statements


@pytest.mark.parametrize(
    ("next_job", "runs"),
    [
        (job(SOURCE + "x = 2\n"), True),
        (job(SOURCE.replace("import os\n", "import os\nimport math\n")), True),
        (job(SOURCE.replace("import layer\n", "import layer\nimport rich\n")), True),
        (job(SOURCE.replace("import transformers\n", "")), False),
        (job(SOURCE.replace("import transformers\n", "import rich\nimport transformers\n")), False),
        (job(SOURCE, argv=("--large",)), False),
        (job(SOURCE, file="/other.py"), False),
        (job(SOURCE, baseline=SOURCE), False),
    ],
    ids=["same", "standard library", "one more at the end", "one less", "one before", "arguments", "file", "baseline"],
)
def test_a_job_whose_file_begins_with_the_imports_may_run_after_them(next_job: Job, runs: bool) -> None:
    assert may_run(next_job, leading_imports(job(SOURCE))) == runs
    assert may_run(next_job, None)
