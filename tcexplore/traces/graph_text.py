"""The graphs that torch prints as text, with their subgraphs, and the statements of their nodes."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from sys import intern
from typing import NamedTuple

from tcexplore.events import FxNode, Location, Subgraph
from tcexplore.torch_text.guard_text import ARITHMETIC

CALLS = ("call_function", "call_method", "call_module")

_PARAMETER = re.compile(r'(\w+)(?:\s*:\s*"([^"]*)")?\s*(?:=[^,]*)?,?')
_PLACE = re.compile(r"^\s*#(?:.*?\s)?File: (.+?):(\d+) in (\S+), code: ?(.*)$")
_STATEMENT = re.compile(r'^(\w+)(?:\s*:\s*"([^"]*)")? = (.*)$', re.S)
_DECLARED = re.compile(r'(\w+): "([^"]*)"\s*(?:;\s*|#.*|$)')
_RENAME = re.compile(r"^(\w+) = (\w+)$")
_IN_PLACE = re.compile(r"^(\w+)(?:\s*:\s*\"([^\"]*)\")? = (\w+)$")
_AUGMENTED = re.compile(r"^(\w+) ([-+*/@%&|^]|//|\*\*|<<|>>)= (.*)$", re.S)
_TENSOR = re.compile(r"^([a-z]+\d+\w*|b8)\[([^\]]*)\](?:\[([^\]]*)\])?(\S*)$")
_OUTPUT_COMMENT = re.compile(r"\s+# \w+(?:\(.*)?$")
_JOINT_OUTPUT = re.compile(r"^pytree\.tree_unflatten\((\[.*\]), self\._out_spec\)$")
_SUBCLASS = re.compile(r"^([A-Za-z_]\w*)\((.+)\)$")
"""A tensor subclass: `NestedTensor(f32[2, s27, 4][4*s27, 4, 1]cpu)`, whose strides are not meaningful."""
_AUGMENTED_NAMES = {
    "+": "iadd", "-": "isub", "*": "imul", "/": "itruediv", "//": "ifloordiv", "%": "imod", "@": "imatmul",
    "&": "iand", "|": "ior", "^": "ixor", "**": "ipow", "<<": "ilshift", ">>": "irshift",
}  # fmt: skip

Place = Callable[[str, int, str, str], Location | None]
"""Returns the user's location of a line: file, line, function, code; None if it is not the user's."""


class Tensor(NamedTuple):
    """A value as torch annotates it: `f32[4, 64][64, 1]cuda:0`."""

    dtype: str
    shape: tuple[str, ...]
    stride: tuple[str, ...] | None
    device: str | None


@lru_cache(maxsize=4096)  # the layers of a model have equal ones
def read_tensor(annotation: str | None) -> Tensor | None:
    """Return the tensor of an annotation, None for any other value."""
    match = _TENSOR.match(annotation or "")
    if match is None:
        inner = _SUBCLASS.match(annotation or "")
        if inner is None:
            return None
        tensor = read_tensor(inner[2])
        return tensor._replace(stride=None) if tensor and inner[1] == "NestedTensor" else tensor
    stride = None if match[3] is None else _sizes(match[3])
    return Tensor(match[1], _sizes(match[2]), stride, match[4] or None)


def _sizes(text: str) -> tuple[str, ...]:
    """Split at the commas between sizes; a size may be `Max(1, s0)`."""
    sizes: list[str] = []
    for part in text.split(",") if text.strip() else ():
        if sizes and sizes[-1].count("(") > sizes[-1].count(")"):
            sizes[-1] += f",{part}"
        else:
            sizes.append(part)
    return tuple(size.strip() for size in sizes)


def read_graph(text: str, place: Place, names: dict[str, str] | None = None) -> tuple[FxNode, ...]:
    """Return the nodes of the outermost graph in a text; `names` are readable names of inputs."""
    lines = text.split("\n")
    start = next((n for n, line in enumerate(lines) if re.match(r"\s*def forward\(", line)), None)
    if start is None:
        return ()
    end = next((n for n in range(start, len(lines)) if _ends_signature(lines[n])), start)
    reader = _GraphReader(place, names or {})
    reader.add_inputs(_signature(lines[start : end + 1]))
    for line in lines[end + 1 :]:
        if reader.add_line(line):
            break
    return tuple(reader.nodes.values())


def name_sizes(nodes: tuple[FxNode, ...]) -> tuple[FxNode, ...]:
    """Name the inputs that are sizes of other inputs: torch names no source of an unbacked symbol."""
    inputs = [node for node in nodes if node.op == "placeholder"]
    sizes = {
        size: f"{node.target}.size()[{dim}]" for node in reversed(inputs) for dim, size in enumerate(node.shape or ())
    }
    return tuple(
        replace(node, target=sizes[node.target]) if node.op == "placeholder" and node.target in sizes else node
        for node in nodes
    )


def _ends_signature(line: str) -> bool:
    return re.search(r"\)(?: -> [^:]*)?:\s*(?:#.*)?$", line) is not None


def _signature(lines: list[str]) -> Iterator[tuple[str, str | None]]:
    joined = " ".join(re.sub(r"\s# .*$", "", line) for line in lines)
    inside = joined[joined.index("(") + 1 : joined.rindex(")")]
    for match in _PARAMETER.finditer(inside):
        if match[1] != "self":
            yield match[1], match[2]


class _GraphReader:
    """Reads the body of a graph line by line."""

    def __init__(self, place: Place, names: dict[str, str]) -> None:
        self._place = place
        self._names = names
        self.nodes: dict[str, FxNode] = {}
        self._stack: tuple[Location, ...] = ()
        """The line that the next statements come from, one object for all of them."""
        self._indent = 0
        self._returned: list[str] = []
        """The lines of a `return` statement that spans lines."""
        self._declared: list[tuple[str, str | None]] = []
        """Inputs of a joint graph, which are parts of its parameters."""

    def add_inputs(self, inputs: Iterable[tuple[str, str | None]]) -> None:
        for name, annotation in inputs:
            self._add(name, Expression("placeholder", self._readable(name), "", ()), annotation, ())

    def _readable(self, name: str) -> str:
        """Return the readable name of an input; torch describes no source of a gradient, but that of its tensor."""
        tensor = self._names.get(name.removesuffix("grad")) if name.endswith("_grad") else None
        return self._names.get(name) or (f"{tensor}.grad" if tensor else name)

    def add_line(self, line: str) -> bool:
        """Add a line; return whether it ends the graph."""
        code = line.strip()
        if not code:
            return False
        if code.startswith("#"):
            self._comment(line)
            return False
        indent = len(line) - len(line.lstrip())
        self._indent = self._indent or indent
        if indent < self._indent:
            return True
        if code.startswith("return ") or self._returned:
            return self._return(code)
        if _DECLARED.match(code):
            self._declared += [(match[1], match[2]) for match in _DECLARED.finditer(code)]
        elif "tree_flatten_spec" in code:
            self.nodes.clear()
            self.add_inputs(self._declared)
        else:
            self._statement(code)
        return False

    def _return(self, code: str) -> bool:
        """Add a line of the `return` statement; return whether it is the last one. torch comments on single outputs."""
        self._returned.append(_OUTPUT_COMMENT.sub("", code))
        text = _JOINT_OUTPUT.sub(r"\1", " ".join(self._returned).removeprefix("return "))
        if text.endswith(("(", "[", "{", ",")):
            return False
        value = re.sub(r"(?<=[(\[{]) | (?=[)\]}])", "", text)
        inputs = read_expression(value, self.nodes).inputs
        self._add(self._output_name(), Expression("output", "output", _returned(value), inputs), None, ())
        return True

    def _output_name(self) -> str:
        """Return the name of the output node, which torch does not print; a value may be named `output` too."""
        names = ("output", *(f"output_{number}" for number in range(1, len(self.nodes) + 1)))
        return next(name for name in names if name not in self.nodes)

    def _comment(self, line: str) -> None:
        match = _PLACE.match(line)
        if match is not None:
            location = self._place(match[1], int(match[2]), match[3], match[4])
            self._stack = () if location is None else (location,)
        elif "No stacktrace" in line:
            self._stack = ()

    def _statement(self, code: str) -> None:
        parts = [part for part in code.split(";  ") if not part.rstrip().endswith("= None")] or [code]
        first = _STATEMENT.match(parts[0])
        rename = _RENAME.match(parts[0]) if len(parts) == 1 else None
        if rename and rename[2] in self.nodes and self.nodes[rename[2]].op == "placeholder":
            self._rename(rename[2], rename[1])
        elif len(parts) > 1 and (assigned := _IN_PLACE.match(parts[1])):
            self._in_place(parts[0], assigned)
        elif first is not None and first[1].isidentifier():
            self._add(first[1], read_expression(first[3], self.nodes), first[2], self._stack)

    def _in_place(self, code: str, assigned: re.Match[str]) -> None:
        """Add `x += y;  iadd = x` or `x[i] = y;  setitem = x`."""
        augmented = _AUGMENTED.match(code)
        if augmented:
            operand = read_expression(f"f({augmented[1]}, {augmented[3]})", self.nodes)
            self._add(assigned[1], operand._replace(target=_AUGMENTED_NAMES[augmented[2]]), assigned[2], self._stack)
            return
        target, _, value = code.partition(" = ")
        item = read_expression(target, self.nodes)
        rest = read_expression(f"f({value})", self.nodes)
        inputs = tuple(dict.fromkeys((*item.inputs, *rest.inputs)))
        expression = Expression("call_function", "setitem", f"{item.args}, {rest.args}", inputs)
        self._add(assigned[1], expression, assigned[2], self._stack)

    def _rename(self, old: str, new: str) -> None:
        """Rename an input: Dynamo's parameters have other names than the nodes."""
        renamed = {new if name == old else name: node for name, node in self.nodes.items()}
        node = renamed[new]
        fields = {name: getattr(node, name) for name in ("target", "dtype", "shape", "stride", "contiguous", "device")}
        renamed[new] = FxNode(name=new, op="placeholder", **fields)
        self.nodes = renamed

    def _add(self, name: str, expression: Expression, annotation: str | None, stack: tuple[Location, ...]) -> None:
        if stack and expression.target.endswith("getitem"):
            self._place_result(expression.inputs, stack)
        tensor = read_tensor(annotation)
        name = intern(name)  # as a part of the text, each of a million names would be a string of its own
        self.nodes[name] = FxNode(
            name=name,
            op=expression.op,
            target=intern(expression.target),
            args=expression.args,
            inputs=tuple(map(intern, expression.inputs)),
            dtype=tensor.dtype if tensor else None,
            shape=tensor.shape if tensor else None,
            stride=tensor.stride if tensor else None,
            contiguous=tensor is None or tensor.stride is None or is_contiguous(tensor.shape, tensor.stride),
            device=tensor.device if tensor else None,
            location=stack[0] if stack else None,
            stack=stack,
        )

    def _place_result(self, names: tuple[str, ...], stack: tuple[Location, ...]) -> None:
        """Give a call without a line the one of what is taken from its result: torch loses it for `rng_state` ops."""
        call = self.nodes.get(names[0]) if names else None
        if call is not None and call.op == "call_function" and call.location is None:
            self.nodes[call.name] = replace(call, location=stack[0], stack=stack)


