"""Parsing of torch's messages and the text shown for them."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tcexplore.capture.dynamo.recompiles import compare_values
from tcexplore.torch_text.break_text import Reason, explain_reason, parse_reason
from tcexplore.torch_text.dynamo_names import readable_source
from tcexplore.torch_text.guard_text import cause_of_text, split_check

MESSAGE = """\
Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace builtin operator `print`
    with argument types ['str'].
  Hint: Avoid calling builtin `print`.
  Hint: Please report an issue to PyTorch.

  Developer debug context: builtin print

 For more details about this graph break, please visit: https://example.org/gb0059.html"""


def test_a_message_is_parsed_into_fields():
    reason = parse_reason(MESSAGE)
    assert reason.kind == "Failed to trace builtin operator"
    assert reason.explanation.splitlines()[1] == "with argument types ['str']."
    assert reason.hints == ("Avoid calling builtin `print`.", "Please report an issue to PyTorch.")
    assert reason.context == "builtin print"


def test_an_unknown_message_is_shown_unchanged():
    reason = parse_reason("something new\nhappened")
    assert (reason.kind, reason.explanation) == ("something new", "something new\nhappened")
    assert parse_reason("").kind == ""


def test_an_unknown_kind_is_explained_by_its_name():
    assert explain_reason(Reason("A future kind", "", (), "")) == "A future kind."
    unnamed = Reason("Failed to trace builtin operator", "no name in it", (), "")
    assert explain_reason(unnamed) == "Failed to trace builtin operator."


def test_consequences_of_a_break_are_explained():
    explanation = explain_reason(
        parse_reason(MESSAGE),
        [Reason("graph break in loop", "", (), "")],
        "Failed to handle graph break gracefully. Skipping the function and falling back to eager.",
    )
    assert [part in explanation for part in ("`print`", "inside a loop", "The whole function")] == [True] * 3


@pytest.mark.parametrize(
    ("source", "readable"),
    [
        ("L['x']", "x"),
        ("G['SCALE']", "SCALE"),
        ("L['self']._modules['blocks']._modules['0']._parameters['weight']", "self.blocks.0.weight"),
        ("L['self'].blocks.0.norm", "self.blocks.0.norm"),
        ("L['self'].__dict__['_modules']['down']._parameters['weight']", "self.down.weight"),
        ("L['rows'][0].size()[1]", "rows[0].size()[1]"),
        ("G['torch'].Tensor is G['_139913177576720_c0'].Tensor", "torch.Tensor is <global of Dynamo>.Tensor"),
        ("dict(type(G['h']).__dict__)['a']", "type(h).a"),
    ],
)
def test_sources_are_shown_as_the_user_writes_them(source: str, readable: str):
    assert readable_source(source) == readable


def test_a_check_is_split_from_torchs_comment():
    check = split_check("L['k'] == 3          # return x * k  # dir/model.py:12 in forward (HINT: an int)")
    assert (check.code, check.place) == ("L['k'] == 3", ("dir/model.py", 12, "forward"))
    known = split_check("L['k'] == 'a  # b'  # line  # m.py:1 in f", ["L['k'] == 'a  # b'"])
    assert known.code == "L['k'] == 'a  # b'"
    assert split_check("GLOBAL_STATE changed").place is None


@pytest.mark.parametrize(
    ("text", "old", "new", "words"),
    [
        ("tensor 'x' size mismatch at index 1. expected 4, actual 5", "4", "5", "Dimension 1 of `x` is 5"),
        (
            "tensor 'self._modules['a']._parameters['bias']' size mismatch at index 0. expected 64, actual 80. Guard "
            "failed on a parameter, consider using torch._dynamo.config.force_parameter_static_shapes = False to allow "
            "dynamism on parameters.",
            "64",
            "80",
            "Dimension 0 of `self.a.bias` is 80; it was compiled for 64.",
        ),
        ("tensor 'x' dtype mismatch. expected BFloat16, actual Half", "bf16", "f16", "f16"),
        ("tensor 'x' dtype mismatch. expected Char, actual Float", "i8", "f32", "f32"),
        (
            "tensor 'x' requires_grad mismatch. expected requires_grad=1",
            "requires_grad=True",
            "requires_grad=False",
            "",
        ),
        ("tensor 'x' future mismatch. Expected one, actual two", "one", "two", "Tensor 'x' future mismatch"),
        ("GLOBAL_STATE changed: grad_mode ", "off", "on", "with gradients off"),
        ("GLOBAL_STATE changed: num_threads ", "", "", "number of threads"),
        ("GLOBAL_STATE changed: future_setting ", "", "", "future_setting"),
        ("GLOBAL_STATE changed: grad_mode autocast(cpu)_enabled ", "", "", "Autocast"),
        ('Duplicate tensors found: ["x", "y"]', "different tensors", "the same tensor", "passed twice"),
        ("Cache line invalidated because L['self'].act got deallocated", "", "", "`self.act` no longer exists"),
    ],
)
def test_causes_are_read_from_torchs_messages(text: str, old: str, new: str, words: str):
    cause = cause_of_text(text, grad_enabled=True)
    assert (cause.old, cause.new) == (old, new)
    assert words in cause.reason


def test_guard_code_is_not_parsed_as_a_message():
    assert cause_of_text("L['k'] == 3", grad_enabled=True) is None


@pytest.mark.parametrize(
    ("code", "old", "new"),
    [
        ("L['k'] == 3", "3", "4"),
        ("len(L['rows']) == 2", "2", "3"),
        ("2 <= L['k'] <= 3", "2 <= k <= 3", "4"),
        ("L['rows'] is None", "None", "<list>"),
        ("L['gone'].size == 3", "3", ""),
        ("___check_type_id(L['rows'], 1234), type=<class 'tuple'>", "tuple", "list"),
        ("not math.isnan(L['k'])", "", ""),
        ("no code at all (", "", ""),
    ],
)
def test_compared_values_of_a_guard(code: str, old: str, new: str):
    values = compare_values(code, {"L": {"k": 4, "rows": [1, 2, 3]}})
    assert (values.old, values.new) == (old, new)
