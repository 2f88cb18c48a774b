"""The file contract: the rules that find the entry, and the forms of inputs."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tcexplore.capture.entry import (
    Call,
    Entry,
    EntryError,
    describe_call,
    find_entry,
    move_calls,
    parse_call,
    read_calls,
)
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Config, Job, Location
from tcexplore.worker.model_file import ModelFile, compiles_itself, module_names

pytestmark = pytest.mark.torch

SCRIPTS = [
    "import torch\n@torch.compile\ndef f(x): return x",
    "import torch\n@torch.compile(dynamic=True)\ndef f(x): return x",
    "import torch as t\ng = t.compile(print)",
    "from torch import compile as c\ng = c(print)",
    "import torch._dynamo\ng = torch._dynamo.optimize('eager')(print)",
    "net = make()\nnet.compile()",
    "class A:\n  def go(self):\n    self.net.inner.compile(mode='x')",
    "from transformers import TrainingArguments\nTrainingArguments('out', torch_compile=True)",
    "from accelerate import Accelerator\nAccelerator(dynamo_backend='inductor')",
    "from accelerate.utils import compile_regions\nnet = compile_regions(make())",
    "pipe.transformer.compile_repeated_blocks(fullgraph=True)",
    "net.generate(ids, compile_config=CompileConfig())",
    "import torch\ntorch._inductor.aoti_compile_and_package(program, package_path='m.pt2')",
]
NOT_SCRIPTS = ["import re\np = re.compile('x')", "from re import compile\ncompile('x')", "compile('x', '', 'exec')", "",
               "TrainingArguments('out', torch_compile=False)", "Accelerator(dynamo_backend='no')"]  # fmt: skip


@pytest.mark.parametrize("source", SCRIPTS)
def test_a_file_that_compiles_something_is_a_script(source: str) -> None:
    assert compiles_itself(ast.parse(source))


@pytest.mark.parametrize("source", NOT_SCRIPTS)
def test_other_functions_named_compile_do_not_make_a_script(source: str) -> None:
    assert not compiles_itself(ast.parse(source))


def test_module_names_include_nested_statements_but_not_main() -> None:
    source = """
import a.b, c as d
from e import f
if d: g, (h, *i) = 1, (2, 3)
else: j: int = 1
try: k = 1
except E: l = 1
with open() as m: pass
for n in []: pass
def inputs(): o = 1
if __name__ == "__main__": model = 1
(p := 1)
"""
    assert module_names(ast.parse(source)) == set("adfghijklmnp") | {"inputs"}


@pytest.fixture
def entry_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Entry]]:
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "argv", sys.argv[:])
    file = tmp_path / "my_model.py"

    def entry_of(source: str, name: str | None = None, **config: Any) -> Entry:
        sys.modules.pop("my_model", None)
        file.write_text(source)
        job = Job(run=1, file=str(file), source=source, name=name, config=Config(**config))
        return find_entry(ModelFile(job).run_as_module(), job, UserFiles(str(file)))

    yield entry_of
    sys.modules.pop("my_model", None)


def test_a_program_whose_modules_compile_is_a_script(tmp_path: Path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "loop.py").write_text("from . import fast\nimport missing, torch\n")
    (package / "fast.py").write_text("import torch\nstep = torch.compile(torch.sin)\n")
    file = tmp_path / "main.py"

    def rule(source: str) -> str:
        return ModelFile(Job(run=1, file=str(file), source=source)).script_rule

    main = "if __name__ == '__main__':\n    loop.run()\n"
    assert rule(f"from package import loop\n{main}") == "fast.py, which it imports, compiles something"
    assert rule(f"import package.loop as loop\n{main}")
    assert not rule("from package import loop\ndef f():\n    loop.run()\n"), "it has nothing to run"
    assert not rule(f"from package import loop\nmodel = inputs = None\n{main}")
    assert not rule(f"import package\n{main}")


def test_a_module_whose_class_has_no_forward_to_read_is_an_entry(entry_of: Callable[..., Entry]):
    source = """
import torch
class OfInstances:
    def __get__(self, instance, owner):
        return instance.call  # as `forward` of a scripted module
class Net(torch.nn.Module):
    forward = OfInstances()
    def call(self, x):
        return x
model, inputs = Net(), (torch.ones(1),)
"""
    assert entry_of(source).location is None


@pytest.mark.parametrize("imported", ["from .parts import size", "from a_package.inner.parts import size"])
def test_a_file_of_a_package_imports_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imported: str):
    monkeypatch.setattr(sys, "path", list(sys.path))
    inner = tmp_path / "a_package" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").touch()
    (inner / "__init__.py").touch()
    (inner / "parts.py").write_text("size = 3\n")
    file = inner / "of_package.py"
    assert ModelFile(Job(run=1, file=str(file), source=f"{imported}\n")).run_as_module().size == 3
    for name in [name for name in sys.modules if name.startswith(("a_package", "of_package"))]:
        del sys.modules[name]


NET = """\
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1
def helper(x):
    return x
