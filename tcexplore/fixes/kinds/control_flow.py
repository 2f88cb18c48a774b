"""Branches, loops and assertions that depend on the value of a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.syntax_source import SyntaxSource
from tcexplore.fixes.tensor_expressions import pure, tensor_condition
from tcexplore.fixes.text_edit import Edit


@dataclass(frozen=True, slots=True)
class Pick:
    """`then` where `test` holds, else `other`: an expression, a name that keeps its value, or the next pick."""

    test: ast.expr
    then: ast.expr | str
    other: ast.expr | str | Pick


class BranchChoice(NamedTuple):
    """What is picked, one or several values. `whole` is replaced: an expression, or the first and the last of some
    statements, of which `head` is kept."""

    picks: tuple[Pick, ...]
    whole: ast.expr | tuple[ast.stmt, ast.stmt]
    head: str = ""


def branch_fixes(site: Site) -> Iterator[Fix]:
    """`torch.where` where all ways are only arithmetic, `torch.cond` where modules are called."""
    source, torch = site.source, site.source.torch
    for choice in _choices(site):
        if torch is None:
            continue
        if all(_pure(source, pick) for pick in choice.picks):
            made = [_where(source, pick) for pick in choice.picks]
            if all(made):
                text = ", ".join(filter(None, made))
                yield Fix(
                    "torch.where",
                    "Every way is computed, and the tensor picks one.",
                    (_edit(source, choice, text),),
                    ("The ways that are not taken are computed as well.",),
                )
        elif len(choice.picks) == 1 and (text := _cond(source, choice.picks[0]) or ""):
            yield Fix(
                "torch.cond",
                "Every way is traced into the graph, and the tensor picks the one that runs.",
                (_edit(source, choice, text),),
                ("In eager calls torch.cond traces every way, too.",),
            )


def _pure(source: SyntaxSource, way: ast.expr | str | Pick) -> bool:
    if isinstance(way, Pick):
        return _pure(source, way.then) and _pure(source, way.other)
    return isinstance(way, str) or pure(source, way)


def _where(source: SyntaxSource, way: ast.expr | str | Pick) -> str | None:
    """The picks as calls of `torch.where`; None where a test cannot be made a tensor."""
    if not isinstance(way, Pick):
        return way if isinstance(way, str) else source.of(way)
    test, other = tensor_condition(source, way.test), _where(source, way.other)
    return f"{source.torch}.where({test}, {_where(source, way.then)}, {other})" if test and other else None


def _cond(source: SyntaxSource, way: ast.expr | str | Pick) -> str | None:
    """The same as calls of `torch.cond`."""
    if not isinstance(way, Pick):
        return way if isinstance(way, str) else source.of(way)
    test, other = tensor_condition(source, way.test), _cond(source, way.other)
    both = f"lambda: {_cond(source, way.then)}, lambda: {other}"
    return f"{source.torch}.cond({test}, {both})" if test and other else None


def _edit(source: SyntaxSource, choice: BranchChoice, made: str) -> Edit:
    if isinstance(choice.whole, tuple):
        return source.instead(*choice.whole, choice.head + made)
    return Edit(source.start(choice.whole), source.end(choice.whole), made)


def _choices(site: Site) -> Iterator[BranchChoice]:
    source = site.source
    branch = source.branch(site.line)
    if branch is not None:
        yield from _returned(source, branch)
        yield from _assigned(branch)
    for node in ast.walk(site.statement):
        if isinstance(node, ast.IfExp) and node.lineno <= site.line <= (node.end_lineno or node.lineno):
            yield BranchChoice((Pick(node.test, node.body, node.orelse),), node)
            return


# ---- ways that return


def _returned(source: SyntaxSource, branch: ast.If) -> Iterator[BranchChoice]:
    """`if t: return a`, with `return b` in its `else` or behind it, and with an `elif` between."""
    block = source.block(branch)
    behind = block[block.index(branch) + 1 :][:1]
    pick = _return_of(branch, behind[0] if behind else None)
    if pick is not None:
        last = branch if _exhaustive(branch) else behind[0]
        yield BranchChoice((pick,), (branch, last), "return ")


def _return_of(branch: ast.If, behind: ast.stmt | None) -> Pick | None:
    match branch.body:
        case [ast.Return(value=ast.expr() as then)]:
            other = _other_return(branch.orelse, behind)
            return None if other is None else Pick(branch.test, then, other)
    return None


def _other_return(orelse: list[ast.stmt], behind: ast.stmt | None) -> ast.expr | Pick | None:
    match orelse or ([behind] if behind else []):
        case [ast.Return(value=ast.expr() as other)]:
            return other
        case [ast.If() as elif_] if orelse:
            return _return_of(elif_, behind)
    return None


def _exhaustive(branch: ast.If) -> bool:
    """Whether it has an `else` at its end."""
    match branch.orelse:
        case [ast.If() as elif_]:
            return _exhaustive(elif_)
    return bool(branch.orelse)


# ---- ways that assign


def _assigned(branch: ast.If) -> Iterator[BranchChoice]:
    """`if t: y = a`, with `else: y = b` or with what `y` was before; `elif`, and several names that do not need each
    other, as well."""
    names = tuple(dict.fromkeys(_names(branch)))
    picks = [_assignment_of(branch, name) for name in names]
    if names and all(picks):
        yield BranchChoice(tuple(filter(None, picks)), (branch, branch), f"{', '.join(names)} = ")


def _names(branch: ast.If) -> Iterator[str]:
    for statement in (*branch.body, *branch.orelse):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case ast.If():
                yield from _names(statement)


def _assignment_of(branch: ast.If, name: str) -> Pick | None:
    then, other = _values(branch.body), _other_assignment(branch.orelse, name)
    return None if then is None or other is None else Pick(branch.test, then.get(name, name), other)


def _other_assignment(orelse: list[ast.stmt], name: str) -> ast.expr | str | Pick | None:
    match orelse:
        case [ast.If() as elif_]:
            return _assignment_of(elif_, name)
    values = _values(orelse)
    return None if values is None else values.get(name, name)


def _values(block: list[ast.stmt]) -> dict[str, ast.expr] | None:
    """What a block assigns to each name; None where it does anything else, or one of them needs another."""
    found: dict[str, ast.expr] = {}
    for statement in block:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in found and not _uses(value, found):
                found[name] = value
            case _:
                return None
    return found


def _uses(value: ast.expr, names: dict[str, ast.expr]) -> bool:
    return any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(value))


# ---- loops


LOOP_BODY = "loop_body"


def loop_fixes(site: Site) -> Iterator[Fix]:
    """`torch.while_loop`, with the loop's own lines as its body."""
    source, loop, torch = site.source, site.statement, site.source.torch
    if not isinstance(loop, ast.While) or loop.orelse or torch is None or not source.alone(loop.body[-1]):
        return
    names, holds = _loop_names(loop), tensor_condition(source, loop.test)
    if not names or holds is None or loop.body[0].lineno == loop.lineno:
        return
    body = LOOP_BODY
    while body in source.text:
        body += "_"
    given, line = ", ".join(names), source.newline
    passed = given if len(names) > 1 else f"({given},)"
    made = f"{passed} = {torch}.while_loop(lambda {given}: {holds}, {body}, ({given}{',' * (len(names) == 1)}))"
    behind = source.line_start((loop.end_lineno or loop.lineno) + 1)
    ends = "" if source.text[:behind].endswith(("\n", "\r")) else line
    returned = f"{ends}{source.indent(loop.body[0])}return {passed}{line * 2}"
    edits = (
        Edit(source.start(loop), source.end(loop.test), f"def {body}({given})"),
        Edit(behind, behind, f"{returned}{source.indent(loop)}{made}{'' if ends else line}"),
    )
    yield Fix(
        "torch.while_loop",
        "The loop becomes an op of the graph, and runs for as long as the tensor says.",
        edits,
        ("In eager calls torch.while_loop traces its body, too.",),
    )


