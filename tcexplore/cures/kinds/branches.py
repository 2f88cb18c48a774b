"""A branch on a tensor: both ways computed and one of them picked, by the tensor itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from tcexplore.cures.condition import condition
from tcexplore.cures.cure import Cure, Site
from tcexplore.cures.edit import Edit
from tcexplore.cures.pure import pure
from tcexplore.cures.source import Source


class Choice(NamedTuple):
    """What is chosen between: `then` where `test` holds, else `other`, an expression or a name. `whole` is replaced: an
    expression, or the first and the last of some statements, of which `head` is kept."""

    test: ast.expr
    then: ast.expr
    other: ast.expr | str
    whole: ast.expr | tuple[ast.stmt, ast.stmt]
    head: str = ""


def propose(site: Site) -> Iterator[Cure]:
    """`torch.where` where both ways are only arithmetic, `torch.cond` where modules are called."""
    source = site.source
    for choice in _choices(site):
        test, torch = condition(source, choice.test), source.torch
        if test is None or torch is None:
            continue
        then, other = source.of(choice.then), choice.other
        otherwise = other if isinstance(other, str) else source.of(other)
        both = isinstance(other, str) or pure(source, other)
        if both and pure(source, choice.then):
            yield Cure(
                "torch.where",
                "Both ways are computed, and the tensor picks one.",
                (_edit(source, choice, f"{torch}.where({test}, {then}, {otherwise})"),),
                ("The way that is not taken is computed as well.",),
            )
        else:
            yield Cure(
                "torch.cond",
                "Both ways are traced into the graph, and the tensor picks the one that runs.",
                (_edit(source, choice, f"{torch}.cond({test}, lambda: {then}, lambda: {otherwise})"),),
                ("In eager calls torch.cond traces both ways, too.",),
            )


def _edit(source: Source, choice: Choice, made: str) -> Edit:
    if isinstance(choice.whole, tuple):
        return source.instead(*choice.whole, choice.head + made)
    return Edit(source.start(choice.whole), source.end(choice.whole), made)


def _choices(site: Site) -> Iterator[Choice]:
    source = site.source
    branch = source.branch(site.line)
    if branch is not None:
        yield from _returned(source, branch)
        yield from _assigned(branch)
    for node in ast.walk(site.statement):
        if isinstance(node, ast.IfExp) and node.lineno <= site.line <= (node.end_lineno or node.lineno):
            yield Choice(node.test, node.body, node.orelse, node)
            return


def _returned(source: Source, branch: ast.If) -> Iterator[Choice]:
    """`if t: return a`, with `return b` in its `else` or behind it."""
    match branch.body, branch.orelse:
        case [ast.Return(value=ast.expr() as then)], [ast.Return(value=ast.expr() as other)]:
            yield Choice(branch.test, then, other, (branch, branch), "return ")
        case [ast.Return(value=ast.expr() as then)], []:
            block = source.block(branch)
            match block[block.index(branch) + 1 :][:1]:
                case [ast.Return(value=ast.expr() as other) as last]:
                    yield Choice(branch.test, then, other, (branch, last), "return ")


def _assigned(branch: ast.If) -> Iterator[Choice]:
    """`if t: y = a`, with `else: y = b` or with what `y` was before."""
    match branch.body, branch.orelse:
        case [ast.Assign(targets=[ast.Name(id=one)], value=then)], [ast.Assign(targets=[ast.Name(id=two)], value=b)]:
            if one == two:
                yield Choice(branch.test, then, b, (branch, branch), f"{one} = ")
        case [ast.Assign(targets=[ast.Name(id=one)], value=then)], []:
            yield Choice(branch.test, then, one, (branch, branch), f"{one} = ")