def loss(output):
    return output.sum()
x = torch.ones(2)
"""
CASES: dict[str, tuple[str, dict[str, Any], str, str, str]] = {
    "model and inputs": (NET + "model, inputs = Net(), (x,)", {}, "model", "module", "module-level `model`"),
    "model and --input": (NET + "model = Net()", {"inputs": ("f32[2]",)}, "model", "module", "--input"),
    "a named function": (NET + "inputs = (x,)", {"name": "helper"}, "helper", "function", "named"),
    "a named class": (NET + "inputs = (x,)", {"name": "Net"}, "Net", "module", "named"),
    "the only class": (NET, {"inputs": ("f32[2]",)}, "Net", "module", "the only nn.Module class"),
    "the only function": ("def go(x): return x\ninputs = (1,)", {}, "go", "function", "the only function"),
}


@pytest.mark.parametrize("case", CASES)
def test_each_rule_finds_and_names_its_entry(entry_of: Callable[..., Entry], case: str) -> None:
    source, options, name, kind, rule = CASES[case]
    entry = entry_of(source, **options)
    assert (entry.name, entry.kind) == (name, kind)
    assert rule in entry.rule
    assert len(entry.calls) == 1


def test_a_function_that_calls_the_model_is_named_as_not_compiled(entry_of: Callable[..., Entry]) -> None:
    source = NET + "def score(x):\n    return model(x) * 2\ndef main():\n    score(x)\nmodel, inputs = Net(), (x,)"
    assert [note.partition(", only")[0] for note in entry_of(source).notes] == ["`score` is not compiled"]
    assert entry_of(source, name="model").notes == ()


def test_the_location_is_the_users_forward(entry_of: Callable[..., Entry], tmp_path: Path) -> None:
    entry = entry_of(NET + "model, inputs = Net(), (x,)")
    assert entry.location == Location(str(tmp_path / "my_model.py"), 3, "forward")
    assert entry_of("import torch\nmodel, inputs = torch.nn.ReLU(), (1,)").location is None


@pytest.mark.parametrize(
    "compiled",
    [
        "torch.compile(Net(), backend='eager')",
        "torch.compile(helper, backend='eager')",
        "torch.compile(torch.nn.Sequential(Net()), backend='eager')",
    ],
)
def test_a_target_that_the_file_compiled_is_split(entry_of: Callable[..., Entry], compiled: str) -> None:
    entry = entry_of(NET + f"model, inputs = {compiled}, (x,)")
    assert entry.compiled is not None
    assert not hasattr(entry.target, "_torchdynamo_orig_callable")
    assert "compiled it itself" in entry.notes[-1]  # with a GPU, a note about the device precedes it


def test_all_kinds_of_inputs() -> None:
    x = torch.ones(2)
    assert read_calls((x, 1)) == (Call((x, 1)),)
    assert read_calls({"x": 1}) == (Call(kwargs={"x": 1}),)
    assert read_calls([(1,), {"y": 2}]) == (Call((1,)), Call(kwargs={"y": 2}))
    assert read_calls(lambda: (3,)) == (Call((3,)),)


def test_specifications_create_tensors_and_values() -> None:
    specs = ["f32[2, 3]", "bf16[]", "i64[50]<3", "b8[4]", "c64[1]", "mask=bool[64]", "flag=True", "k=[1, 2]", "s='a=b'"]
    call = parse_call(specs)
    descriptions = ("f32[2, 3]", "bf16[]", "i64[50]", "b8[4]", "c64[1]")
    assert describe_call(call) == (*descriptions, "mask=b8[64]", "flag=True", "k=[1, 2]", "s='a=b'")
    assert set(call.args[2].tolist()) == {0, 1, 2}


@pytest.mark.parametrize("spec", ["f32[4", "q8[4]", "f32[1,,2]", "open('x')", "x=", ""])
def test_an_invalid_specification_is_rejected(spec: str) -> None:
    with pytest.raises(EntryError) as error:
        parse_call([spec])
    assert error.value.stage == "arguments"
    assert repr(spec) in error.value.message


def test_moving_keeps_shared_tensors_and_dynamo_marks() -> None:
    x = torch.ones(2, requires_grad=True)
    torch._dynamo.mark_dynamic(x, 0)
    (call,) = move_calls((Call((x, [x]), {"y": 3}),), torch.device("meta"))
    assert call.args[0] is call.args[1][0]
    assert call.args[0].device.type == "meta"
    assert call.args[0].requires_grad
    assert call.args[0]._dynamo_dynamic_indices == {0}
    assert call.kwargs == {"y": 3}
