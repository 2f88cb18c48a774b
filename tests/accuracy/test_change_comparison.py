"""Comparison of a changed program with the original: state, shapes, branches and gradients, without a compiler."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, repeat
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.accuracy import change_comparison
from tcexplore.accuracy.branch_coverage import BranchCoverage
from tcexplore.accuracy.change_comparison import compare_change
from tcexplore.accuracy.observation import Function, Subject, observe
from tcexplore.capture.entry import Call
from tcexplore.capture.python_state import PythonState, copy_small
from tcexplore.events import BranchTest, ChangeChecked, ChangeCompared, Event

pytestmark = pytest.mark.torch

X = torch.arange(-4.0, 4.0).view(2, 4)


def program(text: str) -> dict[str, Any]:
    scope: dict[str, Any] = {"torch": torch}
    exec(compile(text, text, "exec"), scope)
    return scope


def make_call(function: Function, call: Call) -> Any:
    with torch.no_grad():
        return function(*call.args)


def subject(eager: Function, compiled: Function, state: PythonState | None) -> Subject:
    return Subject(
        eager=eager, compiled=compiled, calls=(Call((X.clone(),)),), call=make_call, restore=lambda: None, train=False,
        seed=lambda: torch.manual_seed(0) and None, state=state, compile_for_mode=lambda _: compiled,
    )  # fmt: skip


def branch_tests(text: str) -> tuple[BranchTest, ...]:
    def span(first: ast.AST, last: ast.AST) -> Any:
        return tuple(getattr(*pair) for pair in ((first, "lineno"), (first, "col_offset"),
                                                 (last, "end_lineno"), (last, "end_col_offset")))  # fmt: skip

    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.If)]
    return tuple(
        BranchTest(file=text, test=span(n.test, n.test), body=span(n.body[0], n.body[-1]), text=ast.unparse(n.test))
        for n in nodes
    )


def compare(before: str, after: str, compiled: str = "") -> ChangeChecked:
    """Compare `model` of two texts; `compiled` is what the changed one does compiled, by default the same."""
    scopes = [program(before), program(after)]
    states = [PythonState({"state": scope.setdefault("state", {})}, lambda _: False) for scope in scopes]
    made = program(compiled)["model"] if compiled else scopes[1]["model"]
    if compiled:
        made.__globals__["state"] = scopes[1]["state"]
    sides = (subject(scopes[0]["model"], scopes[0]["model"], states[0]), subject(scopes[1]["model"], made, states[1]))
    return compare_change(*sides, branch_tests(before))


BRANCH = "def model(x):\n    if x.sum() > 0:\n        return {}\n    return {}\n"
WHERE = "def model(x):\n    return torch.where(x.sum() > 0, {}, {})\n"
PLAIN = "def model(x):\n    return {}\n"
COUNTED = "state = {'n': 0}\ndef model(x):\n    state['n'] += 1\n    return x * 2\n"


@pytest.mark.parametrize(
    ("before", "after", "compiled", "difference"),
    [
        (BRANCH.format("x[:1]", "x"), WHERE.format("x[:1]", "x"), "", "output has shape [1, 4] before, [2, 4]"),
        (BRANCH.format("x.double()", "x"), WHERE.format("x.double()", "x"), "", "output has dtype f32 before, f64"),
        (BRANCH.format("x.sqrt()", "x"), WHERE.format("x.sqrt()", "x"), "", "gradient of input[0] differs in NaN"),
        (COUNTED, COUNTED, "def model(x):\n    return x * 2\n", "state['n'] becomes 1 before, 'unchanged' compiled"),
        ("def model(x):\n    return x + 0\n", "def model(x):\n    return x.abs()\n", "", "output differs by up to 8"),
        (
            "def model(x):\n    return x + 0\n",
            "def model(x):\n    return x + 0 * torch.rand(())\n",
            "",
            "random numbers",
        ),
        ("def model(x):\n    return x + 0\n", "def model(x):\n    return x.add_(0.5) - 0.5\n", "", "is changed after"),
        (BRANCH.format("x // 1", "x"), WHERE.format("x.long() // (x > 9).sum()", "x"), "", "is raised only after"),
    ],
)
def test_changes_of_the_behavior_are_named(before: str, after: str, compiled: str, difference: str):
    result = compare(before, after, compiled)
    assert result.verdict == "wrong"
    assert difference in result.differences[0]


def test_a_difference_that_other_roundings_of_the_original_explain_is_no_change():
    cancels = PLAIN.format("(x * 0.1 + x * 0.2 - x * 0.3) * 1e9")
    result = compare(cancels, cancels, PLAIN.format("x * 0"))
    assert (result.verdict, result.differences) == ("close to eager", ())
    assert result.tensor == "with other inputs: output"
    assert compare(cancels, cancels, PLAIN.format("x * 1e4")).verdict == "wrong"


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ("(x * 0.1 + 999.9) - 999.9", "x * 0.1", "close to eager"),
        ("x * 0.1", "x * 0.100003", "not close to eager"),
    ],
)
def test_roundings_of_the_original_also_explain_a_difference_that_is_not_close(before: str, after: str, verdict: str):
    """As that of a division of Python floats, which a fix makes one of float32 tensors."""
    assert compare(PLAIN.format(before), PLAIN.format(after)).verdict == verdict


@pytest.mark.parametrize(
    ("test", "unreached"),
    [
        ("x.sum() > 0", 0),
        ("torch.isnan(x).any()", 0),
        ("x.abs().max() > 300", 0),
        ("x.tanh().sum() > 100", 1),
        ("torch.tensor(True)", 1),
    ],
)
def test_other_inputs_are_tried_until_both_branches_are_reached(test: str, unreached: int):
    text = f"def model(x):\n    y = x\n    if {test}:\n        y = y.nan_to_num() * 2\n    return y + 1\n"
    changed = f"def model(x):\n    return torch.where({test}, x.nan_to_num() * 2, x) + 1\n"
    result = compare(text, changed)
    assert result.verdict == "identical", result
    assert len(result.unreached) == unreached
    assert all(test in sentence for sentence in result.unreached)


def test_calls_in_a_row_reach_what_one_call_does_not():
    text = "state = {'n': 0}\ndef model(x):\n    state['n'] += 1\n    return x * min(state['n'], 2)\n"
    changed = text.replace("min(state['n'], 2)", "1")
    result = compare(text, changed)
    assert "called 3 times" in result.differences[0]


def test_a_float_in_the_state_has_the_tolerance_of_a_tensor():
    text = "state = {'s': 0.0}\ndef model(x):\n    state['s'] = 0.25 + %s\n    return x * 2\n"
    assert compare(text % "0", text % "7e-9").verdict == "close to eager"
    different = compare(text % "0", text % "7e-3")
    assert (different.verdict, different.differences) == (
        "wrong",
        ("state['s'] differs by up to 0.007, after the change",),
    )
    returned = "def model(x):\n    return x * 2, 0.25 + %s\n"
    assert compare(returned % "0", returned % "7e-9").verdict == "close to eager"
    assert compare(returned % "0", returned % "7e-3").verdict == "wrong"
    assert compare(text % "float('nan')", text % "float('nan')").verdict == "identical"
    assert compare(text % "float('nan')", text % "1.0").verdict == "wrong"


@pytest.mark.parametrize(
    ("number", "tensor", "verdict"),
    [
        ("state['n'] = 3.5", "state['n'] = torch.tensor(3.5)", "identical"),
        ("state['n'] = x.sum().item()", "state['n'] = x.sum()", "identical"),
        ("state['n'] = 3.5", "state['n'] = torch.tensor(4.5)", "wrong"),
        ("state['n'] += 1", "state['n'] = state['n'] + torch.tensor(1)", "identical"),
        ("state['n'] += 1", "state['n'] = state['n'] + torch.tensor(2)", "wrong"),
        ("state['n'] = 0", "state['n'] = torch.tensor(0)", "identical"),
    ],
)
def test_a_number_in_the_state_that_becomes_a_tensor_is_compared_by_value(number: str, tensor: str, verdict: str):
    text = "state = {'n': 0}\ndef model(x):\n    %s\n    return x * 2\n"
    assert compare(text % number, text % tensor).verdict == verdict
    in_tensor = text.replace("{'n': 0}", "{'n': torch.tensor(0)}")
    assert compare(text % number, in_tensor % tensor).verdict == verdict


def test_state_in_which_two_eager_calls_differ_is_not_compared():
    text = "import time\nstate = {'t': 0.0}\ndef model(x):\n    state['t'] = time.perf_counter()\n    return x * 2\n"
    result = compare(text, text.replace("x * 2", "x + x"))
    assert result.verdict == "identical"
    assert result.not_compared == ("state['t']: two eager calls of the original differ in it",)
    assert compare(text, text.replace("x * 2", "x * 3")).verdict == "wrong"


def test_state_is_restored_in_place():
    state: dict[str, Any] = {"n": [1, {"a": torch.zeros(2)}], "s": {1}}
    inner, tensor = state["n"], state["n"][1]["a"]
    saved = PythonState({"state": state}, lambda _: False)
    tensor.add_(1)
    inner.append(2)
    state["s"].add(2)
    state["new"] = 1
    saved.restore()
    assert (state["n"] is inner, inner[1]["a"] is tensor, tensor.tolist()) == (True, True, [0, 0])
    assert (len(inner), state["s"], "new" in state) == (2, {1}, False)


OPAQUE = """\
import io
import itertools
import random