def _loop_names(loop: ast.While) -> tuple[str, ...]:
    """The names that go round; none where the loop does anything else than assign to names."""
    found: dict[str, None] = {}
    for statement in loop.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]):
                found[name] = None
            case _:
                return ()
    return tuple(found)


# ---- assertions


_RAISES = "Where it fails, compiled code raises torch's RuntimeError with the same words."


def assertion_fixes(site: Site) -> Iterator[Fix]:
    """`torch._assert_async` in the place of the check: it is an op of the graph."""
    source, torch = site.source, site.source.torch
    statement = source.branch(site.line) or site.statement
    if torch is None:
        return
    match statement:
        case ast.Assert(test=test, msg=message):
            holds, said = tensor_condition(source, test), _message_text(message)
        case ast.If(test=test, body=[ast.Raise(exc=ast.Call(args=[message, *_]))], orelse=[]):
            fails = tensor_condition(source, test)
            holds, said = fails and f"{torch}.logical_not({fails})", _message_text(message)
        case _:
            return
    if holds is not None and said is not None:
        made = f"{torch}._assert_async({holds}, {said!r})" if said else f"{torch}._assert_async({holds})"
        yield Fix(
            "torch._assert_async",
            "The check becomes an op of the graph, and is made where the code runs.",
            (source.instead(statement, statement, made),),
            (_RAISES, *_message_effect(statement)),
        )


def _message_text(message: ast.expr | None) -> str | None:
    """The message's own words, what is filled in left out; None where it has none."""
    match message:
        case None:
            return ""
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)
    return None


def _message_effect(statement: ast.stmt) -> tuple[str, ...]:
    filled = any(isinstance(node, ast.JoinedStr) for node in ast.walk(statement))
    return ("Its message has … where a value was filled in.",) if filled else ()
