"""What the bytecode of a function with a graph break does, step by step.

Dynamo's bytecode calls the graph, then runs the instruction at which the graph broke, and passes what is left to a
resume function. In between it packs values into lists and unpacks them again. `bytecode_steps` runs the instructions on
expressions instead of values, so that only the calls and the stores are left, with their arguments as expressions.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from tcexplore import events as ev

BytecodeStepKind = Literal["graph", "python", "resume", "return", "branch", "other"]
"""`graph`: calls the compiled graph. `python`: an instruction of the user's line, which runs as plain Python. `resume`:
calls a resume function. `branch`: may go on at another step. `other`: what Dynamo adds."""

LONGEST = 160
"""Characters of an expression."""


class BytecodeStep(NamedTuple):
    """One step."""

    kind: BytecodeStepKind
    text: str
    """An expression or a statement: `graph_out = graph(x)`."""
    line: int | None
    """The user's line."""
    offset: int
    """Of the instruction in the bytecode."""
    resumes: ev.ResumeFunction | None = None
    """The resume function that it calls."""
    goes_to: int | None = None
    """Index of the step at which a branch may go on; None if there is no such step."""


def bytecode_steps(function: ev.FunctionRewritten) -> tuple[BytecodeStep, ...]:
    """Return the steps of a function, in the order of its bytecode."""
    return _Interpreter(function).run()


# ---- expressions


@dataclass(eq=False)
class _Text:
    """An expression that can be evaluated again."""

    text: str


@dataclass(eq=False)
class _List:
    """A list, tuple or dictionary that Dynamo builds; lists are changed in place."""

    items: list[_Value]
    brackets: str = "[]"


@dataclass(eq=False)
class _Call:
    """The result of a call, which is a step of its own until its only use takes it in."""

    text: str
    kind: BytecodeStepKind
    line: int | None
    offset: int
    resumes: ev.ResumeFunction | None = None
    name: str = ""
    """The variable that holds the result; empty for none."""
    returned: bool = False

    def __deepcopy__(self, _: Any) -> _Call:
        return self  # both ways after a branch refer to the same step

    def to_step(self, indexes: Callable[[int], int | None]) -> BytecodeStep:
        del indexes
        text = f"{self.name} = {self.text}" if self.name else self.text
        return BytecodeStep(
            self.kind, f"return {text}" if self.returned else text, self.line, self.offset, self.resumes
        )


@dataclass(eq=False)
class _Effect:
    """A step without a result."""

    kind: BytecodeStepKind
    text: str
    line: int | None
    offset: int
    target: int | None = None

    def to_step(self, indexes: Callable[[int], int | None]) -> BytecodeStep:
        goes_to = None if self.target is None else indexes(self.target)
        return BytecodeStep(self.kind, self.text, self.line, self.offset, goes_to=goes_to)


class _Null:
    """The empty slot next to a callee."""

    def __deepcopy__(self, _: Any) -> _Null:
        return self


_Value: TypeAlias = _Text | _List | _Call | _Null

NULL = _Null()


@dataclass
class _State:
    """The stack and the variables with known values."""

    stack: list[_Value] = field(default_factory=list)
    variables: dict[str, _Value] = field(default_factory=dict)


# ---- names

_GRAPH = re.compile(r"__compiled_fn_\w+")
_IMPORT = re.compile(r"__import_(\w+)")
_MEMBERS = re.compile(r"(.+)\._(?:modules|parameters|buffers)")
_BUILTINS = re.compile(r"__builtins_dict__\w*")
_NULLS = re.compile(r"^NULL \+ | \+ NULL(?:\|self)?$|^NULL\|self \+ ")
"""The empty slot that an instruction loads next to a name, in the text of `dis`."""

_BOOKKEEPING = re.compile(r"torch\._dynamo\.utils\.record_pregraph_bytecode_(?:enter|exit)")
"""Functions by which torch measures itself."""

_PROFILES = "torch.autograd.profiler._is_profiler_enabled"
_ALWAYS = frozenset({f"not {_PROFILES}", "None is None", "not None is not None"})
_NEVER = frozenset({_PROFILES, "not None is None", "None is not None"})
"""Conditions by which torch 2.15 measures itself only while it is profiled: jumps that it always makes otherwise, and
never."""