def _returned(code: str) -> str:
    return read_expression(f"f({code})", ()).args


@lru_cache(maxsize=4096)
def is_contiguous(shape: tuple[str, ...], stride: tuple[str, ...]) -> bool:
    """Return whether the strides are those of a dense row-major tensor. Symbols stand for different primes."""
    values: dict[str, int] = {}
    expected = 1
    for size_text, step_text in reversed(list(zip(shape, stride, strict=False))):
        size, step = _evaluate(size_text, values), _evaluate(step_text, values)
        if size is None or step is None:
            return True
        if size == 0:
            return True
        if size != 1 and step != expected:
            return False
        expected *= size
    return True


_FUNCTIONS: dict[str, Callable[[Iterable[int]], int]] = {"Max": max, "Min": min}
_PRIMES = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049, 1051, 1061, 1063, 1069)


def _evaluate(text: str, values: dict[str, int]) -> int | None:
    if text.isdecimal():
        return int(text)
    try:
        return _value(ast.parse(text, mode="eval").body, values)
    except (SyntaxError, ValueError, ArithmeticError, LookupError, RecursionError):
        return None


def _value(tree: ast.expr, values: dict[str, int]) -> int:
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return tree.value
    if isinstance(tree, ast.Name):
        return values.setdefault(tree.id, _PRIMES[len(values)])
    if isinstance(tree, ast.BinOp):
        return ARITHMETIC[type(tree.op)](_value(tree.left, values), _value(tree.right, values))
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        return _FUNCTIONS[tree.func.id](_value(argument, values) for argument in tree.args)
    raise ValueError(ast.dump(tree))


