"""Kernels and their calls in the text of Inductor's generated module."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tcexplore.torch_text.kernel_source import KernelSource, kernel_source

_DEFINITION = re.compile(r"^(\w+) = async_compile\.(\w+)\(", re.M)
_AOT_ID = re.compile(r"^# AOT ID: \['(.+?)'\]", re.M)
_ATEN = re.compile(r"Original ATen: \[(.*?)\]")
_SOURCE_NODES = re.compile(r"Source Nodes: \[(.*?)\]")
_HANDLE = re.compile(r"\[Provenance debug handles\] (\S+)")
_MAPPING = re.compile(r"^#\s{2,}(\S+) => (.+)$")
_FRAGMENT = re.compile(r"^#\s+%(\w+) : .*= call_function\[target=([\w.]+)\]")
_EXTERN = re.compile(r"^(?:(\w+) = )?((?:extern_kernels|aten|torch\.ops)\.[\w.]+)\((.*)$")
_DEFINED_SIZE = re.compile(r"^(?:u|zuf)\d+ = (\w+)[.\[]")
"""A size or value that torch reads from the result of a call: `u0 = buf5.size(0)`."""
_REUSE = re.compile(r"^(\w+) = (\w+); del \2  # reuse$|^(\w+) = reinterpret_tensor\((\w+), .*\); del \4  # reuse$")


@dataclass(slots=True)
class CommentBlock:
    """Inductor's comment above a kernel or an extern call."""

    ops: tuple[str, ...] = ()
    """Original ATen ops."""
    nodes: tuple[str, ...] = ()
    """Post-grad nodes."""
    source_nodes: tuple[str, ...] = ()
    """Dynamo nodes."""
    handles: tuple[str, ...] = ()
    """Keys of the provenance records: `cpp_fused_add_0:2`."""


@dataclass(slots=True)
class WrittenCall:
    """One call of a kernel."""

    name: str
    text: str
    comment: CommentBlock


@dataclass(slots=True)
class WrapperText:
    """Definitions and calls of a generated module."""

    aot_id: str
    """`0_forward`; empty if torch does not write it."""
    kernels: dict[str, KernelSource] = field(default_factory=dict)
    comments: dict[str, CommentBlock] = field(default_factory=dict)
    """By the name of the kernel."""
    calls: list[WrittenCall] = field(default_factory=list)
    reused: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_backward(self) -> bool:
        """Whether the module is that of a backward graph."""
        return self.aot_id.endswith("backward")


def read_wrapper(text: str) -> WrapperText:
    """Return the kernels, extern calls and reused buffers of a generated module."""
    aot_id = _AOT_ID.search(text)
    wrapper = WrapperText(aot_id[1] if aot_id else "")
    end = 0
    functions = ""
    for match in _DEFINITION.finditer(text):
        if match.start() < end:
            continue
        functions += _functions(text[end : match.start()]) if end else ""
        end = _definition_end(text, match.end())
        body = text[match.start(2) - len("async_compile.") : end]
        wrapper.kernels[match[1]] = kernel_source(body)
        wrapper.comments[match[1]] = read_comment(_lines_above(text, match.start()))
    _read_calls(wrapper, f"{functions}{text[max(end, 0) :]}".split("\n"))
    return wrapper


def _functions(text: str) -> str:
    """Return the functions between two definitions, which run subgraphs, without comments on the next definition."""
    start = text.find("\ndef ")
    return f"{text[start:]}\n    pass\n" if start >= 0 else ""


def _definition_end(text: str, start: int) -> int:
    """Return the end of a definition: the parenthesis after its triple-quoted text."""
    quote = text.find("'''", start)
    line_end = text.find("\n", start)
    if quote < 0 or 0 <= line_end < quote:
        return line_end if line_end >= 0 else len(text)
    close = text.find("'''", quote + 3)
    end = text.find("\n", close)
    return len(text) if close < 0 or end < 0 else end


def _lines_above(text: str, start: int) -> list[str]:
    """Return the comment lines right above a position."""
    lines: list[str] = []
    end = start - 1
    while end > 0:
        begin = text.rfind("\n", 0, end) + 1
        line = text[begin:end].strip()
        if not line.startswith("#"):
            break
        lines.append(line)
        end = begin - 1
    return lines[::-1]


def read_comment(lines: Sequence[str]) -> CommentBlock:
    """Return the ops and nodes that a comment names."""
    block = CommentBlock()
    mapped: list[str] = []
    fragment: list[str] = []
    for line in lines:
        if aten := _ATEN.search(line):
            block.ops = _names(aten[1])
            source_nodes = _SOURCE_NODES.search(line)
            block.source_nodes = _names(source_nodes[1]) if source_nodes else ()
        elif handle := _HANDLE.search(line):
            block.handles = (*block.handles, handle[1])
        elif node := _FRAGMENT.match(line):
            fragment.append(node[1])
        elif pair := _MAPPING.match(line):
            mapped += [name.strip() for name in pair[2].split(",")]
    block.nodes = tuple(dict.fromkeys(fragment or mapped))
    return block


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _read_calls(wrapper: WrapperText, lines: Iterable[str]) -> None:
    comment: list[str] = []
    for code in _body(lines):
        if code.startswith("#"):
            comment.append(code)
            continue
        call = _call(code, wrapper)
        if call is not None:
            wrapper.calls.append(WrittenCall(call, code, read_comment(comment)))
            comment = []
        elif wrapper.calls and _reads_result(code, wrapper.calls[-1]):
            wrapper.calls[-1].text += f"\n{code}"
        elif reuse := _REUSE.match(code):
            wrapper.reused.append((reuse[2] or reuse[4], reuse[1] or reuse[3]))
        elif not _keeps_comment(code):
            comment = []


def _reads_result(code: str, call: WrittenCall) -> bool:
    """Return whether a statement defines a symbol from the result of an extern call: it is part of that call."""
    match = _DEFINED_SIZE.match(code)
    return match is not None and call.text.startswith(f"{match[1]} = ")


def _body(lines: Iterable[str]) -> Iterator[str]:
    """Yield the statements before the module's benchmark, joined if they span lines."""
    pending = ""
    for line in lines:
        if line.startswith(("def benchmark_compiled_module", "def get_args")):
            return
        code = line.strip()
        if not code or (not line.startswith(" ") and not line.startswith("#")):
            continue
        code = f"{pending} {code}" if pending else code
        pending = code if _is_open(code) and len(code) < 20_000 else ""
        if not pending:
            yield code


def _is_open(code: str) -> bool:
    return not code.startswith("#") and code.endswith((",", "(")) and code.count("(") > code.count(")")


def _keeps_comment(code: str) -> bool:
    return " = empty_strided" in code or code.startswith(("with ", "stream", "raw_stream", "torch.cuda.set_device"))


def _call(code: str, wrapper: WrapperText) -> str | None:
    """Return the name of the called kernel, None for any other statement."""
    name = code.partition("(")[0].strip()
    kernel = name.removesuffix(".run")
    if kernel in wrapper.kernels:
        return kernel
    match = _EXTERN.match(code)
    return match[2] if match else None
