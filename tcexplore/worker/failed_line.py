"""The line of the user's that failed: the values that it works with, and the edit that most likely mends it."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from collections.abc import Iterator
from types import FrameType, FunctionType, ModuleType, TracebackType
from typing import Any, NamedTuple

import torch
from torch import nn

from tcexplore.capture.entry import describe_value
from tcexplore.capture.user_files import UserFiles

MOST_VALUES = 8
LONGEST_VALUE = 120

_VIEW = re.compile(r"view size is not compatible|Cannot view a tensor with shape")
_FEATURES = re.compile(r"mat1 and mat2 shapes cannot be multiplied|must have same reduction dim")
_DTYPES = re.compile(r"(must have|to have|be) the same dtype|expected scalar type|same dtype")
_MISSING = object()
_NOT_SHOWN = (ModuleType, FunctionType, type)


class FailedLine(NamedTuple):
    """What is known of a line that raised an exception."""

    values: tuple[str, ...] = ()
    """`y = f32[2, 16, 4, 16], not contiguous` for each name in the expression that raised it."""
    edit: str = ""
    """The edit that most likely mends it; empty if none is known."""


class _Expression(NamedTuple):
    """The expression that a frame evaluates."""

    frame: FrameType
    text: str
    line: str
    """The whole line, if the expression is on one."""
    start: int
    """Column of the expression in the line."""


def examine_failed_line(error: BaseException, user_files: UserFiles) -> FailedLine:
    """Return what the innermost line of user code in a traceback worked with. It may call `repr` of user code."""
    expression = _innermost(error, user_files)
    if expression is None:
        return FailedLine()
    try:
        tree = ast.parse(expression.text.strip(), mode="eval")
    except SyntaxError:
        return FailedLine()
    values = {ast.unparse(name): value for name, value in _values(tree, expression.frame)}
    shown = tuple(f"{name} = {_describe(value)}" for name, value in [*values.items()][:MOST_VALUES])
    return FailedLine(shown, _likely_edit(str(error), expression, values))


def _innermost(error: BaseException, user_files: UserFiles) -> _Expression | None:
    step, last = error.__traceback__, None
    while step is not None:
        last = step if user_files.owns(step.tb_frame.f_code.co_filename) else last
        step = step.tb_next
    return _expression(last) if last is not None else None


def _expression(step: TracebackType) -> _Expression | None:
    code = step.tb_frame.f_code
    positions = next(
        (each for n, each in enumerate(code.co_positions()) if n == step.tb_lasti // 2), (None, None, None, None)
    )
    first, last, start, end = positions
    if first is None or last is None or start is None or end is None:
        return None
    lines = [linecache.getline(code.co_filename, n).rstrip("\n").encode() for n in range(first, last + 1)]
    if not lines or not lines[0]:
        return None
    whole = lines[0].decode() if first == last else ""
    cut = [*lines[:-1], lines[-1][:end]]
    cut[0] = cut[0][start:]
    return _Expression(step.tb_frame, b"\n".join(cut).decode(), whole, len(lines[0][:start].decode()))


def _values(tree: ast.AST, frame: FrameType) -> Iterator[tuple[ast.expr, Any]]:
    """Yield the names and attributes in an expression, with values; a module that is called, not its class."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.Name | ast.Attribute):
            yield from _values(node, frame)
            continue
        value = _value(node, frame)
        if value is _MISSING or isinstance(value, _NOT_SHOWN) or (callable(value) and not isinstance(value, nn.Module)):
            if isinstance(node, ast.Attribute):
                yield from _values(node, frame)
        elif ast.unparse(node) != "self":
            yield node, value


def _value(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of a name or an attribute, without running code of the user's."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id, _MISSING))
    if not isinstance(node, ast.Attribute):
        return _MISSING
    owner = _value(node.value, frame)
    if owner is _MISSING:
        return _MISSING
    value = inspect.getattr_static(owner, node.attr, _MISSING)
    if value is _MISSING and isinstance(owner, nn.Module):
        for known in (owner._parameters, owner._buffers, owner._modules):
            if node.attr in known:
                return known[node.attr]
    return _MISSING if hasattr(type(value), "__get__") and not callable(value) else value


def _describe(value: Any) -> str:
    if isinstance(value, nn.Module):
        text = repr(value)
        text = type(value).__name__ if "\n" in text else text
    else:
        text = describe_value(value)
        if isinstance(value, torch.Tensor) and value.layout == torch.strided and not value.is_contiguous():
            text += f" with strides {list(value.stride())}, not contiguous"
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def _likely_edit(message: str, at: _Expression, values: dict[str, Any]) -> str:
    if _VIEW.search(message):
        return _with_reshape(at)
    if _FEATURES.search(message):
        return _with_features(values)
    if _DTYPES.search(message):
        return _with_dtype(values)
    return ""


def _with_reshape(at: _Expression) -> str:
    """Return the line with `.reshape(` in place of the `.view(` that failed."""
    before, view, after = at.text.rpartition(".view(")
    if not view or not at.line:
        return ".reshape(…) in place of .view(…) copies where it has to."
    edited = at.line[: at.start] + before + ".reshape(" + after + at.line[at.start + len(at.text) :]
    return f"Likely edit: {edited.strip()}"


def _with_features(values: dict[str, Any]) -> str:
    """Return how many features a linear module takes, and how many it gets."""
    linear = [(name, value) for name, value in values.items() if isinstance(value, nn.Linear)]
    tensors = [(name, value) for name, value in values.items() if isinstance(value, torch.Tensor) and value.dim()]
    if len(linear) != 1 or len(tensors) != 1:
        return ""
    (name, module), (given, tensor) = linear[0], tensors[0]
    return (
        f"{name} takes {module.in_features} features, and {given} has {tensor.shape[-1]}: "
        f"nn.Linear({tensor.shape[-1]}, {module.out_features}) would take it."
    )


def _with_dtype(values: dict[str, Any]) -> str:
    """Return a cast, if the expression has two dtypes."""
    dtypes: dict[str, torch.dtype] = {}
    for name, value in values.items():
        if isinstance(value, nn.Module):
            value = next(value.parameters(), None)
        if isinstance(value, torch.Tensor):
            dtypes[name] = value.dtype
    first = next(iter(dtypes), "")
    other = next((name for name in dtypes if dtypes[name] != dtypes[first]), "")
    module = next((name for name in (first, other) if isinstance(values.get(name), nn.Module)), "")
    if not other:
        return ""
    cast, to = (other, first) if module == first else (first, other)
    return f"Likely edit: {cast}.to({dtypes[to]}), since {to} is {dtypes[to]} and {cast} is {dtypes[cast]}."
