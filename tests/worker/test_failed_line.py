"""An error of the model file comes with the values of its line and, where one is known, the edit that mends it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Failed
from tcexplore.worker.failed_line import FailedLine, examine_failed_line
from tests.supervisor.runs import Runs

pytestmark = [pytest.mark.torch]

MODEL = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads, self.options = 4, {"scale": 2}
        self.narrow = nn.Linear(64, 32)
        self.low = nn.Linear(64, 32).bfloat16()

    @property
    def shout(self):
        raise SystemExit("properties are not read")

    def view(self, x):
        y = x.transpose(0, 1)
        return y.view(self.heads * 512, 2)

    def matmul(self, h):
        return self.narrow(h)

    def cast(self, x):
        return torch.relu(self.low(x))

    def key(self, x):
        return x * self.options["shift"] * self.shout

    def several_lines(self, x):
        return x.transpose(0, 1).view(
            self.heads * 512, 2
        )
"""


def line_of(name: str, value: torch.Tensor, tmp_path: Path) -> FailedLine:
    file = tmp_path / "net.py"
    file.write_text(MODEL)
    scope: dict[str, Callable[[], object]] = {}
    exec(compile(MODEL, str(file), "exec"), scope)
    with pytest.raises(Exception, match=r".") as error:
        getattr(scope["Net"](), name)(value)
    return examine_failed_line(error.value, UserFiles(str(file)))


@pytest.mark.parametrize(
    ("name", "value", "values", "edit"),
    [
        ("view", torch.ones(64, 64), ("y = f32[64, 64] with strides [1, 64], not contiguous", "self.heads = 4"),
         "Likely edit: return y.reshape(self.heads * 512, 2)"),
        ("matmul", torch.ones(2, 48),
         ("self.narrow = Linear(in_features=64, out_features=32, bias=True)", "h = f32[2, 48]"),
         "self.narrow takes 64 features, and h has 48: nn.Linear(48, 32) would take it."),
        ("cast", torch.ones(2, 64),
         ("self.low = Linear(in_features=64, out_features=32, bias=True)", "x = f32[2, 64]"),
         "Likely edit: x.to(torch.bfloat16), since self.low is torch.bfloat16 and x is torch.float32."),
        ("key", torch.ones(2), ("self.options = {scale: 2}",), ""),
        ("several_lines", torch.ones(64, 64), ("x = f32[64, 64]", "self.heads = 4"),
         ".reshape(…) in place of .view(…) copies where it has to."),
    ],
)  # fmt: skip
def test_the_values_of_a_failed_line(
    name: str, value: torch.Tensor, values: tuple[str, ...], edit: str, tmp_path: Path
) -> None:
    assert line_of(name, value, tmp_path) == FailedLine(values, edit)


SCRIPT = """\
import torch

def split(x):
    y = x.transpose(0, 1)
    return {body}

compiled = torch.compile(split, backend="eager")
try:
    compiled(torch.ones(64, 64))
except Exception as error:
    raise RuntimeError("in the training loop") from error
"""


@pytest.mark.asyncio(loop_scope="session")
async def test_the_call_of_a_script_that_fails_is_made_eagerly_to_tell_whose_fault_it_is(runs: Runs) -> None:
    failed = (await runs.run(SCRIPT.format(body="y.view(2, 2048)")))[-1]
    assert isinstance(failed, Failed)
    assert (failed.blame, failed.stage, failed.type) == ("user", "eager", "RuntimeError")
    assert failed.location is not None
    assert failed.location.line == 5
    assert failed.message.startswith("view size is not compatible")
    assert failed.values == ("y = f32[64, 64] with strides [1, 64], not contiguous",)
    assert failed.hint == "Likely edit: return y.reshape(2, 2048)"
    assert "fake" not in failed.message + failed.hint + failed.traceback


@pytest.mark.asyncio(loop_scope="session")
async def test_a_script_whose_failed_call_works_eagerly_blames_the_compiler(runs: Runs) -> None:
    body = "y.view(2, 2048) if torch.compiler.is_compiling() else y"
    failed = (await runs.run(SCRIPT.format(body=body)))[-1]
    assert isinstance(failed, Failed)
    assert failed.blame == "compiler"
    assert failed.message.startswith("Cannot view a tensor"), "the op's exception, without Dynamo's advice"
    assert "works eagerly" in failed.hint


IN_PLACE = """\
import torch

@torch.compile(backend="aot_eager")
def scaled(x):
    y = x.relu()
    return y.mul_(0.5)

for _ in range(3):
    scaled(torch.ones(4, requires_grad=True)).sum().backward()
"""


@pytest.mark.asyncio(loop_scope="session")
async def test_an_error_of_the_backward_is_of_the_user_and_has_the_line_of_the_forward(runs: Runs) -> None:
    failed = (await runs.run(IN_PLACE))[-1]
    assert isinstance(failed, Failed)
    assert (failed.blame, failed.type) == ("user", "RuntimeError")
    assert "modified by an inplace operation" in failed.message
    assert failed.location is not None
    assert failed.location.line == 5, "what the backward needs, and the next line changes"


IN_PLACE_MODEL = """\
import torch

def model(x):
    y = x.relu()
    return y.mul_(0.5)

inputs = (torch.ones(4, requires_grad=True),)
"""


@pytest.mark.asyncio(loop_scope="session")
async def test_an_eager_error_of_the_backward_has_the_line_of_the_forward(runs: Runs) -> None:
    failed = (await runs.run(IN_PLACE_MODEL, train=True))[-1]
    assert isinstance(failed, Failed)
    assert (failed.blame, failed.stage) == ("user", "eager")
    assert failed.location is not None
    assert failed.location.line == 4


@pytest.mark.asyncio(loop_scope="session")
async def test_an_eager_error_without_a_line_of_the_user_has_that_of_the_script(runs: Runs) -> None:
    script = "import torch\nnet = torch.compile(torch.nn.Linear(4, 4), backend='eager')\nnet(torch.ones(4), 3)\n"
    failed = (await runs.run(script))[-1]
    assert isinstance(failed, Failed)
    assert (failed.blame, failed.type) == ("user", "TypeError")
    assert failed.location is not None
    assert failed.location.line == 3


TWICE = """\
import torch

critic = torch.nn.Linear(4, 1)
compiled = torch.compile(critic, backend="aot_eager")
x = torch.ones(2, 4, requires_grad=True)
(gradient,) = torch.autograd.grad(compiled(x).tanh().sum(), x, create_graph=True)
gradient.norm().backward()
"""


@pytest.mark.asyncio(loop_scope="session")
async def test_a_gradient_penalty_is_told_to_call_what_was_compiled(runs: Runs) -> None:
    failed = (await runs.run(TWICE))[-1]
    assert isinstance(failed, Failed)
    assert failed.location is not None
    assert failed.location.line == 7
    assert failed.blame == "compiler"
    assert "call the module that was compiled" in failed.hint
