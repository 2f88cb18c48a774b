"""Calls that Dynamo does not trace, and values that Python reads out of tensors, replaced by what it does trace."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcexplore.fixes.eager_only import scalar_flag_fixes
from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.syntax_source import Edit, SyntaxSource

TORCH_NAMES = {
    **{name: name for name in (
        "abs", "sin", "cos", "tan", "exp", "log", "log2", "log10", "log1p", "expm1", "sqrt", "square", "tanh", "sinh",
        "cosh", "arctan2", "arcsin", "arccos", "arctan", "floor", "ceil", "sign", "sum", "mean", "prod", "where",
        "maximum", "minimum", "clip", "cumsum", "isnan", "isfinite", "isinf", "matmul", "dot", "outer", "median",
    )},
    "power": "pow", "linalg.norm": "linalg.norm", "linalg.svd": "linalg.svd", "linalg.inv": "linalg.inv",
    "linalg.det": "linalg.det", "linalg.solve": "linalg.solve", "concatenate": "cat", "stack": "stack",
    "absolute": "abs", "max": "amax", "min": "amin",
}  # fmt: skip
"""torch's names by NumPy's, for functions with the same arguments."""

_TO_NUMPY = frozenset({"numpy", "cpu", "detach"})


def numpy_fixes(site: Site) -> Iterator[Fix]:
    """Call torch's function on the tensor itself."""
    source, torch = site.source, site.source.torch
    for call in (n for n in ast.walk(site.statement) if isinstance(n, ast.Call)):
        name = source.dotted(call.func).removeprefix("numpy.")
        if (
            torch is None
            or not source.dotted(call.func).startswith("numpy.")
            or name not in TORCH_NAMES
            or call.keywords
        ):
            continue
        arguments = [_tensor(source, argument) for argument in call.args]
        if not any(inner for _, inner in arguments):
            continue
        new_text = f"{torch}.{TORCH_NAMES[name]}({', '.join(text for text, _ in arguments)})"
        outer = _conversion(site, call)
        whole = outer or call
        yield Fix(
            f"torch.{TORCH_NAMES[name]}",
            "torch's function takes the tensor directly.",
            (Edit(source.start(whole), source.end(whole), new_text),),
            () if outer else ("The result is a tensor instead of a NumPy array.",),
        )
        return


def _tensor(source: SyntaxSource, node: ast.expr) -> tuple[str, bool]:
    """Return an argument without its conversion to NumPy, and whether it had one."""
    inner, converted = node, False
    while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in _TO_NUMPY:
        converted = converted or inner.func.attr == "numpy"
        inner = inner.func.value
    return (f"{source.of(inner)}.detach()", True) if converted else (source.of(node), False)


def _conversion(site: Site, call: ast.Call) -> ast.Call | None:
    """Return the call that converts the result back to a tensor, or to a number."""
    conversions = ("torch.from_numpy", "torch.as_tensor", "float")
    return next(
        (
            outer
            for outer in ast.walk(site.statement)
            if isinstance(outer, ast.Call) and outer.args == [call] and site.source.dotted(outer.func) in conversions
        ),
        None,
    )


# ---- copies


def copy_fixes(site: Site) -> Iterator[Fix]:
    """Use `detach().clone()`, the equivalent of `copy.deepcopy` for a tensor."""
    source = site.source
    for call in (n for n in ast.walk(site.statement) if isinstance(n, ast.Call)):
        if source.dotted(call.func) == "copy.deepcopy" and len(call.args) == 1 and not call.keywords:
            tensor = source.of(call.args[0])
            whole = tensor if isinstance(call.args[0], ast.Name | ast.Attribute | ast.Call) else f"({tensor})"
            yield Fix(
                "detach().clone()",
                "The tensor is copied by an op of the graph.",
                (Edit(source.start(call), source.end(call), f"{whole}.detach().clone()"),),
                ("The copy of a tensor with requires_grad does not require a gradient.",),
            )
            return


# ---- random numbers


_RANDOM, _EQUIVALENT = "random.random", "uniform(0.0, 1.0)"


def random_fixes(site: Site) -> Iterator[Fix]:
    """Use `random.uniform(0.0, 1.0)`, which Dynamo traces and which returns the same number."""
    source = site.source
    calls = [n for n in ast.walk(site.statement) if isinstance(n, ast.Call) and source.dotted(n.func) == _RANDOM]
    owners = [(call.func.value, call) for call in calls if isinstance(call.func, ast.Attribute) and not call.args]
    edits = [Edit(source.end(owner), source.end(call), f".{_EQUIVALENT}") for owner, call in owners]
    if edits:
        yield Fix(
            "random.uniform(0.0, 1.0)",
            "It returns the same number as random.random(), and Dynamo traces it.",
            tuple(edits),
        )