_SLICE = re.compile(r"slice\((-?\d+|None), (-?\d+|None), (-?\d+|None)\)")

_CARRIED = re.compile(r"___stack\d+")
_NESTED = ("__nested_resume_fns", "__nested_frame_values")
"""Parameters of each resume function: functions of outer frames, which are empty unless the outer frame breaks too."""


def _global_name(name: str) -> str:
    """Return a global as the user would write it: Dynamo keeps graphs and modules in globals of its own."""
    if _GRAPH.fullmatch(name):
        return "graph"
    imported = _IMPORT.fullmatch(name)
    return imported[1].replace("_dot_", ".") if imported else name


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


# ---- the interpreter

_IGNORED = frozenset({
    "NOP", "RESUME", "CACHE", "EXTENDED_ARG", "COPY_FREE_VARS", "MAKE_CELL", "PRECALL", "TO_BOOL", "NOT_TAKEN",
})  # fmt: skip
_LOADS = frozenset({
    "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_FAST_AND_CLEAR", "LOAD_NAME", "LOAD_DEREF",
    "LOAD_CLOSURE", "LOAD_CLASSDEREF", "LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW",
})  # fmt: skip
_STORES = frozenset({"STORE_FAST", "STORE_FAST_STORE_FAST", "STORE_NAME", "STORE_DEREF", "STORE_GLOBAL"})
_DELETES = frozenset({"DELETE_FAST", "DELETE_NAME", "DELETE_DEREF", "DELETE_GLOBAL"})
_CONSTANTS = frozenset({"LOAD_CONST", "LOAD_SMALL_INT", "LOAD_CONST_IMMORTAL", "LOAD_CONST_MORTAL"})
_RESULTS = ("BINARY_", "COMPARE_OP", "CONTAINS_OP", "LOAD_ATTR", "UNARY_")
"""Starts of the opcodes that may run the user's code, and leave a result."""

_UNARY = {"UNARY_NOT": "not ", "UNARY_NEGATIVE": "-", "UNARY_INVERT": "~", "UNARY_POSITIVE": "+"}
_BUILT = {"BUILD_LIST": "[]", "BUILD_TUPLE": "()", "BUILD_SET": "{}"}
_CONDITIONS = (
    ("_IF_FALSE", "not {}"),
    ("_IF_TRUE", "{}"),
    ("_IF_NONE", "{} is None"),
    ("_IF_NOT_NONE", "{} is not None"),
)
_CONVERTED = {0: "", 1: "!s", 2: "!r", 3: "!a"}


class _UnknownError(Exception):
    """An instruction that cannot be followed."""


