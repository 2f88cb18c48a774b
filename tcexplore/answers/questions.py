"""The questions of `tcexplore ask`: what each reads of the report of a run, and its answer.

All answers come from the JSON report, so a run, a trace and a saved report answer alike. Only `recompile` needs the
program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tcexplore.answers.answer import Answer, Fields
from tcexplore.answers.changes import report_changes
from tcexplore.answers.fusion import fusion_reasons
from tcexplore.answers.selection import brief
from tcexplore.events import NO_MATCH
from tcexplore.session.stable_ids import is_id

SLOWEST = 10
"""Kernels of an answer if no number is given."""


EXPLAINED = 12
"""Pairs of neighbors whose reasons are looked up: more do not fit into an answer."""


class QuestionError(Exception):
    """The question cannot be answered as it was asked; the message says what to ask instead."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its arguments."""

    question: str
    arguments: tuple[str, ...] = ()
    """Ids, names, a line or inputs."""
    line: int | None = None
    """Only what belongs to this line."""
    slowest: int | None = None
    """The number of kernels with the most time."""


class Question(NamedTuple):
    """One question: the keys of the report that it reads, and how it is answered."""

    name: str
    usage: str
    """Its arguments."""
    summary: str
    keys: frozenset[str]
    answer: Callable[[Fields, Asked], Answer]
    timed: bool = False
    """Whether it needs measured times, so that a run must not be for its structure only."""
    needs_program: bool = False
    """Whether the program has to be run, so that neither a trace nor a saved report can answer."""


# ---- parts that several answers have


def where(part: Fields) -> str:
    """Return `model.py:14 in forward`; empty if the place is unknown."""
    if part.get("file") is None:
        return ""
    function = f" in {part['function']}" if part.get("function") else ""
    return f"{part['file']}:{part['line']}{function}"


def _placed(part: Fields, **more: Any) -> Fields:
    """Return a part with its place in one field."""
    fields = {name: value for name, value in part.items() if name not in ("file", "line", "function")}
    return {"id": part.get("id"), "where": where(part), **fields, **more}


def _break(graph_break: Fields) -> Fields:
    fix = graph_break["fix"]
    cost = graph_break["cost"]
    return {
        "id": graph_break["id"],
        "where": where(graph_break),
        "code": graph_break["user_code"],
        "reason": graph_break["reason"],
        "fix": fix and {
            "id": fix["id"], "name": fix["name"], "state": fix["state"], "note": fix["note"],
            "side_effects": fix["side_effects"], "diff": "\n".join(fix["diff"][2:]),
        },
        "advice": graph_break["advice"],
        "cost": cost and {name: cost[name] for name in ("us", "share", "basis")},
    }  # fmt: skip


def _kernel(kernel: Fields) -> Fields:
    measured = kernel["measured"] or {}
    return {
        "id": kernel["id"],
        "name": kernel["name"],
        "where": ", ".join(_lines(kernel["source_lines"])),
        "graph": f"{kernel['graph']} {kernel['phase']}",
        "ops": kernel["ops"],
        "us": measured.get("us"),
        "bound_share": measured.get("bound_share"),
        "bytes": _total(kernel["bytes_read"], kernel["bytes_written"]),
        "bytes_saved_by_fusion": kernel["bytes_saved"] or None,
    }


def _total(*values: int | None) -> int | None:
    return None if None in values else sum(value for value in values if value is not None)