import numpy


class Counter:
    calls = 0


class Slotted:
    __slots__ = ("calls",)


def step():
    Counter.calls += 1
    slotted.calls = step.calls = Counter.calls
    array.__iadd__(1), torch.rand(1, generator=generator), drawn.random(), plain.random(), stream.write("x"), next(left)


slotted, array, generator, drawn, plain, stream, left = (
    Slotted(), numpy.zeros(2), torch.Generator(), numpy.random.default_rng(0), random.Random(0), io.StringIO(),
    iter([1]),
)
slotted.calls = step.calls = 0
"""


def test_state_in_classes_slots_arrays_streams_and_generators_is_seen_and_restored():
    scope = program(OPAQUE)
    names = ("Counter", "slotted", "step", "array", "generator", "drawn", "plain", "stream", "left")
    saved = PythonState({name: scope[name] for name in names}, lambda value: value.__module__ in ("builtins", None))
    before = saved.values().leaves
    scope["step"]()
    after = saved.values().leaves
    assert {path.partition(".")[0] for path in before if before[path] != after[path]} == set(names)
    saved.restore()
    assert {path for path, value in saved.values().leaves.items() if value != before[path]} == {"left"}


class Updated(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop = torch.nn.Dropout(0.5)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.lerp_(x.mean(0), 0.5)
        return self.drop(x) - self.mean


def module_subject(module: torch.nn.Module) -> Subject:
    state = PythonState({"self": module}, lambda _: False)
    return replace(subject(module, module, state), module=module)


def test_each_call_in_another_mode_begins_in_that_mode_and_without_a_graph():
    result = compare_change(module_subject(Updated()), module_subject(Updated()))
    assert (result.verdict, result.differences) == ("identical", ())
    assert result.modes == ("as configured", "training mode with gradients", "evaluation mode with gradients")


class Unmoved(torch.nn.Module):
    """Writes the values that its buffer has already, of an input with gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.add_((x * 0).sum(0))
        return (x - self.mean) * x


