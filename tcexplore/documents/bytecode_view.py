"""The bytecode view of the breaks pane: what runs in place of a function with a graph break, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.cells import cell_len

from tcexplore.documents.document import Part, Parts, Row, Span, by_identity, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.line_facts import read_lines
from tcexplore.documents.locations import places
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.events import FunctionRewritten, GraphBreak, Instruction, Location, ResumeFunction
from tcexplore.keymap import hint
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.bytecode_steps import BytecodeStep, bytecode_steps
from tcexplore.session.links import Link, break_link, line_link, line_links

EMPTY_TEXT = (
    "Each function with a graph break appears here as Dynamo rewrote it: the call of its graph, the line that Python "
    "runs, and the call of the function with the rest."
)

WIDE = 64
"""Columns from which what a step is and its code are on one line."""

_LABEL = 20
"""Columns for what a step is."""

known_steps = by_identity(512)(bytecode_steps)
"""Return the steps of a function, cached."""


def bytecode_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the view."""
    if not snapshot.rewritten:
        return Parts("", [empty_part(snapshot, width, EMPTY_TEXT)])
    parts = [fixed(_introduction(width))]
    breaks = _breaks_of_functions(snapshot)
    for index, function in enumerate(snapshot.rewritten):
        parts += _function(snapshot, function, _links(function, breaks[index]), toggled, width)
    return Parts(count(len(snapshot.rewritten), "function"), parts)


def _introduction(width: int) -> Iterator[Row]:
    text = (
        "What runs instead of each function with a break: its graph, your line as plain Python, then the rest of the "
        f"function, compiled on its own. {hint('open')} opens the instructions."
    )
    yield from wrapped(text, width, "muted", keys_only=True)
    yield BLANK


def rewritten_at(snapshot: Snapshot, graph_break: GraphBreak) -> tuple[FunctionRewritten, ...]:
    """Return the functions that break at the line of a break; if none is known, those of its compile."""
    at = graph_break.location
    same_line = [function for function in snapshot.rewritten if at is not None and at.line in break_lines(function)
                 and function.frame is not None and function.frame.file == at.file]  # fmt: skip
    return tuple(same_line or (each for each in snapshot.rewritten if each.graph == graph_break.graph))


@by_identity(512)
def break_lines(function: FunctionRewritten) -> frozenset[int]:
    """Return the lines at which a function leaves its graph."""
    return frozenset(resume.line for resume in function.resumes if resume.line is not None) or frozenset(
        step.line for step in known_steps(function) if step.line is not None
    )


def break_step_rows(snapshot: Snapshot, graph_break: GraphBreak, width: int) -> Iterator[Row]:
    """Yield the steps of the function that breaks and of its resume functions, for the details of the break."""
    for line in _detail_rows(snapshot, graph_break, width - 2):
        yield line._replace(spans=(Span("  "), *line.spans))


def _detail_rows(snapshot: Snapshot, graph_break: GraphBreak, width: int) -> Iterator[Row]:
    links = (break_link(graph_break), *line_links(graph_break.location))
    for function in rewritten_at(snapshot, graph_break)[:1]:
        yield from _step_rows(snapshot, function, width, links)
        line = graph_break.location.line if graph_break.location else None
        for resume in (resume for resume in function.resumes if resume.line == line):
            for rest in _compiled(snapshot, function, resume)[:1]:
                yield row("   ", (_title(rest), "heading"), (f"  graph {rest.graph}", "muted"), links=links)
                yield from _step_rows(snapshot, rest, width, links)
    yield from wrapped(f"{hint('commands')} bytecode: all functions, with their instructions", width, "muted", indent=3,
                       links=links, keys_only=True)  # fmt: skip


def _breaks_of_functions(snapshot: Snapshot) -> list[list[GraphBreak]]:
    """Return the breaks of each function; of a resume function without any, the one that it follows."""
    numbers = {id(function): index for index, function in enumerate(snapshot.rewritten)}
    breaks: list[list[GraphBreak]] = [[] for _ in numbers]
    for graph_break in snapshot.breaks:
        for function in rewritten_at(snapshot, graph_break):
            breaks[numbers[id(function)]].append(graph_break)
    at_line = {(known.location.file, known.location.line): known for known in snapshot.breaks if known.location}
    for function, own in zip(snapshot.rewritten, breaks, strict=True):
        followed = at_line.get((function.frame.file, function.resumed or 0)) if function.frame else None
        own += [followed] if followed is not None and not own else []
    return breaks


def _function(
    snapshot: Snapshot, function: FunctionRewritten, links: tuple[Link, ...], toggled: frozenset[str], width: int
) -> Iterator[Part]:
    name = f"bytecode {function.graph} {function.code_name}"
    opened = name not in toggled
    title, place = _title(function), places(snapshot.file).describe(function.frame)
    where = f"  {place}" if place and function.resumed is None else ""
    yield fixed(
        [fold(name, opened, (title, "heading"), (where, "location"), (f"  graph {function.graph}", "muted"),
              indent=0, links=links, location=function.frame)],
        title,
    )  # fmt: skip
    if not opened:
        return
    yield fixed(_step_rows(snapshot, function, width, links))
    instructions = f"{name} instructions"
    number = len(function.instructions) + function.dropped
    yield fixed([fold(instructions, instructions in toggled, (count(number, "instruction"), "muted"), indent=3,
                      keys_only=True)])  # fmt: skip
    if instructions in toggled:
        yield Part(len(function.instructions), lambda index: _instruction_row(function, index))
    yield fixed([BLANK])