class _Interpreter:
    """Runs the instructions of a function in their order, each branch with the state at its jump."""

    def __init__(self, function: ev.FunctionRewritten) -> None:
        self._function = function
        self._resumes = {resume.variable: resume for resume in function.resumes}
        self._done: list[_Call | _Effect] = []
        self._state: _State | None = _State()
        """None after a jump or a return, until the target of another jump."""
        self._jumps: dict[int, _State] = {}
        self._keywords: tuple[str, ...] = ()
        self._lost = False
        """Whether an instruction could not be followed: from there on, all are listed as they are."""
        self._measures = False
        """Whether the instructions that are left out are those by which torch measures itself."""
        self._now = function.instructions[0] if function.instructions else ev.Instruction(0, "NOP")

    def run(self) -> tuple[BytecodeStep, ...]:
        skipped = 0
        for instruction in self._function.instructions:
            self._now = instruction
            if self._lost:
                self._list(instruction)
                continue
            known = self._jumps.pop(instruction.offset, None)
            if self._state is None:
                self._state = known
            if self._state is None:
                skipped += instruction.op not in _IGNORED
                continue
            self._close_handler(0 if self._measures else skipped)
            skipped, self._measures = 0, False
            try:
                self._execute(instruction)
                self._keep_result(instruction)
            except (IndexError, _UnknownError):
                self._lost = True
                self._list(instruction)
        self._close_handler(skipped)
        if self._function.dropped:
            self._effect("other", f"… and {self._function.dropped:,} more instructions")
        return tuple(done.to_step(self._index_of) for done in self._done)

    def _keep_result(self, instruction: ev.Instruction) -> None:
        """Make the result of an instruction of the user's line a step, if it is no call: `x[mask]`."""
        if instruction.line is None or not instruction.op.startswith(_RESULTS) or not self._stack:
            return
        value = self._stack[-1]
        if isinstance(value, _Text):
            call = _Call(_shortened(value.text), "python", instruction.line, instruction.offset)
            self._done.append(call)
            self._stack[-1] = call

    def _index_of(self, offset: int) -> int | None:
        return next((index for index, done in enumerate(self._done) if done.offset >= offset), None)

    def _close_handler(self, instructions: int) -> None:
        """Add a step for instructions that only an exception leads to."""
        if instructions:
            plural = "s" if instructions > 1 else ""
            self._effect("other", f"if that raises an exception: {instructions} instruction{plural} to clean up")

    # ---- the stack

    @property
    def _stack(self) -> list[_Value]:
        if self._state is None:
            raise _UnknownError
        return self._state.stack

    @property
    def _variables(self) -> dict[str, _Value]:
        if self._state is None:
            raise _UnknownError
        return self._state.variables

    def _push(self, *values: _Value | str) -> None:
        self._stack.extend(_Text(value) if isinstance(value, str) else value for value in values)

    def _pop_many(self, number: int) -> list[_Value]:
        if number > len(self._stack):
            raise _UnknownError
        popped = self._stack[len(self._stack) - number :]
        del self._stack[len(self._stack) - number :]
        return popped

    def _list(self, instruction: ev.Instruction) -> None:
        """Add an instruction as it is."""
        if instruction.op not in _IGNORED:
            self._effect("other", f"{instruction.op} {instruction.value}".rstrip(), instruction.target)

    def _effect(self, kind: BytecodeStepKind, text: str, target: int | None = None) -> None:
        kind = "python" if kind == "other" and self._now.line is not None else kind
        self._done.append(_Effect(kind, _shortened(text), self._now.line, self._now.offset, target))

    def _written(self, value: _Value) -> str:
        """Return the text of a value; the result of a call gets a name, unless it is used right after the call."""
        match value:
            case _Text():
                return value.text
            case _List():
                opening, closing = value.brackets[0], value.brackets[1]
                inner = ", ".join(map(self._written, value.items))
                return f"{opening}{inner}{',' if closing == ')' and len(value.items) == 1 else ''}{closing}"
            case _Call():
                if value.name:
                    return value.name
                if value.kind != "graph" and self._done and self._done[-1] is value:
                    self._done.pop()
                    return value.text
                return self._named(value)
            case _Null():
                return "NULL"
        raise _UnknownError

    def _named(self, call: _Call) -> str:
        """Return the name of a result, which gets one if it has none."""
        if not call.name:
            name = "graph_out" if call.kind == "graph" else "value"
            taken = {done.name for done in self._done if isinstance(done, _Call)}
            numbered = (f"{name}_{number}" if number > 1 else name for number in range(1, len(taken) + 2))
            call.name = next(free for free in numbered if free not in taken)
        return call.name

    # ---- instructions

    def _execute(self, now: ev.Instruction) -> None:
        op = now.op
        method = getattr(self, f"_{op.lower()}", None) or self._of_group(op)
        if method is not None:
            method(now)
        elif op not in _IGNORED:
            raise _UnknownError

    def _of_group(self, op: str) -> Callable[[ev.Instruction], None] | None:
        """Return the method for instructions that do nearly the same."""
        groups: tuple[tuple[Collection[str], Callable[[ev.Instruction], None]], ...] = (
            (_LOADS, self._load),
            (_CONSTANTS, self._load_constant),
            (_STORES, self._store_name),
            (_DELETES, self._delete_name),
            (_UNARY, self._unary),
            (_BUILT, self._build),
        )
        jump = self._jump if "JUMP" in op else None
        return next((method for names, method in groups if op in names), jump)

    def _load(self, now: ev.Instruction) -> None:
        for name in now.value.split(", "):
            self._push(self._variables.get(name, name))

    def _load_constant(self, now: ev.Instruction) -> None:
        if (parts := _SLICE.fullmatch(now.value)) is not None:  # a constant since Python 3.14
            texts = ["" if part == "None" else part for part in parts.groups()]
            self._push(":".join(texts if texts[2] else texts[:2]))
        elif now.op == "LOAD_SMALL_INT":  # its argument is the value, which `dis` does not repeat
            self._push(str(now.arg))
        else:
            self._push(now.value)

    def _store_name(self, now: ev.Instruction) -> None:
        for name in now.value.split(", "):
            self._store(name)

    def _delete_name(self, now: ev.Instruction) -> None:
        self._variables.pop(now.value, None)

    def _unary(self, now: ev.Instruction) -> None:
        self._push(f"{_UNARY[now.op]}{self._enclosed(self._stack.pop())}")

    def _build(self, now: ev.Instruction) -> None:
        self._push(_List(self._pop_many(now.arg or 0), _BUILT[now.op]))

    def _pop_top(self, _: ev.Instruction) -> None:
        self._stack.pop()

    def _push_null(self, _: ev.Instruction) -> None:
        self._push(NULL)

    def _swap(self, now: ev.Instruction) -> None:
        n = now.arg or 2
        self._stack[-1], self._stack[-n] = self._stack[-n], self._stack[-1]

    def _copy(self, now: ev.Instruction) -> None:
        value = self._stack[-(now.arg or 1)]
        if isinstance(value, _Call):
            self._named(value)
        self._push(value)

    def _load_global(self, now: ev.Instruction) -> None:
        name = _NULLS.sub("", now.value)
        # Below the name, as up to Python 3.12: an attribute of it may be called. A call takes either order.
        self._push(*([NULL] if name != now.value else []), _global_name(name))

    def _load_attr(self, now: ev.Instruction) -> None:
        name = _NULLS.sub("", now.value)
        self._push(f"{self._enclosed(self._stack.pop())}.{name}", *([NULL] if name != now.value else []))

    def _load_method(self, now: ev.Instruction) -> None:
        self._push(f"{self._enclosed(self._stack.pop())}.{now.value}", NULL)

    def _enclosed(self, value: _Value) -> str:
        text = self._written(value)
        return text if re.fullmatch(r"[\w.\[\]()'\", =]+", text) else f"({text})"

    def _store_attr(self, now: ev.Instruction) -> None:
        owner, value = self._written(self._stack.pop()), self._written(self._stack.pop())
        self._effect("other", f"{owner}.{now.value} = {value}")

    def _delete_attr(self, now: ev.Instruction) -> None:
        self._effect("other", f"del {self._written(self._stack.pop())}.{now.value}")

    def _store(self, name: str) -> None:
        value = self._stack.pop()
        if isinstance(value, _Call) and not value.name:
            value.name = _shortened(name)
            self._variables.pop(name, None)
        elif self._now.line is not None:
            self._effect("python", f"{name} = {self._written(value)}")
            self._variables.pop(name, None)
        else:
            self._variables[name] = value

    def _store_fast_load_fast(self, now: ev.Instruction) -> None:
        stored, loaded = now.value.split(", ")
        self._store(stored)
        self._push(self._variables.get(loaded, loaded))

    def _binary_op(self, now: ev.Instruction) -> None:
        operator = now.value.removesuffix("=") if now.value not in ("==", "<=", ">=") else now.value
        if operator == "[]":
            self._binary_subscr(now)
        else:
            self._binary(operator)

    def _binary(self, operator: str) -> None:
        left, right = self._pop_many(2)
        second = self._enclosed(right)
        self._push(f"{self._enclosed(left)} {operator} {second}")

    def _compare_op(self, now: ev.Instruction) -> None:
        self._binary(now.value.removeprefix("bool(").removesuffix(")"))

    def _is_op(self, now: ev.Instruction) -> None:
        self._binary("is not" if now.arg else "is")

    def _contains_op(self, now: ev.Instruction) -> None:
        self._binary("not in" if now.arg else "in")

    # ---- containers

    def _binary_subscr(self, _: ev.Instruction) -> None:
        container, key = self._pop_many(2)
        index = _index(key)
        range_ = _slice(key)
        if isinstance(container, _List) and index is not None and container.brackets in ("[]", "()"):
            self._push(container.items[index])
        elif isinstance(container, _List) and range_ is not None:
            self._push(_List(container.items[range_], container.brackets))
        elif isinstance(container, _Text) and isinstance(key, _Text) and _BUILTINS.fullmatch(container.text):
            self._push(_unquoted(key))
        elif isinstance(container, _Text) and isinstance(key, _Text) and (owner := _MEMBERS.fullmatch(container.text)):
            self._push(f"{owner[1]}.{_unquoted(key)}")
        else:
            self._push(f"{self._enclosed(container)}[{self._written(key)}]")

    def _store_subscr(self, _: ev.Instruction) -> None:
        value, container, key = self._pop_many(3)
        index = _index(key)
        if isinstance(container, _List) and index is not None:
            container.items[index] = value
        elif isinstance(container, _List) and (range_ := _slice(key)) is not None and isinstance(value, _List):
            container.items[range_] = value.items
        else:
            self._effect("other", f"{self._enclosed(container)}[{self._written(key)}] = {self._written(value)}")

    def _delete_subscr(self, _: ev.Instruction) -> None:
        container, key = self._pop_many(2)
        index = _index(key)
        if isinstance(container, _List) and index is not None:
            del container.items[index]
        else:
            self._effect("other", f"del {self._enclosed(container)}[{self._written(key)}]")

    def _build_slice(self, now: ev.Instruction) -> None:
        self._push(
            ":".join("" if text == "None" else text for text in map(self._written, self._pop_many(now.arg or 2)))
        )

    def _binary_slice(self, _: ev.Instruction) -> None:
        self._push(":".join(map(self._written, self._pop_many(2))))
        self._binary_subscr(self._now)

    def _store_slice(self, _: ev.Instruction) -> None:
        self._push(":".join(map(self._written, self._pop_many(2))))
        self._store_subscr(self._now)

    def _list_append(self, now: ev.Instruction) -> None:
        value = self._stack.pop()
        self._list_at(now.arg or 1).append(value)

    def _list_extend(self, now: ev.Instruction) -> None:
        value = self._stack.pop()
        items = self._list_at(now.arg or 1)
        items.extend(value.items if isinstance(value, _List) else [_Text(f"*{self._written(value)}")])

    def _list_at(self, depth: int) -> list[_Value]:
        container = self._stack[-depth]
        if not isinstance(container, _List):
            raise _UnknownError
        return container.items

    def _call_intrinsic_1(self, now: ev.Instruction) -> None:
        if now.value != "INTRINSIC_LIST_TO_TUPLE":
            raise _UnknownError
        value = self._stack.pop()
        self._push(_List(value.items, "()") if isinstance(value, _List) else value)

    def _build_map(self, now: ev.Instruction) -> None:
        values = self._pop_many(2 * (now.arg or 0))
        pairs = zip(values[::2], values[1::2], strict=True)
        self._push(_List([_Text(f"{self._written(key)}: {self._written(value)}") for key, value in pairs], "{}"))

    def _build_const_key_map(self, now: ev.Instruction) -> None:
        keys = _strings(self._written(self._stack.pop()))
        values = self._pop_many(now.arg or 0)
        pairs = zip(keys, values, strict=False)
        self._push(_List([_Text(f"{key!r}: {self._written(value)}") for key, value in pairs], "{}"))

    def _unpack_sequence(self, now: ev.Instruction) -> None:
        value, number = self._stack.pop(), now.arg or 0
        if isinstance(value, _List) and len(value.items) == number:
            self._push(*reversed(value.items))
            return
        name = self._named(value) if isinstance(value, _Call) else self._enclosed(value)
        self._push(*(f"{name}[{index}]" for index in reversed(range(number))))

    # ---- text

    def _format_value(self, now: ev.Instruction) -> None:
        spec = self._written(self._stack.pop()) if (now.arg or 0) & 4 else ""
        self._format(self._stack.pop(), _CONVERTED.get((now.arg or 0) & 3, ""), spec)

    def _format_simple(self, _: ev.Instruction) -> None:
        self._format(self._stack.pop(), "", "")

    def _format_with_spec(self, _: ev.Instruction) -> None:
        spec = self._written(self._stack.pop())
        self._format(self._stack.pop(), "", spec)

    def _convert_value(self, now: ev.Instruction) -> None:
        self._push(f"{self._written(self._stack.pop())}{_CONVERTED.get(now.arg or 0, '')}")

    def _format(self, value: _Value, conversion: str, spec: str) -> None:
        spec = f":{spec[1:-1]}" if spec else ""
        self._push(f"f'{{{self._written(value)}{conversion}{spec}}}'")

    def _build_string(self, now: ev.Instruction) -> None:
        texts = list(map(self._written, self._pop_many(now.arg or 0)))
        inner = "".join(text.removeprefix("f")[1:-1] for text in texts)
        self._push(f"f'{inner}'")

    # ---- calls

    def _kw_names(self, now: ev.Instruction) -> None:
        self._keywords = _strings(now.value)

    def _call_kw(self, now: ev.Instruction) -> None:
        self._keywords = _strings(self._written(self._stack.pop()))
        self._call(now)

    def _call(self, now: ev.Instruction) -> None:
        args = self._pop_many(now.arg or 0)
        lower, upper = self._pop_many(2)
        if lower is NULL:  # up to Python 3.12, the empty slot is below the function
            self._add_call(upper, args)
        elif upper is NULL:
            self._add_call(lower, args)
        else:
            self._add_call(lower, [upper, *args])

    def _call_function_ex(self, now: ev.Instruction) -> None:
        top = self._stack.pop()
        keywords: _Value | None = None
        if top is NULL:  # since Python 3.14, the slot for keywords is always there
            top = self._stack.pop()
        elif (now.arg or 0) & 1:
            keywords, top = top, self._stack.pop()
        callee = self._stack.pop()
        if callee is NULL:
            callee = self._stack.pop()
        elif self._stack and self._stack[-1] is NULL:
            self._stack.pop()
        args = list(top.items) if isinstance(top, _List) else [_Text(f"*{self._written(top)}")]
        if keywords is not None:
            args.append(_Text(f"**{self._written(keywords)}"))
        self._add_call(callee, args)

    def _add_call(self, callee: _Value, args: Sequence[_Value]) -> None:
        names, self._keywords = self._keywords, ()
        if isinstance(callee, _Text) and callee.text in self._resumes:
            for result in _results(args):  # what the user's line returns stays a step of its own
                self._named(result)
        # The last result is taken in first, so that the calls before it can be taken in, too.
        texts = [self._written(value) for value in reversed(args)][::-1]
        first = len(texts) - len(names)
        texts[first:] = [f"{name}={text}" for name, text in zip(names, texts[first:], strict=False)]
        function = self._written(callee)
        if _BOOKKEEPING.fullmatch(function):
            self._push("None")
            return
        resume = self._resumes.get(function)
        kind: BytecodeStepKind = "other"
        if resume is not None:
            kind, texts = "resume", list(_named_arguments(resume, args, texts))
        elif function == "graph":
            kind = "graph"
        elif self._now.line is not None:
            kind = "python"
        shown = "rest" if resume is not None else function
        call = _Call(
            _shortened(f"{shown}({', '.join(texts)})"), kind, self._now.line, self._now.offset, resume
        )  # fmt: skip
        self._done.append(call)
        self._push(call)

    def _make_function(self, now: ev.Instruction) -> None:
        flags = now.arg or 0
        code = self._written(self._stack.pop())
        self._pop_many(sum(bool(flags & bit) for bit in (1, 2, 4, 8)))
        self._push(code)

    def _set_function_attribute(self, _: ev.Instruction) -> None:
        function, _value = self._stack.pop(), self._stack.pop()
        self._push(function)

    # ---- contexts, imports, loops

    def _before_with(self, _: ev.Instruction) -> None:
        context = self._enclosed(self._stack.pop())
        self._effect("other", f"with {context}")
        self._push(f"{context}.__exit__", f"{context}.__enter__()")

    def _dict_merge(self, now: ev.Instruction) -> None:
        value = self._stack.pop()
        items = self._list_at(now.arg or 1)
        items.extend(value.items if isinstance(value, _List) else [_Text(f"**{self._written(value)}")])

    def _import_name(self, now: ev.Instruction) -> None:
        self._pop_many(2)
        self._effect("other", f"import {now.value}")
        self._push(now.value)

    def _import_from(self, now: ev.Instruction) -> None:
        self._push(f"{self._written(self._stack[-1])}.{now.value}")

    def _get_iter(self, _: ev.Instruction) -> None:
        self._push(f"iter({self._written(self._stack.pop())})")

    # ---- jumps and the end

    def _jump(self, now: ev.Instruction) -> None:
        if now.target is None:
            raise _UnknownError
        condition = next((form for name, form in reversed(_CONDITIONS) if name in now.op), None)
        if condition is not None:
            value = self._stack[-1] if now.op.endswith("_OR_POP") else self._stack.pop()
            text = condition.format(self._written(value))
            if text in _NEVER:
                return
            if text in _ALWAYS:
                self._jumps.setdefault(now.target, self._state or _State())
                self._state, self._measures = None, True
                return
            self._effect("branch", f"if {text}", now.target)
            self._jumps.setdefault(now.target, copy.deepcopy(self._state or _State()))
            if now.op.endswith("_OR_POP"):
                self._stack.pop()
            return
        if now.target <= now.offset:
            self._effect("branch", "again", now.target)
        elif self._state is not None:
            self._jumps.setdefault(now.target, self._state)
        self._state = None

    def _return_value(self, _: ev.Instruction) -> None:
        value = self._stack.pop()
        if isinstance(value, _Call) and not value.name and self._done and self._done[-1] is value:
            value.returned = True
        else:
            self._effect("return", f"return {self._written(value)}")
        self._state = None

    def _return_const(self, now: ev.Instruction) -> None:
        self._effect("return", f"return {now.value}")
        self._state = None

    def _raise_varargs(self, now: ev.Instruction) -> None:
        values = list(map(self._written, self._pop_many(now.arg or 0)))
        self._effect("other", " ".join(["raise", *values]))
        self._state = None

    def _reraise(self, _: ev.Instruction) -> None:
        self._state = None