def test_a_buffer_that_keeps_its_values_leaves_the_graph_of_a_call():
    module = Unmoved()
    x = torch.ones(2, 4, requires_grad=True)
    side = replace(subject(module, module, None), module=module)

    def with_backward(function: Function, call: Call) -> torch.Tensor:
        output = function(*call.args)
        output.sum().backward()
        return output

    side = replace(side, call=with_backward)
    for _ in range(2):
        observe(side, module, Call(args=(x,)), module)
    assert module.mean.grad_fn is None
    assert torch.equal(module.mean, torch.zeros(4))


class Frozen(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return self.layer(x)


@pytest.mark.parametrize(
    ("module", "training", "modes", "compiled"),
    [
        (Updated, True, ["training mode with gradients", "evaluation mode with gradients"], [True, True]),
        (Frozen, True, ["training mode", "evaluation mode with the grad mode on"], [False, False]),
        (Frozen, False, ["training mode (eager only)", "evaluation mode with the grad mode on"], [False]),
    ],
)
def test_a_mode_is_compiled_as_far_as_its_calls_need(
    module: type[torch.nn.Module], training: bool, modes: list[str], compiled: list[bool]
):
    """AOTAutograd only for gradients, and training only if there are any or if the file trains."""
    asked: list[bool] = []
    before: torch.nn.Module = module().train(training)
    after: torch.nn.Module = module().train(training)
    after.load_state_dict(before.state_dict())

    def compile_for_mode(gradients: bool) -> Function:
        asked.append(gradients)
        function: Function = after
        return function

    side = replace(module_subject(after), compile_for_mode=compile_for_mode)
    result = compare_change(module_subject(before), side)
    assert (result.verdict, list(result.modes[1:]), asked) == ("identical", modes, compiled)


def test_code_compiled_for_a_mode_without_gradients_is_compared():
    before = Frozen()

    def wrong(x: torch.Tensor) -> Any:
        return before(x) + (1 if torch.is_grad_enabled() else 0)

    side = replace(module_subject(before), compile_for_mode=lambda _: wrong)
    result = compare_change(module_subject(before), side)
    assert (result.verdict, result.modes) == ("wrong", ("as configured",))


def test_the_comparison_shows_how_far_it_has_come():
    progress: list[Event] = []
    compare_change(module_subject(Updated()), module_subject(Updated()), (), progress.append)
    assert [(one.inputs, one.planned, one.mode) for one in progress if isinstance(one, ChangeCompared)] == [
        *((inputs, 5, "as configured") for inputs in range(1, 6)),
        (5, 5, "training mode"), (5, 5, "evaluation mode"),
    ]  # fmt: skip


def test_gradients_that_a_script_left_do_not_add_to_those_of_a_call():
    def with_backward(function: Function, call: Call) -> torch.Tensor:
        output = function(*call.args)
        output.sum().backward()
        return output

    def trained() -> Subject:
        module = torch.nn.Linear(4, 2, bias=False)
        torch.nn.init.ones_(module.weight)
        return replace(module_subject(module), call=with_backward, train=True)

    before, after = trained(), trained()
    before.module.weight.grad = torch.ones(2, 4)
    assert compare_change(before, after).verdict == "identical"


def test_a_mode_in_which_the_original_raises_is_not_compared():
    result = compare("def model(x):\n    return torch.from_numpy(x.numpy() + 1)\n", "def model(x):\n    return x + 1\n")
    assert (result.verdict, result.modes) == ("identical", ("as configured",))
    assert "the original raises RuntimeError" in result.not_compared[0]


def test_a_gradient_that_only_one_side_has_is_mentioned():
    after = "def model(x):\n    return x.detach() * 2 + 0 * x.sum()\n"
    result = compare(after.replace("x.sum()", "x.sum().detach()"), after)
    assert result.verdict == "identical"
    assert "gradient of input[0]: zero on one side, none on the other" in result.differences[0]


ELIF = """\
def branch(x):
    if x > 10:
        y = 1
    elif x > 0:
        if x > 5:
            y = 2
    return 3
"""


def test_each_test_of_an_if_with_elif_is_seen_to_hold_and_not_to_hold():
    tests = []
    for node in ast.walk(ast.parse(ELIF)):
        if isinstance(node, ast.If):
            first, last = node.body[0], node.body[-1]
            spans = [(a.lineno, a.col_offset, b.end_lineno or 0, b.end_col_offset or 0) for a, b in
                     ((node.test, node.test), (first, last))]  # fmt: skip
            tests.append(BranchTest(file="branch.py", test=spans[0], body=spans[1], text=ast.unparse(node.test)))
    namespace: dict[str, Any] = {}
    exec(compile(ELIF, "branch.py", "exec"), namespace)
    missing = {}
    for values in ((20,), (20, -1), (20, -1, 1), (20, -1, 1, 7)):
        coverage = BranchCoverage(tests)
        with coverage:
            for x in values:
                namespace["branch"](x)
        missing[values] = {(test.text, held) for test, held in coverage.missing}
    inner = {("x > 5", True), ("x > 5", False)}
    assert missing[20,] == {("x > 10", False), ("x > 0", True), ("x > 0", False), *inner}
    assert missing[20, -1] == {("x > 0", True), *inner}
    assert missing[20, -1, 1] == {("x > 5", True)}
    assert missing[20, -1, 1, 7] == set()


class _Loading(dict[str, int]):
    def items(self) -> Any:
        raise ImportError("loads a library")


def test_state_is_read_and_restored_without_methods_of_the_users_containers():
    holder = SimpleNamespace(entries=_Loading(a=1), names={"x"}, steps=[1])
    state = PythonState({"holder": holder}, lambda _: True)
    holder.entries["b"] = 2
    holder.names.add("y")
    holder.steps.append(2)
    state.restore()
    assert dict.copy(holder.entries) == {"a": 1}
    assert (holder.names, holder.steps) == ({"x"}, [1])


def test_a_lazy_module_keeps_the_parameters_of_its_first_call():
    model = torch.nn.Sequential(torch.nn.LazyLinear(3), torch.nn.LazyBatchNorm1d())
    python = PythonState({"self": model}, lambda _: False)
    copies, versions = copy_small(model.named_parameters(), 1 << 10)
    assert (copies, list(versions.changed())) == ([], [])
    expected = model.eval()(X)
    python.restore()
    assert list(versions.changed()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert model[0].in_features == 4
    assert torch.equal(model(X), expected)


def test_a_generator_that_went_on_is_state_that_cannot_be_set_back():
    def rates() -> Iterator[float]:
        rate = 1.0
        while True:
            yield rate
            rate /= 2

    holder = SimpleNamespace(rates=rates())
    for _ in range(2):  # the first call starts the generator, the next one changes its variable
        state = PythonState({"holder": holder}, lambda _: True)
        assert state.not_restored() == ()
        next(holder.rates)
        state.restore()
        assert state.not_restored() == ("holder.rates",)


class Clock:
    """A clock for all threads, which advances by a second with each reading."""

    now = 0.0

    def monotonic(self) -> float:
        self.now += 1
        return self.now

    thread_time = monotonic


FAR = "def model(x):\n    if x.abs().sum() > 1000:\n        return x\n    return x * 2\n"


def test_the_search_for_inputs_does_not_pay_for_the_first_compile(monkeypatch: pytest.MonkeyPatch):
    clock = Clock()
    monkeypatch.setattr(change_comparison, "time", clock)
    after = program("def model(x):\n    return torch.where(x.abs().sum() > 1000, x, x * 2)\n")["model"]

    seconds = chain([100.0], repeat(0.0))

    def compiled(x: torch.Tensor) -> Any:
        clock.now += next(seconds)
        return after(x)

    original = program(FAR)["model"]
    sides = (subject(original, original, None), subject(after, compiled, None))
    checked = compare_change(*sides, branch_tests(FAR))
    assert (checked.verdict, checked.unreached) == ("identical", ())


class Duration:
    """How long the program says that its call takes, which time limits then go by."""

    seconds = 0.0

    @contextmanager
    def limit(self, most: float, error: type[BaseException]) -> Iterator[None]:
        self.seconds = 0.0
        yield
        if most and self.seconds > most:
            raise error


@pytest.mark.parametrize(("seconds", "verdict"), [(5.0, "identical"), (50.0, "wrong")])
def test_a_call_after_the_change_may_take_longer_but_must_end(
    monkeypatch: pytest.MonkeyPatch, seconds: float, verdict: str
):
    taken = Duration()
    monkeypatch.setattr(change_comparison, "time_limit", taken.limit)
    original = program(FAR)["model"]

    def after(x: torch.Tensor) -> Any:
        taken.seconds = seconds
        return original(x)

    checked = compare_change(subject(original, original, None), subject(after, original, None))
    assert checked.verdict == verdict
    assert verdict == "identical" or "with other inputs: it does not end after the change" in checked.differences


@pytest.mark.parametrize(("configured", "varied"), [(0.0, 0), (2.0, 5)])
def test_other_inputs_may_take_as_long_as_a_few_calls_as_configured(
    monkeypatch: pytest.MonkeyPatch, configured: float, varied: int
):
    """Beside other programs or of a large model, each call takes more than the limit for a small one."""
    clock, seconds, taken = Clock(), chain([configured], repeat(8.0)), Duration()
    monkeypatch.setattr(change_comparison, "time", clock)
    monkeypatch.setattr(change_comparison, "time_limit", taken.limit)
    monkeypatch.setattr(change_comparison, "BUDGET_S", 1000.0)
    original = program(FAR)["model"]

    def slow(x: torch.Tensor) -> Any:
        taken.seconds = next(seconds)
        clock.now += taken.seconds
        return original(x)

    sides = (subject(slow, slow, None), subject(original, original, None))
    checked = compare_change(*sides, branch_tests(FAR))
    # What a call that did not end would have shown of a branch does not count.
    assert (checked.varied, len(checked.unreached)) == (varied, 0 if varied else 1)


def test_a_branch_counts_only_if_its_call_is_compared(monkeypatch: pytest.MonkeyPatch):
    """The first call that reaches the branch uses up the budget, and is compared all the same."""
    clock = Clock()
    monkeypatch.setattr(change_comparison, "time", clock)
    before, after = program(FAR)["model"], program(FAR.replace("return x\n", "return x * 5\n", 1))["model"]

    def slow(x: torch.Tensor) -> Any:
        clock.now += 3 * change_comparison.BUDGET_S * (float(x.detach().abs().max()) > 100)
        return before(x)

    result = compare_change(subject(slow, slow, None), subject(after, after, None), branch_tests(FAR))
    assert result.verdict == "wrong"
    assert result.differences[0].startswith("with other inputs: output differs")


RAISES = "def model(x):\n    if x.sum() > 5:\n        {}\n    return x{}\n"


@pytest.mark.parametrize(
    ("branch", "end", "unreached"),
    [('raise ValueError("no")', "", 0), ("x = x * 2", ".reshape(3)", 1), ("x = x * 2", "", 0)],
)
def test_a_call_that_raises_shows_only_a_branch_that_raises_itself(branch: str, end: str, unreached: int):
    text = RAISES.format(branch, end and f" if x.sum() <= 5 else x{end}")
    assert len(compare(text, text).unreached) == unreached


def test_another_exception_is_a_change():
    before, after = (RAISES.format(f"raise {error}", "") for error in ("ValueError", "TypeError"))
    assert "TypeError is raised after the change, before it ValueError" in compare(before, after).differences[0]


def test_a_small_difference_ends_the_comparison():
    progress: list[Event] = []
    before, after = (program(PLAIN.format(text))["model"] for text in ("x * 0.1", "x * 0.100003"))
    result = compare_change(subject(before, before, None), subject(after, after, None), (), progress.append)
    assert (result.verdict, result.varied, progress) == ("not close to eager", 0, [])


def test_roundings_also_explain_calls_in_a_row():
    text = "state = {{'calls': 0}}\n\ndef model(x):\n    state['calls'] += 1\n    return {}\n"
    result = compare(text.format("(x * 0.1 + 999.9) - 999.9"), text.format("x * 0.1"))
    assert result.verdict == "close to eager"


OBJECT = "class Result:\n    def __init__(self, x):\n        self.x = x\n\ndef model(x):\n    return Result({})\n"


def test_tensors_inside_of_an_output_object_are_compared():
    result = compare(OBJECT.format("x * 2"), OBJECT.format("x * 3"))
    assert result.differences[0].startswith("output, tensor 0 in it differs")
    assert compare(OBJECT.format("x * 2"), OBJECT.format("x * 2")).gradients


def test_a_complex_output_has_gradients():
    text = PLAIN.format("torch.fft.fft(x)")
    result = compare(text, text)
    assert (result.modes, result.gradients) == (("as configured", "with gradients"), True)


def test_a_mode_in_which_no_call_of_the_original_ends_is_not_one_of_those_compared(monkeypatch: pytest.MonkeyPatch):
    @contextmanager
    def limit(most: float, error: type[BaseException]) -> Iterator[None]:
        yield
        if most and torch.is_grad_enabled():
            raise error

    monkeypatch.setattr(change_comparison, "time_limit", limit)
    original = program("def model(x):\n    return x * 2\n")["model"]
    side = replace(subject(original, original, None), call=lambda function, call: function(*call.args))
    monkeypatch.setattr(change_comparison, "VARIATIONS", ())
    result = compare_change(side, side)
    assert result.modes == ("as configured",)
    assert result.not_compared == ("with gradients: the original did not end within 3 s",)


def test_a_search_that_ends_early_says_so(monkeypatch: pytest.MonkeyPatch):
    clock = Clock()
    monkeypatch.setattr(change_comparison, "time", clock)
    monkeypatch.setattr(change_comparison, "BUDGET_S", 3.0)
    original = program(FAR)["model"]
    sides = (subject(original, original, None), subject(original, original, None))
    (reason,) = compare_change(*sides, branch_tests(FAR)).unreached
    assert reason.endswith("`x.abs().sum() > 1000` in line 2 holds; the search for one ended after 3 s")


def test_variations_of_floats_are_not_tried_on_integers():
    text = "def model(x):\n    if x.sum() > 10 ** 9:\n        return x\n    return x * 2\n"
    original = program(text)["model"]
    integers = replace(subject(original, original, None), calls=(Call((torch.arange(4),)),))
    (reason,) = compare_change(integers, integers, branch_tests(text)).unreached
    # As it is; in another order four times, all zero, all one, all the largest and the smallest.
    assert "with none of 9 inputs" in reason


SCALED = """
class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(()))

    def forward(self, x):
        seen.append(self.weight.item())
        if self.weight > {}:
            return x * self.weight
        return x
"""


@pytest.mark.parametrize(("least", "largest"), [(5.0, 10.0), (50.0, 100.0)])
def test_weights_are_scaled_no_further_than_a_branch_needs(least: float, largest: float):
    text, seen = SCALED.format(least), list[float]()
    scope: dict[str, Any] = {"torch": torch, "seen": seen}
    exec(compile(text, text, "exec"), scope)
    before, after = module_subject(scope["Scaled"]()), module_subject(scope["Scaled"]())
    checked = compare_change(before, after, branch_tests(text))
    assert (checked.verdict, checked.unreached) == ("identical", ())
    assert max(seen) == pytest.approx(largest)


NAMED = """\
net = torch.nn.Linear(4, 4)
with torch.no_grad():
    net.weight.copy_(torch.eye(4) / 100)
    net.bias.fill_(-0.125)
def model(x):
    mean = net(x.clamp(-4, 4)).mean(-1)
    {}
    return mean
"""
CLAMPED = NAMED.format("if mean.min() < -5:\n        mean = mean.clamp(min=-5)")
CLAMPED_BY_WHERE = NAMED.format("mean = torch.where(mean.min() < -5, mean.clamp(min=-5), mean)")


def naming_subject(text: str, *, views: bool) -> Subject:
    """Return a function that names a module, whose state has the module's parameters, or only `views` of them."""
    file = ModuleType("file")
    vars(file)["torch"] = torch
    exec(compile(text, text, "exec"), vars(file))
    named = torch.nn.Module()
    named.add_module("net", file.net)
    if views:
        file.net.views = [parameter.detach() for parameter in file.net.parameters()]
    state = PythonState({"self": named} if views else {"file": file}, lambda _: False)
    return replace(subject(file.model, file.model, state), module=named)


@pytest.mark.parametrize("views", [False, True])
def test_both_sides_keep_other_weights_from_call_to_call(views: bool):
    tests = branch_tests(CLAMPED)
    before, right, again = (naming_subject(text, views=views) for text in (CLAMPED, CLAMPED_BY_WHERE, CLAMPED))
    checked = compare_change(before, right, tests)
    assert (checked.verdict, checked.differences, checked.unreached) == ("identical", (), ())
    assert before.module is not None
    assert torch.equal(before.module.net.weight, torch.eye(4) / 100)
    wrong = naming_subject(CLAMPED_BY_WHERE.replace("min=-5", "min=-6"), views=views)
    refused = compare_change(again, wrong, tests)
    assert "with other weights: output differs by up to 1, after the change" in refused.differences