_CLASS = re.compile(r"^(\s*)class (\S+)\(torch\.nn\.Module\):")


@dataclass(slots=True)
class _PrintedClass:
    """A printed class, with the classes nested in it."""

    name: str
    indent: int
    lines: list[str] = field(default_factory=list)
    children: dict[str, _PrintedClass] = field(default_factory=dict)


def read_subgraphs(text: str, nodes: tuple[FxNode, ...], place: Place) -> tuple[Subgraph, ...]:
    """Return the subgraphs of a graph with these nodes, in the order in which they are first run."""
    if text.count("(torch.nn.Module):") < 2:
        return ()
    root = _classes(text)
    return tuple(_below(root, nodes, "", place)) if root is not None else ()


def _classes(text: str) -> _PrintedClass | None:
    root: _PrintedClass | None = None
    stack: list[_PrintedClass] = []
    for line in text.split("\n"):
        match = _CLASS.match(line)
        if match is None:
            if stack:
                stack[-1].lines.append(line)
            continue
        printed = _PrintedClass(match[2], len(match[1]))
        while stack and stack[-1].indent >= printed.indent:
            stack.pop()
        if stack:
            stack[-1].children[printed.name] = printed
        elif root is None:
            root = printed
        else:
            break
        stack.append(printed)
    return root