def _named_arguments(resume: ev.ResumeFunction, args: Iterable[_Value], texts: Iterable[str]) -> Iterator[str]:
    """Yield the arguments of a resume function with its parameters' names, without empty lists of outer frames."""
    for index, (value, text) in enumerate(zip(args, texts, strict=True)):
        name = resume.parameters[index] if index < len(resume.parameters) else ""
        outer = name in _NESTED or (not resume.parameters and index < len(_NESTED))
        if outer and isinstance(value, _List) and not value.items:
            continue
        yield text if not name or name == text or _CARRIED.fullmatch(name) else f"{name}={text}"


def _results(values: Iterable[_Value]) -> Iterator[_Call]:
    """Yield the results of calls among values, also in lists."""
    for value in values:
        if isinstance(value, _Call):
            yield value
        elif isinstance(value, _List):
            yield from _results(value.items)


def _unquoted(key: _Text) -> str:
    return key.text.strip("'")


def _index(key: _Value) -> int | None:
    text = key.text if isinstance(key, _Text) else ""
    return int(text) if re.fullmatch(r"-?\d+", text) else None


def _slice(key: _Value) -> slice | None:
    parts = key.text.split(":") if isinstance(key, _Text) else []
    if len(parts) != 2 or not all(re.fullmatch(r"(?:-?\d+|None)?", part) for part in parts):
        return None
    first, last = (int(part) if part not in ("", "None") else None for part in parts)
    return slice(first, last)


def _strings(text: str) -> tuple[str, ...]:
    """Return the names in the text of a tuple of texts: `('end', 'sep')`."""
    return tuple(re.findall(r"'([^']*)'", text))
