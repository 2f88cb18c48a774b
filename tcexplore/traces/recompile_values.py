"""The value that failed a guard: torch's message has it for tensors only, the guards of the new graph for others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tcexplore import events as ev
from tcexplore.torch_text.dynamo_names import describe_carried, readable_source
from tcexplore.torch_text.failure_causes import ComparedValues, cause_of_values, kind_of_check
from tcexplore.torch_text.guard_text import ARITHMETIC, compare_code, is_constant, required_value

_SIZES = re.compile(r"size=\[(.*?)\], stride=\[(.*?)\]")
_TENSOR_CLASS = re.compile(r"^check_tensor\(.+?, (\w+), DispatchKeySet\(")
_SYMBOL = re.compile(r"\bs\d+\b")
_WRITTEN_AS_VALUES = frozenset({
    "bool", "int", "float", "complex", "str", "bytes", "NoneType", "type", "function", "code", "method", "Tensor",
    "Parameter", "builtin_function_or_method",
})  # fmt: skip
"""Classes of objects that are shown by their value or their name."""
_TYPE_CHECK = re.compile(r"^___check_type_id\(")


class RecompileValues:
    """Recompiles whose compiles are running; later records complete them."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[tuple[ev.Recompiled, str]]] = {}

    def add(self, recompile: ev.Recompiled, code: str) -> None:
        """Keep a recompile, with the code of the failed guard."""
        self._waiting.setdefault(recompile.graph, []).append((recompile, code))

    def complete(self, graph: str, guards: Iterable[ev.Guard], symbols: Iterable[ev.Symbol]) -> list[ev.Recompiled]:
        """Return the recompiles of a graph, those whose value is known from its guards or symbols."""
        waiting = [(recompile, code) for recompile, code in self._waiting.pop(graph, ()) if not recompile.new]
        values = _values_of_call(guards, symbols) if waiting else {}
        completed = (_complete(recompile, code, values) for recompile, code in waiting)
        return [recompile for recompile in completed if recompile is not None]

    def at_limit(self, graph: str) -> list[ev.Recompiled]:
        """Return the recompiles of a graph that was not compiled because its frame has reached the limit."""
        return [
            replace(recompile, limit_hit=True, entry_count=(recompile.entry_count or 1) - 1)
            for recompile, _ in self._waiting.pop(graph, ())
        ]

    def drop(self, graph: str) -> None:
        """Forget a compile that is over."""
        self._waiting.pop(graph, None)


def _values_of_call(guards: Iterable[ev.Guard], symbols: Iterable[ev.Symbol]) -> dict[str, str]:
    """Return the values that a graph was compiled for, by their readable names."""
    values: dict[str, str] = {}
    hints = {symbol.name: symbol.hint for symbol in symbols}
    for symbol in symbols:
        for source in symbol.sources:
            values[source.expression] = symbol.hint
    for guard in guards:
        for code in guard.code:
            required = required_value(code)
            if required is not None:
                if _TYPE_CHECK.match(code):
                    values[_type_of(required.name)] = required.old
                else:
                    values[required.name] = required.old
                    values.setdefault(_type_of(required.name), _type_of_literal(required.old))
        if guard.summary == "is empty":
            values[f"len({guard.name})"] = "0"
        if guard.kind == "TENSOR_MATCH" and guard.code:
            values[guard.name] = _SYMBOL.sub(lambda match: hints.get(match[0], match[0]), guard.summary)
            values.update(_sizes(guard.name, guard.code[0]))
            if tensor_class := _TENSOR_CLASS.match(guard.code[0]):
                values.setdefault(_type_of(guard.name), tensor_class[1])
    return values


def _sizes(name: str, code: str) -> dict[str, str]:
    """Return the static sizes and strides of a tensor; torch prints a dynamic one as None."""
    match = _SIZES.search(code)
    parts = {"size": match[1], "stride": match[2]} if match else {}
    return {
        f"{name}.{kind}()[{dim}]": number.strip()
        for kind, numbers in parts.items()
        for dim, number in enumerate(numbers.split(","))
        if number.strip().isdecimal()
    }


def _type_of_literal(text: str) -> str:
    try:
        return type(ast.literal_eval(text)).__name__
    except (ValueError, SyntaxError, RecursionError):
        return ""


def _type_of(name: str) -> str:
    return f"type of {name}"


def _complete(recompile: ev.Recompiled, code: str, values: dict[str, str]) -> ev.Recompiled | None:
    compared = compare_code(code)
    new = _new_value(code, compared, values)
    if not new:
        return None
    compared = compared._replace(new=new)
    cause = cause_of_values(compared, readable_source(code))._replace(kind=kind_of_check(code, compared))
    return replace(
        recompile,
        name=cause.name,
        old=cause.old,
        new=cause.new,
        reason=describe_carried(cause.reason),
        kind=cause.kind,
        dim=cause.dim,
    )


def _new_value(code: str, compared: ComparedValues, values: dict[str, str]) -> str:
    """Return the value of the compared expression; of several, all or none."""
    if _TYPE_CHECK.match(code):
        return values.get(_type_of(compared.name), "")
    try:
        tree = ast.parse(readable_source(code).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return values.get(compared.name, "")
    if not isinstance(tree, ast.Compare):
        return values.get(compared.name, "")
    varying = [side for side in (tree.left, *tree.comparators) if not is_constant(side)]
    texts = [_evaluate(side, values) for side in varying]
    return " and ".join(texts) if all(texts) else ""


def _object(name: str, values: Mapping[str, str]) -> str:
    """Return a tuple of known values, or the class of an object that has no short text; empty if it is unknown."""
    kind = values.get(_type_of(name), "")
    if kind == "tuple":
        count = values.get(f"len({name})", "")
        items = [values.get(f"{name}[{number}]", "") for number in range(int(count) if count.isdecimal() else 0)]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})" if items and all(items) else ""
    return "" if kind in _WRITTEN_AS_VALUES or not kind else f"<{kind}>"


def _evaluate(expression: ast.expr, values: dict[str, str]) -> str:
    """Return the value of a name, or of an integer expression of names; empty if it is unknown."""
    name = ast.unparse(expression)
    text = values.get(name, "") or _object(name, values)
    if text or not isinstance(expression, ast.BinOp):
        return text or (ast.unparse(expression) if is_constant(expression) else "")
    function = ARITHMETIC.get(type(expression.op))
    sides = [_evaluate(side, values) for side in (expression.left, expression.right)]
    if function is None or not all(side.isdecimal() for side in sides):
        return ""
    try:
        return str(function(int(sides[0]), int(sides[1])))
    except (ArithmeticError, ValueError):
        return ""