def _lines(pairs: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield `model.py:21,23` for the lines of each file."""
    files: dict[str, list[int]] = {}
    for file, line in pairs:
        files.setdefault(file, []).append(line)
    for file, lines in files.items():
        yield f"{file}:{','.join(map(str, sorted(set(lines))))}"


def _guard(guard: Fields) -> Fields:
    return {
        "id": guard["id"], "where": where(guard), "graph": guard["graph"], "kind": guard["kind"],
        "source": guard["source"], "value": guard["summary"], "code": None if guard["summary"] else guard["code"],
    }  # fmt: skip


def _of_line(parts: Iterable[Fields], line: int | None, file: str) -> list[Fields]:
    """Return the parts at a line of the model file; all without a line."""
    return [part for part in parts if line is None or (part["line"] == line and part["file"] == file)]


def _on_line(pairs: Iterable[Sequence[Any]], line: int, file: str) -> bool:
    return any(pair[0] == file and pair[1] == line for pair in pairs)


def _find(parts: Sequence[Fields], wanted: str, noun: str) -> Fields:
    """Return the part with an id, the beginning of one, or a name. Raises `QuestionError`."""
    exact = [part for part in parts if wanted in (part.get("id"), part.get("name"))]
    close = [part for part in parts if str(part.get("id")).startswith(wanted) or wanted in str(part.get("name", ""))]
    found = exact or close
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{part['id']} {part.get('name', '')}".strip() for part in (found or parts)[:8])
    problem = f"several {noun}s match {wanted!r}" if found else f"there is no {noun} {wanted!r}"
    raise QuestionError(f"{problem}: {known or 'the run has none'}")


def _status(report: Fields) -> Fields:
    """Return what every answer begins with: an error if the run failed."""
    error = report["error"]
    facts: Fields = {"file": report["file"]}
    if report["status"] != "ok":
        facts["status"] = report["status"]
    if error is not None:
        facts["error"] = {name: error[name] for name in ("type", "message", "file", "line", "hint") if error[name]}
    return facts


STATUS = frozenset({"file", "status", "error"})


# ---- the answers


def _summary(report: Fields, asked: Asked) -> Answer:
    timing, kernels = report["timing"], report["kernels"]
    generated = [kernel for kernel in kernels if kernel["language"] != "extern"]
    entry = report["entry"] or {}
    facts = {
        **_status(report),
        "entry": f"{entry['name']} ({entry['kind']})" if entry.get("name") else None,
        "inputs": ["; ".join(call) for call in entry.get("calls", ())][:4],
        "torch": report["torch"],
        "graphs": len(report["graphs"]),
        "ops": sum(graph["ops"] for graph in report["graphs"]),
        "breaks": len(report["breaks"]),
        "not_compiled": [where(frame) for frame in report["uncompiled_functions"]],
        "recompiles": len({recompile["graph"] for recompile in report["recompiles"] if not recompile["limit_hit"]}),
        "runs_eagerly_at_recompile_limit": [
            where(frame) for frame in report["frames"] if frame["limit_hit"] and frame["at_limit"] == "eager"
        ],
        "kernels": f"{len(generated)} generated, {len(kernels) - len(generated)} library calls",
        "timing": timing and {
            "verdict": timing["verdict"], "speedup": timing["speedup"], "interval_95": timing["ci95"],
            "eager_us": timing["eager_us"], "compiled_us": timing["compiled_us"], "advice": timing["recommendation"],
        },
        "accuracy": report["accuracy"] and report["accuracy"]["summary"],
        "compile_s": report["compile_time"]["seconds"] or None,
        "not_measured": [f"{one['fact']}: {one['reason']}" for one in report["missing"] if one["fact"] in _MEASURED],
    }  # fmt: skip
    top = [{"id": b["id"], "where": where(b), "reason": b["reason"], "fix": b["fix"] and b["fix"]["name"]}
           for b in report["breaks"][:3]]  # fmt: skip
    slow = [kernel for kernel in _slowest(kernels) if kernel["measured"]][:3]
    times = [{"id": k["id"], "name": k["name"], "us": k["measured"]["us"]} for k in slow]
    lists = {name: items for name, items in (("first_breaks", top), ("slowest_kernels", times)) if items}
    return Answer(asked.question, facts, lists, tuple(_next_questions(report)))


_MEASURED = ("timing", "accuracy")


def _next_questions(report: Fields) -> Iterator[str]:
    if report["breaks"]:
        yield "breaks"
    if report["recompiles"]:
        yield "recompiles"
    if report["kernels"]:
        yield "kernels --slowest 5"


def _breaks(report: Fields, asked: Asked) -> Answer:
    facts = {**_status(report), "not_compiled": [where(frame) for frame in report["uncompiled_functions"]]}
    if asked.arguments:
        graph_break = _find(report["breaks"], asked.arguments[0], "break")
        whole = _placed(graph_break, fix=_break(graph_break)["fix"], stack=[where(f) for f in graph_break["stack"]])
        return Answer(asked.question, facts, {"breaks": [whole]})
    breaks = _of_line(report["breaks"], asked.line, report["file"])
    hints = ("tcexplore fix FILE --json verifies the fixes, and --write applies them",) if breaks else ()
    return Answer(asked.question, facts, {"breaks": [_break(b) for b in breaks]}, hints)


def _slowest(kernels: Sequence[Fields]) -> list[Fields]:
    """Return the kernels by time, those without one by bytes."""
    return sorted(kernels, key=lambda k: (-(k["measured"] or {"us": -1})["us"], -(k["bytes_read"] or 0)))


def _kernels(report: Fields, asked: Asked) -> Answer:
    kernels, facts = report["kernels"], _status(report)
    if asked.arguments:
        kernel = _find(kernels, asked.arguments[0], "kernel")
        more = ("fusion_kinds", "fused_nodes", "flops", "dtypes", "roofline", "resources", "not_assembled", "user_op")
        whole = {**_kernel(kernel), "calls": len(kernel["calls"]), **{name: kernel[name] for name in more}}
        return Answer(asked.question, facts, {"kernels": [{**whole, "source": kernel["source"]}]})
    if asked.line is not None:
        kernels = [kernel for kernel in kernels if _on_line(kernel["source_lines"], asked.line, report["file"])]
    if kernels and not any(kernel["measured"] for kernel in kernels):
        reason = next((one["reason"] for one in report["missing"] if one["fact"] == "timing"), "no call was profiled")
        facts["not_measured"] = f"{reason}; sorted by bytes"
    shown = _slowest(kernels)[: asked.slowest] if asked.slowest else kernels
    facts["kernels_in_all"] = len(kernels) if len(shown) < len(kernels) else None
    return Answer(asked.question, facts, {"kernels": list(map(_kernel, shown))}, ("kernels ID has its source",))


def _why_not_fused(report: Fields, asked: Asked) -> Answer:
    kernels = report["kernels"]
    if len(asked.arguments) != 2:
        known = {(kernel["graph"], kernel["phase"], kernel["name"]): kernel for kernel in kernels}
        pairs = [
            [known[pair["graph"], pair["phase"], pair[side]] for side in ("a", "b")]
            for pair in report["unfused_neighbors"]
        ]
        neighbors = [_apart(report, *pair) for pair in pairs[:EXPLAINED]]
        neighbors += [{"a": _kernel_line(a), "b": _kernel_line(b)} for a, b in pairs[EXPLAINED:]]
        return Answer(asked.question, _status(report), {"neighbors": neighbors}, ("why-not-fused A B for any two",))
    first, second = (_find(kernels, name, "kernel") for name in asked.arguments)
    if first is second:
        raise QuestionError("these are the same kernel")
    return Answer(asked.question, {**_status(report), **_apart(report, first, second)})


def _apart(report: Fields, first: Fields, second: Fields) -> Fields:
    """Return two kernels and why they are not fused."""
    return {
        "a": _kernel_line(first), "b": _kernel_line(second), "reasons": fusion_reasons(report, first, second),
    }  # fmt: skip


def _kernel_line(kernel: Fields) -> str:
    return f"{kernel['id']} {kernel['name']} ({', '.join(kernel['ops'])}) {', '.join(_lines(kernel['source_lines']))}"


def _guards(report: Fields, asked: Asked) -> Answer:
    guards, facts = report["guards"], _status(report)
    if asked.arguments:
        guard = _find([{**guard, "name": guard["source"]} for guard in guards], asked.arguments[0], "guard")
        return Answer(asked.question, facts, {"guards": [_placed(guard)]})
    guards = _of_line(guards, asked.line, report["file"])
    own = [guard for guard in guards if asked.line is not None or not guard["structural"]]
    if len(own) < len(guards):
        facts["structural"] = f"{len(guards) - len(own)} guards on modules and torch's own state are not listed"
    return Answer(asked.question, facts, {"guards": list(map(_guard, own))})


def _recompiles(report: Fields, asked: Asked) -> Answer:
    recompiles = [_placed(brief("recompiles", r), reason=r["reason"]) for r in report["recompiles"]]
    fixes = [{**brief("recompile_fixes", fix), "tried": fix["tried"], "problem": fix["problem"]}
             for fix in report["recompile_fixes"]]  # fmt: skip
    return Answer(asked.question, _status(report), {"recompiles": recompiles, "fixes": fixes})


def _recompile(report: Fields, asked: Asked) -> Answer:
    """Answer from `recompile_answers`, which the run made for these inputs."""
    if not asked.arguments:
        raise QuestionError("recompile needs inputs, such as 'f32[33, 512]'")
    answers = []
    for answer in report["recompile_answers"][-len(asked.arguments) :]:
        frames = [_frame_answer(frame) for frame in answer["frames"]]
        verdicts = {frame["verdict"] for frame in answer["frames"]}
        recompiles = not verdicts.isdisjoint(NO_MATCH)
        sure = bool(verdicts) and not answer["problem"]
        answers.append({
            "inputs": ", ".join(answer["inputs"]), "problem": answer["problem"],
            "would_recompile": recompiles if recompiles or (sure and "unknown" not in verdicts) else None,
            "changed_with": answer["changed_with"], "with_equal_sizes": answer["with_equal_sizes"], "frames": frames,
        })  # fmt: skip
    if not answers:
        reason = next((one["reason"] for one in report["missing"] if "recompile" in one["fact"]), "the run gave none")
        return Answer(asked.question, _status(report), problem=f"no answer: {reason}")
    return Answer(asked.question, _status(report), {"answers": answers})


def _frame_answer(frame: Fields) -> Fields:
    failed = [{"graph": entry["graph"], **_failed_guard(entry["failed"])} for entry in frame["entries"]
              if entry["failed"]]  # fmt: skip
    dynamic = frame["dynamic"]
    return {"where": where(frame), "verdict": frame["verdict"], "graph": frame["graph"], "note": frame["note"],
            "failed": failed, "new_graph_dynamic_in": dynamic}  # fmt: skip


def _failed_guard(failed: Fields) -> Fields:
    return {name: failed[name] for name in ("reason", "name", "dim", "old", "new") if failed.get(name) is not None}


def _next(report: Fields, asked: Asked) -> Answer:
    steps = [
        {
            "name": step["title"], "where": where(step), "gain": _gain(step), "evidence": step["evidence"],
            "code": step["code"], "risk": step["risk"], "tried": step["tried"],
        }
        for step in report["next"]
    ]  # fmt: skip
    hints = ("tcexplore next FILE measures the steps that are not measured",) if steps else ()
    return Answer(asked.question, _status(report), {"steps": steps}, hints)


def _gain(step: Fields) -> str | None:
    """Return `1.8 times faster [1.5, 2.1], measured`; None if nothing is known."""
    if step["gain"] is None and step["gain_high"] is None:
        return None
    value = "at most" if step["gain"] is None else f"{step['gain']:.3g}"
    ends = [f"{end:.3g}" for end in (step["gain_low"], step["gain_high"]) if end is not None]
    interval = f" [{', '.join(ends)}]" if step["gain"] is not None and ends else f" {ends[-1]}" if ends else ""
    return f"{value}{interval} {step['unit']}, {'measured' if step['measured'] else 'not measured'}"


def _diff(report: Fields, asked: Asked) -> Answer:
    before = report.get("before")
    if before is None:
        return Answer(asked.question, _status(report), problem=(
            "there is no earlier run: give a report of check --json with --against, or ask a session after an edit"
        ))  # fmt: skip
    facts, lists = report_changes(before, report)
    return Answer(asked.question, {**_status(report), **facts}, lists)


def _line(report: Fields, asked: Asked) -> Answer:
    line = asked.line
    if line is None and asked.arguments and asked.arguments[0].isdecimal():
        line = int(asked.arguments[0])
    if line is None:
        raise QuestionError("line needs a number")
    file = report["file"]
    nodes = [(graph, node) for graph in report["graphs"] for node in graph["nodes"]
             if node["line"] == line and node["file"] == file]  # fmt: skip
    kernels = [kernel for kernel in report["kernels"] if _on_line(kernel["source_lines"], line, file)]
    guards = _of_line(report["guards"], line, file)
    traffic = next((one for one in report["line_traffic"] if (one["file"], one["line"]) == (file, line)), None)
    times = [one for one in report["line_times"] if (one["file"], one["line"]) == (file, line)]
    facts = {
        **_status(report),
        "line": line,
        "id": traffic["id"] if traffic else None,
        "time": [brief_time(one) for one in times],
        "memory_bytes": traffic and traffic["bytes"],
    }
    lists = {
        "breaks": [_break(b) for b in _of_line(report["breaks"], line, file)],
        "ops": [{"id": n["id"], "name": n["name"], "graph": g["id"], "target": n["target"], "shape": _shape(n)}
                for g, n in nodes],
        "kernels": list(map(_kernel, kernels)),
        "guards": list(map(_guard, guards)),
    }  # fmt: skip
    if not any(lists.values()):
        facts["note"] = "no op, break, kernel or guard is on this line"
    return Answer(asked.question, facts, {name: items for name, items in lists.items() if items})


def brief_time(time: Fields) -> Fields:
    return {name: time[name] for name in ("phase", "compiled_us", "eager_us", "share", "estimated") if time[name]}


def _shape(node: Fields) -> str | None:
    return None if node["shape"] is None else f"{node['dtype']}[{', '.join(map(str, node['shape']))}]"


def _show(report: Fields, asked: Asked) -> Answer:
    """Answer with everything about the part with an id."""
    if len(asked.arguments) != 1:
        raise QuestionError("show needs one id")
    (id_,) = asked.arguments
    for key in ("breaks", "kernels", "guards"):
        if any(part["id"] == id_ for part in report[key]):
            return QUESTIONS[key].answer(report, asked)
    for key, part in _other_parts(report):
        if part["id"] == id_:
            return _line(report, Asked("line", line=part["line"])) if key == "lines" else Answer(
                key, _status(report), {key: [_placed(part) if "line" in part else part]}
            )  # fmt: skip
    raise QuestionError(f"the run has no part {id_}: it is of another file, or the edit removed it")


def _other_parts(report: Fields) -> Iterator[tuple[str, Fields]]:
    """Yield the parts that no question is about, with the name of their list."""
    for graph in report["graphs"]:
        for nodes in (graph["nodes"], *(subgraph["nodes"] for subgraph in graph["subgraphs"])):
            yield from (("ops", {**node, "graph": graph["id"]}) for node in nodes)
    for key in ("line_traffic", "line_times"):
        yield from (("lines", part) for part in report[key])
    for key in ("modules", "recompile_fixes"):
        yield from ((key, part) for part in report[key])
    for graph_break in report["breaks"]:
        if graph_break["fix"]:
            yield "fixes", {**graph_break["fix"], "break": graph_break["id"]}


_KERNEL_KEYS = STATUS | {"kernels", "missing"}

QUESTIONS: dict[str, Question] = {
    question.name: question
    for question in (
        Question("summary", "", "verdict, counts, times, the first breaks and kernels", STATUS | {
            "entry", "torch", "graphs", "breaks", "uncompiled_functions", "recompiles", "frames", "kernels", "timing",
            "accuracy", "compile_time", "missing",
        }, _summary, timed=True),
        Question("next", "", "what to do next, the greatest gain first, with its evidence", STATUS | {"next"}, _next,
                 timed=True),
        Question("breaks", "[ID]", "graph breaks with reason and fix; with an id, everything about one",
                 STATUS | {"breaks", "uncompiled_functions"}, _breaks),
        Question("kernels", "[ID] [--slowest N] [--line N]", "kernels with ops, lines, times; with an id, the source",
                 _KERNEL_KEYS, _kernels, timed=True),
        Question("why-not-fused", "[A B]", "why two kernels are separate; without names, each pair of neighbors",
                 STATUS | {"kernels", "fusion_decisions", "schedules", "unfused_neighbors"}, _why_not_fused),
        Question("guards", "[ID] [--line N]", "conditions under which the code is used again", STATUS | {"guards"},
                 _guards),
        Question("recompiles", "", "recompiles that happened, their causes, and ways to avoid them",
                 STATUS | {"recompiles", "recompile_fixes"}, _recompiles),
        Question("recompile", "INPUTS…", "whether calls with other inputs would recompile; nothing is compiled",
                 STATUS | {"recompile_answers", "missing"}, _recompile, needs_program=True),
        Question("diff", "[--against REPORT]", "what changed since the last run, or since a saved report",
                 STATUS | {"graphs", "breaks", "guards", "kernels", "recompiles", "timing"}, _diff),
        Question("line", "N", "the breaks, ops, kernels, guards and time of a line", STATUS | {
            "graphs", "breaks", "kernels", "guards", "line_traffic", "line_times",
        }, _line),
        Question("show", "ID", "everything about the part with an id", STATUS | {
            "graphs", "breaks", "kernels", "guards", "modules", "recompile_fixes", "line_traffic", "line_times",
            "uncompiled_functions", "missing",
        }, _show),
    )
}  # fmt: skip
"""The questions by name."""

_LINE = re.compile(r"\d+")


def asked_of(words: Sequence[str], line: int | None = None, slowest: int | None = None) -> Asked:
    """Return the question of some words: its name and arguments, or only an id. Raises `QuestionError`."""
    name, *arguments = words or ("summary",)
    if is_id(name) and not arguments:
        return Asked("show", (name,))
    if name not in QUESTIONS:
        raise QuestionError(f"there is no question {name!r}; there are {', '.join(QUESTIONS)}")
    if name == "line" and line is None and arguments and _LINE.fullmatch(arguments[0]):
        line = int(arguments[0])
    return Asked(name, tuple(arguments), line, slowest)


def answer(report: Fields, asked: Asked) -> Answer:
    """Return the answer to a question from a report with the keys that it reads."""
    try:
        return QUESTIONS[asked.question].answer(report, asked)
    except QuestionError as error:
        return Answer(asked.question, {"file": report["file"]}, problem=str(error))