def _below(printed: _PrintedClass, nodes: tuple[FxNode, ...], path: str, place: Place) -> Iterator[Subgraph]:
    attributes = {node.name: node.target for node in nodes if node.op == "get_attr" and node.target in printed.children}
    seen: set[str] = set()
    for node in nodes:
        for name in node.inputs:
            attribute = attributes.get(name)
            if attribute is None or attribute in seen:
                continue
            seen.add(attribute)
            child = printed.children[attribute]
            inner = f"{path}.{attribute}" if path else attribute
            own = read_graph("\n".join(child.lines), place)
            yield Subgraph(
                name=inner,
                node=f"{path}.{node.name}" if path else node.name,
                nodes=tuple(_renamed(node, inner) for node in own),
            )
            yield from _below(child, own, inner, place)


def _renamed(node: FxNode, path: str) -> FxNode:
    return replace(node, name=f"{path}.{node.name}", inputs=tuple(f"{path}.{name}" for name in node.inputs))


MAX_VALUE_LENGTH = 60
MAX_ITEMS = 16

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitAnd: "and_",
    ast.BitOr: "or_", ast.BitXor: "xor", ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt",
    ast.GtE: "ge", ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert", ast.Not: "not_",
}  # fmt: skip
"""Functions of the module `operator`."""

_PREFIXES = (
    ("torch.ops.", ""),
    ("torch.functional.", "torch."),
    ("torch__dynamo_utils_", "torch._dynamo.utils."),
    ("torch__dynamo_variables_builtin_", "torch._dynamo.variables.builtin."),
    ("torch_Tensor_", "torch.Tensor."),
    ("_operator.", ""),
    ("_operator_", ""),
    ("operator.", ""),
)
"""Beginnings of printed names, with those of the public names."""

_ALIASED = re.compile(
    r"^torch\.(conv(?:_transpose)?[123]d|conv_tbc|avg_pool1d|adaptive_avg_pool1d|pixel_(?:un)?shuffle|channel_shuffle"
    r"|native_channel_shuffle|prelu|bilinear|pairwise_distance|cosine_similarity|pdist|hardshrink|logsigmoid)$"
)
"""Builtins of `torch` that `torch.nn.functional` has under the same name."""

