"""Each kind of invalid file is reported as one clear failure, and the next run works."""

from __future__ import annotations

from typing import Any

import pytest

from tcexplore.events import Failed, Finished, Location, ModulesImported, Output
from tests.supervisor.runs import Runs, printed

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]

GOOD = "import torch\nmodel = torch.nn.Linear(4, 4)\ninputs = (torch.ones(2, 4),)\n"
RELU = "import torch\nmodel = torch.nn.ReLU()\n"
MODEL = "import torch\nclass M(torch.nn.Module):\n"


EXCEPTIONS = {
    "half saved": ("import torch\nmodel = torch.nn.Linear(\n", "SyntaxError", "never closed", 2),
    "syntax": ("x = 1\ndef f(:\n", "SyntaxError", "invalid syntax", 2),
    "no such module": ("import torch\nimport nowhere_at_all\n", "ModuleNotFoundError", "nowhere_at_all", 2),
    "raises": ("x = 1\nraise ValueError('boom')\n", "ValueError", "boom", 2),
    "raises without text": ("class E(Exception):\n  def __str__(self): 1 / 0\nraise E\n", "E", "not be formatted", 3),
    "endless text": ("from tcexplore.worker import failure\nfailure.FORMAT_S = 0.1\nclass E(Exception):\n"
                     "  def __str__(self):\n    while True: pass\nraise E\n", "E", "not be", 6),
    "huge text": ("raise ValueError('x' * 50_000_000)\n", "ValueError", "xxx", 1),
    "huge text in forward": (MODEL + "  def forward(self, x):\n    raise ValueError('x' * 50_000_000)\nmodel, inputs = "
                             "M(), (1,)\n", "ValueError", "xxx", 4),
    "__init__": (MODEL + "  def __init__(self):\n    {}['x']\nmodel = M()\n", "KeyError", "'x'", 4),
    "forward": (MODEL + "  def forward(self, x):\n    x.no\nmodel, inputs = M(), (1,)\n", "AttributeError", "no", 4),
    "shape": (MODEL + "  def forward(self, x):\n    x @ x\nmodel, inputs = M(), (torch.ones(2, 3),)\n",
              "RuntimeError", "shapes", 4),
    "recursion": ("def f():\n  f()\nf()\n", "RecursionError", "recursion", 2),
    "input": ("name = input('who? ')\n", "EOFError", "EOF", 1),
    "sys.exit": ("import sys\nsys.exit(3)\n", "SystemExit", "sys.exit(3)", 2),
    "memory": ("import resource, torch\nresource.setrlimit(resource.RLIMIT_AS, (1 << 41, 1 << 41))\n"
               "torch.ones(1 << 40)\n", "RuntimeError", "allocate", 3),
    "interrupt": ("raise KeyboardInterrupt\n", "KeyboardInterrupt", "KeyboardInterrupt", 1),
}  # fmt: skip


@pytest.mark.parametrize("case", EXCEPTIONS)
async def test_an_exception_in_the_file_is_attributed_to_the_user_with_its_line(runs: Runs, case: str) -> None:
    source, kind, part, line = EXCEPTIONS[case]
    failed = await runs.failure(source)
    assert (failed.blame, failed.type) == ("user", kind)
    assert part in failed.message
    assert failed.location is not None
    assert (failed.location.file, failed.location.line) == (str(runs.file), line)
    assert "tcexplore" not in failed.traceback


NO_ENTRY = {
    "empty": ("", "no model"),
    "nothing": ("import torch\n", "no model"),
    "no inputs": ("import torch\nmodel = torch.nn.Linear(4, 4)\n", "no inputs"),
    "several": (MODEL + "  pass\nclass N(M):\n  pass\ninputs = (1,)\n", "M, N"),
    "needs arguments": (MODEL + "  def __init__(self, d): pass\ninputs = (1,)\n", "without d"),
    "uncallable": ("model, inputs = 3, (1,)\n", "type int"),
    "inputs is a tensor": ("import torch\nmodel, inputs = torch.nn.ReLU(), torch.ones(2)\n", "is a Tensor"),
    "inputs lists tensors": ("import torch\nmodel, inputs = torch.nn.ReLU(), [torch.ones(2)]\n", "inputs[0]"),
    "inputs is empty": ("import torch\nmodel, inputs = torch.nn.ReLU(), []\n", "empty list"),
    "inputs has odd keys": ("import torch\nmodel, inputs = torch.nn.ReLU(), {1: 2}\n", "key 1"),
}


