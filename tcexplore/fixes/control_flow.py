"""Branches, loops and assertions that depend on the value of a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.replaced_calls import KEPT, scalar_fixes
from tcexplore.fixes.syntax_source import Edit, SyntaxSource, pure, tensor_condition


@dataclass(frozen=True, slots=True)
class Pick:
    """A choice of `then` if `test` holds, else `other`: an expression, a name that keeps its value, or another pick."""

    test: ast.expr
    then: ast.expr | str
    other: ast.expr | str | Pick


class BranchChoice(NamedTuple):
    """One or several values to pick, and the code that they replace."""

    picks: tuple[Pick, ...]
    replaced: ast.expr | tuple[ast.stmt, ast.stmt]
    """An expression, or the first and last of consecutive statements."""
    prefix: str = ""
    """Text before the new expression, such as `return `."""


def branch_fixes(site: Site) -> Iterator[Fix]:
    """Use `torch.where` if all branches are pure expressions, `torch.cond` if they call modules."""
    source, torch = site.source, site.source.torch
    for choice in _choices(site):
        if torch is None:
            continue
        if all(_pure(source, pick) for pick in choice.picks):
            yield from _where_fixes(source, choice)
        elif len(choice.picks) == 1 and (text := _cond(source, choice.picks[0]) or ""):
            yield Fix(
                "torch.cond",
                "All branches are traced into the graph, and the tensor selects the one that runs.",
                (_edit(source, choice, text),),
                ("In eager calls, torch.cond traces all branches too.",),
                tests=_tests(choice),
            )


def tested_number_fixes(site: Site) -> Iterator[Fix]:
    """Keep a number that later branches test a tensor, and let the tensor select in each of them."""
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            kept = next((fix for fix in scalar_fixes(site) if fix.name == KEPT), None)
        case _:
            return
    if kept is None or site.function is None:
        return
    selected: list[Fix] = []
    replaced: set[ast.AST] = set()
    for node in ast.walk(site.function):
        if not isinstance(node, ast.If | ast.IfExp) or node in replaced or not _uses(node.test, {name: node.test}):
            continue
        statement = site.source.statement(node.lineno)
        of_branch = replace(site, line=node.lineno, statement=statement) if statement is not None else site
        fix = next((fix for fix in branch_fixes(of_branch) if node in fix.tests), None)
        if fix is None or node.lineno < site.line:
            return
        selected.append(fix)
        replaced.update(fix.tests)
    if selected:
        yield Fix(
            f"{KEPT}, {' and '.join(dict.fromkeys(fix.name for fix in selected))}",
            "The value stays a tensor with one element, and selects what later branches compute.",
            (*kept.edits, *(edit for fix in selected for edit in fix.edits)),
            tuple(dict.fromkeys(effect for fix in (kept, *selected) for effect in fix.side_effects)),
            tests=tuple(test for fix in selected for test in fix.tests),
        )


def _where_fixes(source: SyntaxSource, choice: BranchChoice) -> Iterator[Fix]:
    """Yield the plain form, and a form for branches that divide.

    Both branches are computed, also where a divisor is 0. The gradient of the selected branch is then NaN.
    """
    description, effect = "All branches are computed, and the tensor selects one.", "Both branches are always computed."
    plain, safe = ([_where(source, pick, safe=safe) for pick in choice.picks] for safe in (False, True))
    if not all(plain):
        return
    text = ", ".join(filter(None, plain))
    yield Fix("torch.where", description, (_edit(source, choice, text),), (effect,), tests=_tests(choice))
    if safe != plain:
        text = ", ".join(filter(None, safe))
        description += " Where a branch is not selected, its divisors are 1, so that no gradient becomes NaN."
        edits = (_edit(source, choice, text),)
        yield Fix("torch.where with safe divisors", description, edits, (effect,), tests=_tests(choice))


def _pure(source: SyntaxSource, value: ast.expr | str | Pick) -> bool:
    if isinstance(value, Pick):
        return _pure(source, value.then) and _pure(source, value.other)
    return isinstance(value, str) or pure(source, value)


def _where(source: SyntaxSource, value: ast.expr | str | Pick, *, safe: bool) -> str | None:
    """Return the picks as calls of `torch.where`; None if a condition can't be a tensor."""
    if not isinstance(value, Pick):
        return value if isinstance(value, str) else source.of(value)
    test, other = tensor_condition(source, value.test), _where(source, value.other, safe=safe)
    then = _where(source, value.then, safe=safe)
    if test is None or then is None or other is None:
        return None
    if safe:
        if isinstance(value.then, ast.expr):
            then = _safe_divisors(then, f"{source.torch}.where({test}, 1.0, 1.0)", 1)
        if isinstance(value.other, ast.expr):
            other = _safe_divisors(other, f"{source.torch}.where({test}, 1.0, 1.0)", 2)
    return f"{source.torch}.where({test}, {then}, {other})"


def _safe_divisors(expression: str, guard: str, position: int) -> str:
    """Return the expression with each divisor that is not a constant as the argument of `guard` at `position`."""
    tree = ast.parse(f"({expression})", mode="eval")
    divisions = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and not isinstance(node.right, ast.Constant)
    ]  # fmt: skip
    for division in divisions:
        call = ast.parse(guard, mode="eval").body
        assert isinstance(call, ast.Call)
        call.args[position], division.right = division.right, call
    return ast.unparse(tree) if divisions else expression