_FUNCTIONAL = re.compile(
    r"^torch\._C\._nn\.((?!_?upsample_|col2im|im2col|cross_entropy_loss|nll_loss_nd|log_sigmoid)\w+)$"
)
"""Builtins of `torch._C._nn` that `torch.nn.functional` has under the same name."""


class Expression(NamedTuple):
    """The right side of a statement."""

    op: str
    """FX opcode."""
    target: str
    args: str
    inputs: tuple[str, ...]


def read_expression(code: str, nodes: Collection[str]) -> Expression:
    """Return the node that an expression computes; `nodes` are the names of the earlier nodes."""
    if (simple := _SIMPLE_CALL.match(code)) and "torch" not in nodes:
        args = _KEYWORD_EQUALS.sub("=", simple[2])
        return Expression("call_function", _public(simple[1]), args, _distinct(_NAME.findall(args), nodes))
    try:
        tree = _parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        inputs = tuple(dict.fromkeys(name for name in re.findall(r"[A-Za-z_]\w*", code) if name in nodes))
        target = code.partition("(")[0].strip()
        return Expression("call_function", _public(target), code[len(target) + 1 :].removesuffix(")"), inputs)
    return Expression(*_read(tree, nodes), tuple(dict.fromkeys(_names_in(code, tree, nodes))))


_ITEM = r"(?:-?\d{1,20}(?:\.\d{1,20})?(?:e[-+]\d{1,3})?|(?!Ellipsis\b|torch\.ops\.)[A-Za-z_][\w.]*)"
_SIMPLE_ARGUMENT = rf"(?:\w+ = )?(?:{_ITEM}|\[(?:{_ITEM}(?:, {_ITEM}){{0,{MAX_ITEMS - 1}}})?\])"
_SIMPLE_CALL = re.compile(rf"(torch(?:\.\w+)+)\(((?:{_SIMPLE_ARGUMENT}(?:, {_SIMPLE_ARGUMENT})*)?)\)$")
"""A call of which the text of the arguments is already in the form of `_text`, as that of most ATen ops."""
_KEYWORD_EQUALS = re.compile(r"(?<=\w) = ")


def _distinct(names: Iterable[str], nodes: Collection[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name in nodes))


@lru_cache(maxsize=4096)
def _parse(code: str) -> ast.expr:
    return ast.parse(code, mode="eval").body


_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*\b(?!\s*=(?!=))")
"""A name that is neither an attribute nor that of a keyword."""


def _names_in(code: str, tree: ast.AST, nodes: Collection[str]) -> list[str]:
    """Return the names of nodes in the order of the text, which is searched unless it may have them in a string."""
    if "'" in code or '"' in code:
        return _in_order(tree, nodes)
    return [name for name in _NAME.findall(code) if name in nodes]