@pytest.mark.parametrize("case", NO_ENTRY)
async def test_a_file_without_an_entry_fails_with_a_hint(runs: Runs, case: str) -> None:
    source, part = NO_ENTRY[case]
    failed = await runs.failure(source)
    assert (failed.stage, failed.blame) == ("file", "user")
    assert part in failed.message
    assert failed.hint


ARGUMENTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "no such name": (GOOD, {"name": "modle"}, "Did you mean `model`?"),
    "no such dtype": (GOOD, {"inputs": ("q32[4]",)}, "'q32'"),
    "invalid specification": (GOOD, {"inputs": ("f32[4",)}, "neither a tensor"),
    "no such backend": (GOOD, {"backend": "nope"}, "nope"),
    "no such mode": (GOOD, {"backend": "inductor", "mode": "nope"}, "max-autotune"),
    "no such device": (GOOD, {"device": "toaster"}, "--device toaster"),
    "nothing to train": (
        "import torch\nmodel, inputs = torch.nn.ReLU(), (torch.ones(2),)\n",
        {"train": True},
        "--train",
    ),
}


@pytest.mark.parametrize("case", ARGUMENTS)
async def test_a_wrong_argument_is_named(runs: Runs, case: str) -> None:
    source, options, part = ARGUMENTS[case]
    failed = await runs.failure(source, **options)
    assert (failed.stage, failed.blame) == ("arguments", "user")
    assert part in failed.message


EXITS = {
    "os._exit": ("import os\nos._exit(5)\n", "os._exit", None),
    "segfault": ("import ctypes\n\ndef bad():\n    ctypes.string_at(0)\nbad()\n", "SIGSEGV", 4),
    "abort": ("import os\nos.abort()\n", "SIGABRT", 2),
    "killed": ("import os\nos.kill(os.getpid(), 9)\n", "SIGKILL", None),
    "closed descriptors": ("import os\nos.closerange(3, 64)\nos._exit(0)\n", "os._exit", None),
}


@pytest.mark.parametrize("case", EXITS)
async def test_the_end_of_a_process_is_explained_and_the_next_run_works(runs: Runs, case: str) -> None:
    source, kind, line = EXITS[case]
    failed = await runs.failure(source)
    assert (failed.stage, failed.blame, failed.type) == ("worker", "user", kind)
    assert line is None or failed.location is not None
    assert failed.location is None or failed.location.line == line
    assert isinstance((await runs.run(GOOD))[-1], Finished)


async def test_stopping_an_endless_loop_reports_its_line(runs: Runs) -> None:
    source = (
        "import torch\ndef f(x):\n    print('in', flush=True)\n    while True:\n        pass\nmodel, inputs = f, (1,)\n"
    )
    runs.submit(source)
    await runs.wait_for(Output)
    runs.supervisor.stop_run()
    failed = await runs.wait_for(Failed)
    assert isinstance(failed, Failed)
    assert (failed.stage, failed.type) == ("dynamo", "Stopped")
    assert failed.location in [Location(str(runs.file), line, "f") for line in (3, 4, 5)]


async def test_a_hundred_thousand_lines_arrive_in_few_events(runs: Runs) -> None:
    events = await runs.run("for i in range(100_000): print('line', i)\n" + GOOD)
    assert isinstance(events[-1], Finished)
    assert printed(events).endswith("line 99999\n")
    assert len(events) < 500


async def test_control_characters_are_made_visible_and_markup_is_kept(runs: Runs) -> None:
    text = "[/b] a[i] \x1b]0;title\x07 \x9b31m"
    events = await runs.run(f"import sys\nprint({text!r})\nprint('bad', file=sys.stderr)\n{GOOD}")
    assert printed(events) == "[/b] a[i] ␛]0;title␇ \ufffd31m\n"
    assert printed(events, "stderr") == "bad\n"