CONVERSIONS = {"float": ".detach()", "bool": ""}


KEPT = "keep it a tensor"
"""Name of the fix that leaves out the conversion to a number."""


def scalar_fixes(site: Site) -> Iterator[Fix]:
    """Keep the tensor, or let Dynamo use a symbol for the number."""
    edits = [
        edit for node in ast.walk(site.statement) if isinstance(node, ast.Call) for edit in _tensor_edits(site, node)
    ]
    if edits and not _controls(site.statement):
        yield Fix(
            KEPT,
            "The value stays a tensor with one element; still no gradient flows through it.",
            tuple(edits),
            ("Arithmetic uses the tensor's dtype instead of Python's float64.",),
        )
    yield from scalar_flag_fixes(site)


def _controls(statement: ast.stmt) -> bool:
    """Return whether a branch, a loop or the result depends on the number."""
    return isinstance(statement, ast.If | ast.While | ast.For | ast.Return) and not isinstance(
        getattr(statement, "value", None), ast.BinOp
    )


def _tensor_edits(site: Site, call: ast.Call) -> Iterator[Edit]:
    """Yield edits that keep the tensor instead of its number.

    Only computed values qualify: a view of another tensor could be written to later.
    """
    source, function = site.source, call.func
    if isinstance(function, ast.Attribute) and function.attr == "item" and not call.args:
        if _computed(function.value):
            yield Edit(source.end(function.value), source.end(call), ".detach()")
    elif isinstance(function, ast.Name) and function.id in CONVERSIONS and len(call.args) == 1 and not call.keywords:
        inner = call.args[0]
        if _computed(inner) and not _is_item(inner):
            whole = source.of(inner) if isinstance(inner, ast.Call) else f"({source.of(inner)})"
            yield Edit(source.start(call), source.end(call), f"{whole}{CONVERSIONS[function.id]}")


def _is_item(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item"


def _computed(node: ast.expr) -> bool:
    return isinstance(node, ast.Call | ast.BinOp | ast.Compare)


# ---- lists


def list_fixes(site: Site) -> Iterator[Fix]:
    """Use a list of one-element tensors, or symbols."""
    source = site.source
    calls = [n for n in ast.walk(site.statement) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    for call in calls:
        assert isinstance(call.func, ast.Attribute)
        if call.func.attr == "tolist" and not call.args:
            tensor = call.func.value
            edits = (
                Edit(source.start(call), source.start(call), "list("),
                Edit(source.end(tensor), source.end(call), ".detach().unbind())"),
            )
            yield Fix(
                "a list of tensors",
                "The list holds tensors with one element each, instead of numbers.",
                edits,
                ("The tensor must have one dimension: nested lists stay different.",),
            )
            break
    yield from scalar_flag_fixes(site)


# ---- writes to .data


def data_write_fixes(site: Site) -> Iterator[Fix]:
    """Use `detach().copy_(...)`: the values change, the memory stays."""
    source = site.source
    match site.statement:
        case ast.Assign(targets=[ast.Attribute(attr="data", value=owner) as target], value=value):
            edits = (
                Edit(source.end(owner), source.end(target), ".detach().copy_("),
                Edit(source.end(target), source.start(value), ""),
                Edit(source.end(value), source.end(value), ")"),
            )
        case ast.AugAssign(target=ast.Attribute(attr="data", value=owner) as target, op=op, value=value) if _IN_PLACE.get(type(op)):  # fmt: skip # noqa: E501
            edits = (
                Edit(source.end(owner), source.end(target), f".detach().{_IN_PLACE[type(op)]}("),
                Edit(source.end(target), source.start(value), ""),
                Edit(source.end(value), source.end(value), ")"),
            )
        case _:
            return
    yield Fix(
        "write in place",
        "An op of the graph writes the new values into the tensor.",
        edits,
        ("The tensor keeps its memory: tensors that share it see the new values, and the shape must stay.",),
    )


_IN_PLACE: dict[type[ast.operator], str] = {ast.Mult: "mul_", ast.Add: "add_", ast.Sub: "sub_", ast.Div: "div_"}