def _title(function: FunctionRewritten) -> str:
    """Return the name of a function, or `rest of forward after line 12`."""
    if function.resumed is None:
        return function.name
    return f"rest of {function.name} {_beginning(function.resumed, function.goes_on)}"


def _beginning(line: int | None, goes_on: int | None) -> str:
    """Return where a resume function begins: `after line 12`, on one way of a branch `from line 15`."""
    return f"after line {line}" if goes_on in (None, line) else f"from line {goes_on}"


def _links(function: FunctionRewritten, breaks: Iterable[GraphBreak]) -> tuple[Link, ...]:
    """Return links to breaks and to the lines at which a function leaves its graph."""
    lines = sorted(break_lines(function)) if function.frame else []
    places_ = (Location(function.frame.file, line) for line in lines) if function.frame else ()
    return (*map(break_link, breaks), *map(line_link, places_))


def _step_rows(snapshot: Snapshot, function: FunctionRewritten, width: int, links: tuple[Link, ...]) -> Iterator[Row]:
    known = known_steps(function)
    file = function.frame.file if function.frame else ""
    texts = read_lines(snapshot, file) if file else {}
    for step in known:
        place = Location(file, step.line) if file and step.line is not None else None
        if step.kind in ("python", "branch") and step.line in texts:
            yield row("   ", (f"{step.line} {texts[step.line].strip()}", "location"), links=links, location=place)
        yield from _step_row(snapshot, function, step, width, links, place)


def _step_row(
    snapshot: Snapshot, function: FunctionRewritten, step: BytecodeStep, width: int, links: tuple[Link, ...],
    place: Location | None,
) -> Iterator[Row]:  # fmt: skip
    label, style = _label(function, step)
    text = (
        step.text
        if step.goes_to is None
        else f"{step.text}: {_label(function, known_steps(function)[step.goes_to])[0]}"
    )
    code = (text, "" if step.kind in ("other", "branch") else "code.python")
    compiles = _compiled(snapshot, function, step.resumes) if step.resumes is not None else []
    graphs = [other.graph for other in compiles]
    ending = (f"  → graph {', '.join(graphs)}" if graphs else "", "muted")
    if width >= WIDE:
        padding = " " * max(1, _LABEL - cell_len(label))
        yield row(
            "   ", (label, style), padding, code, ending, links=links, location=place, copy=step.text, no_wrap=True
        )
        return
    yield row("   ", (label, style), ending, links=links, location=place)
    yield row("     ", code, links=links, location=place, copy=step.text, no_wrap=True)


def _label(function: FunctionRewritten, step: BytecodeStep) -> tuple[str, str]:
    """Return what a step is, and its style."""
    match step.kind:
        case "graph":
            return f"graph {function.graph}", "target"
        case "python":
            return f"Python, line {step.line}", "break"
        case "branch":
            return f"branch, line {step.line}" if step.line is not None else "branch", "break"
        case "resume" if step.resumes is not None and step.resumes.line is not None:
            return f"rest {_beginning(step.resumes.line, step.resumes.goes_on)}", "target"
        case "resume":
            return "rest", "target"
        case "return":
            return "returns", "muted"
        case _:
            return "Dynamo adds", "muted"


def _compiled(snapshot: Snapshot, function: FunctionRewritten, resume: ResumeFunction) -> list[FunctionRewritten]:
    """Return the compiles of a resume function of this function."""
    return [
        other
        for other in snapshot.rewritten
        if resume.code_name
        and (other.code_name, other.number) == (resume.code_name, resume.number)
        and (other.frame and other.frame.file) == (function.frame and function.frame.file)
    ]


def _instruction_row(function: FunctionRewritten, index: int) -> Row:
    instruction = function.instructions[index]
    before = function.instructions[index - 1].line if index else None
    line = str(instruction.line) if instruction.line is not None and instruction.line != before else ""
    place = Location(function.frame.file, instruction.line) if function.frame and instruction.line is not None else None
    return row(
        (f"     {line:>4} {instruction.offset:>5} ", "dim"),
        (f"{instruction.op:<24}", "keyword"),
        (_operand(function, instruction), ""),
        location=place,
        copy=f"{instruction.op} {instruction.value}".rstrip(),
        no_wrap=True,
    )


def _operand(function: FunctionRewritten, instruction: Instruction) -> str:
    """Return the argument of an instruction, a name of Dynamo with what it stands for."""
    if instruction.target is not None:
        return f"to {instruction.target}"
    if "__compiled_fn" in instruction.value:
        return f"{instruction.value}  graph {function.graph}"
    resume = next((known for known in function.resumes if known.variable in instruction.value), None)
    if resume is not None and resume.code_name and resume.variable != resume.code_name:
        return f"{instruction.value}  {resume.code_name}"
    return instruction.value or ("" if instruction.arg is None else str(instruction.arg))