async def test_fullgraph_turns_a_graph_break_into_a_user_error(runs: Runs) -> None:
    source = "import torch\ndef f(x):\n    y = x + 1\n    torch._dynamo.graph_break()\n    return y\nmodel = f\n"
    failed = await runs.failure(source + "inputs = (torch.ones(2),)\n", fullgraph=True)
    assert (failed.stage, failed.blame, failed.type) == ("dynamo", "user", "Unsupported")
    assert failed.location == Location(str(runs.file), 4, "f")
    assert "TORCHDYNAMO_VERBOSE" not in failed.message


async def test_an_exception_in_compiled_user_code_is_attributed_to_the_user(runs: Runs) -> None:
    source = "n = 0\ndef f(x):\n  global n\n  n += 1\n  if n > 1:\n    raise ValueError('second')\n  return x + 1\n"
    failed = await runs.failure("import torch\n" + source + "model, inputs = f, [(torch.ones(2),)] * 2\n")
    assert (failed.stage, failed.blame, failed.type, failed.message) == ("eager", "user", "ValueError", "second")


async def test_an_exception_that_eager_calls_do_not_raise_is_attributed_to_the_compiler(runs: Runs) -> None:
    source = """\
import sys, torch
def f(x):
    torch._dynamo.graph_break()
    if sys._getframe().f_code.co_name != "f":
        raise ValueError("renamed")
    return x + 1
model, inputs = f, (torch.ones(2),)
"""
    failed = await runs.failure(source)
    assert (failed.blame, failed.type, failed.message) == ("compiler", "ValueError", "renamed")
    assert failed.location is not None
    assert failed.location.line == 5
    assert "works eagerly" in failed.hint


async def test_a_custom_op_without_a_fake_implementation_is_the_users_to_add(runs: Runs) -> None:
    source = """\
import torch
@torch.library.custom_op("mylib::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2
def model(x):
    return doubled(x.sin())
inputs = (torch.ones(2),)
"""
    failed = await runs.failure(source)
    assert (failed.stage, failed.blame) == ("dynamo", "user")
    assert "mylib::doubled" in failed.hint
    assert "torch.library.register_fake" in failed.hint


async def test_a_failing_backend_is_attributed_to_the_compiler(runs: Runs) -> None:
    source = (
        "import torch\n@torch._dynamo.register_backend\ndef bad(gm, inputs): raise RuntimeError('exploded')\n" + GOOD
    )
    failed = await runs.failure(source, backend="bad")
    assert (failed.blame, failed.type) == ("compiler", "BackendCompilerFailed")
    assert "exploded" in failed.message


async def test_without_a_cxx_compiler_the_generated_code_is_captured(runs: Runs) -> None:
    # Without the compiler, torch cannot test the vector instructions either, and would generate nothing.
    known = "from torch._inductor.cpu_vec_isa import valid_vec_isa_list\nvalid_vec_isa_list()\n"
    source = f"import torch, torch._inductor.config as config\n{known}config.cpp.cxx = (None, '/nowhere/g++')\n"
    model = "model, inputs = torch.nn.Sequential(torch.nn.GELU(), torch.nn.Tanh()), (torch.ones(3, 47),)\n"
    events = await runs.run(source + model, backend="inductor")
    failed = events[-1]
    assert isinstance(failed, Failed)
    assert (failed.stage, failed.blame) == ("compiler", "compiler")
    assert "C++ compiler" in failed.hint
    assert {"GraphCaptured", "Kernel", "Wrapper"} <= {type(event).__name__ for event in events}


async def test_a_module_in_the_folder_of_the_file_is_imported_and_reported(runs: Runs) -> None:
    helper = runs.file.with_name("local_helper.py")
    helper.write_text("size = 4\n")
    events = await runs.run("import local_helper\n" + GOOD)
    assert ModulesImported(run=events[0].run, files=(str(helper),)) in events