def _in_order(tree: ast.AST, nodes: Collection[str]) -> list[str]:
    """Return the names of nodes in the order of the text."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in nodes]
    return [name.id for name in sorted(names, key=lambda name: (name.lineno, name.col_offset))]


def _read(tree: ast.expr, nodes: Collection[str]) -> tuple[str, str, str]:
    if isinstance(tree, ast.Call):
        return _call(tree, nodes)
    if isinstance(tree, ast.Subscript):
        return "call_function", "getitem", _join(tree.value, tree.slice)
    if isinstance(tree, ast.BinOp):
        return "call_function", _OPERATORS[type(tree.op)], _join(tree.left, tree.right)
    if isinstance(tree, ast.Compare):
        return "call_function", _OPERATORS.get(type(tree.ops[0]), "compare"), _join(tree.left, *tree.comparators)
    if isinstance(tree, ast.UnaryOp):
        return "call_function", _OPERATORS[type(tree.op)], _join(tree.operand)
    if isinstance(tree, ast.Attribute):
        root = _root(tree)
        if root in nodes:
            return "call_function", "getattr", f"{_text(tree.value)}, '{tree.attr}'"
        return "get_attr", ast.unparse(tree).removeprefix("self."), ""
    return "call_function", ast.unparse(tree), ""


def _call(tree: ast.Call, nodes: Collection[str]) -> tuple[str, str, str]:
    keywords = [f"{word.arg}={_text(word.value)}" for word in tree.keywords]
    args = [_text(arg) for arg in tree.args]
    function = tree.func
    root = _root(function)
    if isinstance(function, ast.Attribute) and root in nodes:
        return "call_method", function.attr, ", ".join([_text(function.value), *args, *keywords])
    name = _dotted(function)
    if root == "self":
        return "call_module", name.removeprefix("self."), ", ".join([*args, *keywords])
    return "call_function", _public(name), ", ".join([*args, *keywords])


def _root(tree: ast.expr) -> str:
    while isinstance(tree, ast.Attribute | ast.Call | ast.Subscript):
        tree = tree.func if isinstance(tree, ast.Call) else tree.value
    return tree.id if isinstance(tree, ast.Name) else ""


def _dotted(tree: ast.expr) -> str:
    """Return a name with its attributes as text."""
    parts: list[str] = []
    inner = tree
    while isinstance(inner, ast.Attribute):
        parts.append(inner.attr)
        inner = inner.value
    if not isinstance(inner, ast.Name):
        return ast.unparse(tree)
    return ".".join([inner.id, *reversed(parts)])


def _public(name: str) -> str:
    if match := _ALIASED.match(name) or _FUNCTIONAL.match(name):
        return f"torch.nn.functional.{match[1]}"
    for prefix, public in _PREFIXES:
        if name.startswith(prefix):
            return public + name.removeprefix(prefix)
    return name


def _join(*values: ast.expr) -> str:
    return ", ".join(map(_text, values))


def _text(value: ast.expr) -> str:
    """Return one argument in the form of `capture/fx/fx_text.py`."""
    formatter = _FORMATTERS.get(type(value))
    return formatter(value) if formatter else ast.unparse(value)


def _constant(value: ast.Constant) -> str:
    text = "..." if value.value is Ellipsis else repr(value.value)
    return text if len(text) <= MAX_VALUE_LENGTH else text[: MAX_VALUE_LENGTH - 1] + "…"


def _items(values: list[ast.expr]) -> str:
    items = [_text(value) for value in values[:MAX_ITEMS]]
    return ", ".join([*items, f"… {len(values)} in all"] if len(values) > MAX_ITEMS else items)


def _tuple(value: ast.Tuple) -> str:
    return f"({_items(value.elts)}{',' if len(value.elts) == 1 else ''})"


def _dict(value: ast.Dict) -> str:
    pairs = zip(value.keys, value.values, strict=True)
    return "{" + ", ".join(f"{_text(key)}: {_text(item)}" for key, item in pairs if key is not None) + "}"


def _builtin_call(value: ast.Call) -> str:
    """Return a slice as `1:2`, a device as `cuda:0`, a complex number as `1j`, any other call as it is."""
    name = _dotted(value.func)
    if name == "complex" and len(value.args) == 2:
        with suppress(ValueError):
            return repr(complex(*(float(ast.unparse(part)) for part in value.args)))
    if name == "slice" and 2 <= len(value.args) <= 3:
        start, stop, *step = ("" if _is_none(arg) else _text(arg) for arg in value.args)
        return f"{start}:{stop}" + (f":{step[0]}" if step and step[0] else "")
    if name in ("device", "torch.device"):
        words = {word.arg: word.value for word in value.keywords}
        kind = words.get("type") or (value.args[0] if value.args else None)
        index = words.get("index")
        if isinstance(kind, ast.Constant) and isinstance(kind.value, str):
            return kind.value + (f":{_text(index)}" if index is not None else "")
    return ast.unparse(value)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


_FORMATTERS: dict[type[ast.AST], Callable[..., str]] = {
    ast.Constant: _constant,
    ast.Name: lambda value: "..." if value.id == "Ellipsis" else value.id,
    ast.Attribute: lambda value: _dotted(value).removeprefix("torch.ops."),
    ast.Tuple: _tuple,
    ast.List: lambda value: f"[{_items(value.elts)}]",
    ast.Dict: _dict,
    ast.Call: _builtin_call,
}