def _cond(source: SyntaxSource, value: ast.expr | str | Pick) -> str | None:
    """Return the picks as calls of `torch.cond`; None if a condition can't be a tensor."""
    if not isinstance(value, Pick):
        return value if isinstance(value, str) else source.of(value)
    test, other = tensor_condition(source, value.test), _cond(source, value.other)
    both = f"lambda: {_cond(source, value.then)}, lambda: {other}"
    return f"{source.torch}.cond({test}, {both})" if test and other else None


def _edit(source: SyntaxSource, choice: BranchChoice, new_text: str) -> Edit:
    if isinstance(choice.replaced, tuple):
        return source.replacement(*choice.replaced, choice.prefix + new_text)
    return Edit(source.start(choice.replaced), source.end(choice.replaced), new_text)


def _tests(choice: BranchChoice) -> tuple[ast.If | ast.IfExp, ...]:
    """Return the branches that the choice replaces."""
    nodes = choice.replaced if isinstance(choice.replaced, tuple) else (choice.replaced,)
    branches = (child for node in dict.fromkeys(nodes) for child in ast.walk(node))
    return tuple(branch for branch in branches if isinstance(branch, ast.If | ast.IfExp))


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


# ---- branches that return


def _returned(source: SyntaxSource, branch: ast.If) -> Iterator[BranchChoice]:
    """Match `if t: return a` with `return b` in its `else` or after it, and any `elif`."""
    block = source.block(branch)
    after = block[block.index(branch) + 1 :][:1]
    pick = _return_of(branch, after[0] if after else None)
    if pick is not None:
        last = branch if _exhaustive(branch) else after[0]
        yield BranchChoice((pick,), (branch, last), "return ")


def _return_of(branch: ast.If, after: ast.stmt | None) -> Pick | None:
    match branch.body:
        case [ast.Return(value=ast.expr() as then)]:
            other = _other_return(branch.orelse, after)
            return None if other is None else Pick(branch.test, then, other)
    return None


def _other_return(orelse: list[ast.stmt], after: ast.stmt | None) -> ast.expr | Pick | None:
    match orelse or ([after] if after else []):
        case [ast.Return(value=ast.expr() as other)]:
            return other
        case [ast.If() as elif_] if orelse:
            return _return_of(elif_, after)
    return None


def _exhaustive(branch: ast.If) -> bool:
    """Return whether it ends with an `else`."""
    match branch.orelse:
        case [ast.If() as elif_]:
            return _exhaustive(elif_)
    return bool(branch.orelse)


# ---- branches that assign


def _assigned(branch: ast.If) -> Iterator[BranchChoice]:
    """Match `if t: y = a`, with or without `else: y = b`, with any `elif`, and with several independent names."""
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
    """Return what a block assigns to each name; None if it does anything else, or if one value uses another."""
    values: dict[str, ast.expr] = {}
    for statement in block:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in values and not _uses(
                value, values
            ):
                values[name] = value
            case _:
                return None
    return values


def _uses(value: ast.expr, names: dict[str, ast.expr]) -> bool:
    return any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(value))


# ---- loops


LOOP_BODY = "loop_body"


def loop_fixes(site: Site) -> Iterator[Fix]:
    """Use `torch.while_loop` with the loop's own lines as its body."""
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
    new_text = f"{passed} = {torch}.while_loop(lambda {given}: {holds}, {body}, ({given}{',' * (len(names) == 1)}))"
    after = source.line_start((loop.end_lineno or loop.lineno) + 1)
    ends = "" if source.text[:after].endswith(("\n", "\r")) else line
    returned = f"{ends}{source.indent(loop.body[0])}return {passed}{line * 2}"
    edits = (
        Edit(source.start(loop), source.end(loop.test), f"def {body}({given})"),
        Edit(after, after, f"{returned}{source.indent(loop)}{new_text}{'' if ends else line}"),
    )
    yield Fix(
        "torch.while_loop",
        "The loop becomes an op of the graph, and runs as long as the tensor condition holds.",
        edits,
        ("In eager calls, torch.while_loop traces its body too.",),
        tests=(loop,),
    )


def _loop_names(loop: ast.While) -> tuple[str, ...]:
    """Return the names that a loop assigns; none if it does anything else."""
    names: dict[str, None] = {}
    for statement in loop.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]):
                names[name] = None
            case _:
                return ()
    return tuple(names)


# ---- assertions


_RAISES = "If it fails, compiled code raises torch's RuntimeError with the same message."


def assertion_fixes(site: Site) -> Iterator[Fix]:
    """Use `torch._assert_async`, which is an op of the graph."""
    source, torch = site.source, site.source.torch
    statement = source.branch(site.line) or site.statement
    if torch is None:
        return
    match statement:
        case ast.Assert(test=test, msg=message):
            holds, text = tensor_condition(source, test), _message_text(message)
        case ast.If(test=test, body=[ast.Raise(exc=ast.Call(args=[message, *_]))], orelse=[]):
            fails = tensor_condition(source, test)
            holds, text = fails and f"{torch}.logical_not({fails})", _message_text(message)
        case _:
            return
    if holds is not None and text is not None:
        new_text = f"{torch}._assert_async({holds}, {text!r})" if text else f"{torch}._assert_async({holds})"
        yield Fix(
            "torch._assert_async",
            "The check becomes an op of the graph.",
            (source.replacement(statement, statement, new_text),),
            (_RAISES, *_message_effect(statement)),
        )


def _message_text(message: ast.expr | None) -> str | None:
    """Return the constant text of the message; None if it is not a string."""
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
    return ("Its message has … in place of formatted values.",) if filled else ()
