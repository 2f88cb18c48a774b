"""The bytecode that Dynamo puts in place of functions with a graph break, and of their resume functions."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from itertools import islice
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import FunctionRewritten, Instruction, ResumeFunction
from tcexplore.torch_text.dynamo_names import function_name, is_resumed, resumed_line

_FACT = "bytecode of graph breaks"
_COMPILE = "torch._dynamo.convert_frame:_compile"

MOST_FUNCTIONS = 200
MOST_INSTRUCTIONS = 1000
"""Instructions of one function."""

_RUN_BY_PYTHON = ("CALL", "POP_JUMP", "JUMP_IF", "FOR_ITER", "STORE", "DELETE", "IMPORT", "RAISE", "BEFORE_WITH")
"""Starts of the opcodes at which a graph can break. Dynamo leaves the lines of the user to such instructions only."""

_JUMPS = frozenset({*dis.hasjrel, *dis.hasjabs})
_LONGEST = 200
"""Characters of a constant."""


def install(hooks: Hooks, _trace: StructuredTrace, user_files: UserFiles) -> None:
    """Emit a `FunctionRewritten` for each function with a graph break, after the call that compiled it."""
    observer = _Observer(hooks, user_files)
    hooks.watch(_FACT, _COMPILE, after=observer.compiled)


class _Observer:
    def __init__(self, hooks: Hooks, user_files: UserFiles) -> None:
        self._hooks = hooks
        self._user_files = user_files
        self._emitted = 0
        self._numbers: WeakKeyDictionary[CodeType, int] = WeakKeyDictionary()
        """The number of each resume function."""

    def compiled(self, result: Any, code: CodeType, scope: dict[str, Any], *_args: Any, **_kwargs: Any) -> None:
        """Keep the code of a compiled frame; reading its instructions here would be part of the compile's time."""
        guarded = getattr(result, "guarded_code", None)
        if guarded is not None and self._emitted < MOST_FUNCTIONS:
            graph = str(guarded.compile_id)
            self._hooks.defer(_FACT, _COMPILE, self._emit, graph, code, guarded.code, scope)

    def _emit(self, graph: str, code: CodeType, rewritten: CodeType, scope: dict[str, Any]) -> None:
        if self._emitted >= MOST_FUNCTIONS:
            return
        resumes = tuple(self._resume_function(name, known) for name, known in _resume_codes(rewritten, scope))
        if not (resumes or is_resumed(code.co_name) or _has_user_lines(rewritten)):
            return
        decoded = dis.get_instructions(rewritten)
        instructions = tuple(islice((_instruction(each, rewritten) for each in decoded), MOST_INSTRUCTIONS))
        if not (resumes or is_resumed(code.co_name) or any(map(_is_users, instructions))):
            return
        self._emitted += 1
        owned = self._user_files.owns(code.co_filename)
        self._hooks.emit(
            FunctionRewritten(
                graph=graph,
                name=function_name(code.co_name),
                code_name=code.co_name,
                resumed=resumed_line(code.co_name),
                goes_on=_first_line(code) if is_resumed(code.co_name) else None,
                number=self._number(code) if is_resumed(code.co_name) else 0,
                frame=self._user_files.location_of(code) if owned else None,
                instructions=instructions,
                resumes=resumes,
                dropped=sum(1 for _ in decoded),
            )
        )

    def _resume_function(self, variable: str, code: CodeType) -> ResumeFunction:
        return ResumeFunction(
            variable, code.co_name, resumed_line(code.co_name), code.co_varnames[: code.co_argcount],
            _first_line(code), self._number(code),
        )  # fmt: skip

    def _number(self, code: CodeType) -> int:
        return self._numbers.setdefault(code, len(self._numbers) + 1)


def _has_user_lines(code: CodeType) -> bool:
    """Return whether an instruction below the first line may be the user's, as `_user_line` tells."""
    lines = {line for line, _, column, _ in code.co_positions() if column is not None}
    return bool(lines - {code.co_firstlineno})


def _is_users(instruction: Instruction) -> bool:
    return instruction.line is not None and instruction.op.startswith(_RUN_BY_PYTHON)


def _instruction(instruction: dis.Instruction, code: CodeType) -> Instruction:
    value = instruction.argval
    if instruction.opcode in _JUMPS:
        text, target = "", value
    elif instruction.opname == "KW_NAMES":  # `dis` leaves it out
        text, target = repr(code.co_consts[instruction.arg or 0]), None
    else:
        text, target = value.co_name if isinstance(value, CodeType) else instruction.argrepr, None
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return Instruction(
        instruction.offset, instruction.opname, instruction.arg, text, _user_line(instruction), target
    )  # fmt: skip


def _user_line(instruction: dis.Instruction) -> int | None:
    """Return the line of an instruction of the user; None for one of Dynamo.

    Dynamo's have the line of the last one of the user before them, but no columns.
    """
    positions = instruction.positions
    return positions.lineno if positions is not None and positions.col_offset is not None else None


def _resume_codes(code: CodeType, scope: dict[str, Any]) -> Iterator[tuple[str, CodeType]]:
    """Yield the resume functions that a function calls, with their variables: Dynamo keeps them as globals."""
    for name in code.co_names:
        value = scope.get(name)
        if type(value) is FunctionType:
            # A function with free variables is made by another one.
            for known in (value.__code__, *value.__code__.co_consts):
                if isinstance(known, CodeType) and is_resumed(known.co_name):
                    yield name, known
                    break
    for known in code.co_consts:
        if isinstance(known, CodeType) and is_resumed(known.co_name):
            yield known.co_name, known


def _first_line(code: CodeType) -> int | None:
    """Return the line at which a resume function goes on: that of the target of its first jump."""
    instructions = list(dis.get_instructions(code))
    target = next((each.argval for each in instructions if each.opcode in _JUMPS), None)
    if target is None:
        return None
    # Since Python 3.14, a way of a branch begins with an instruction that has the line of the branch.
    after = (each for each in instructions if each.offset >= target and each.opname != "NOT_TAKEN")
    return next((_user_line(each) for each in after), None)
