"""Why a lookup in a compile cache missed: the nearest earlier key, the parts that differ, and the line behind each."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.events.base import frame_number
from tcexplore.session.snapshot import Snapshot

MOST_KEYS = 50
"""Earlier keys of a cache that a key is compared with."""

GRAPH, INPUTS, FLAGS = "gm", "example_inputs", "fx_kwargs"

ELSEWHERE = {
    "torch_version": "another build of torch",
    "system_info": "another machine, device or version of Triton",
    "default_cuda_device_index": "another current device",
}
"""Meaning of parts that no line of the program sets."""

_CALLS: dict[str, str] = {
    "deterministic_algorithms": r"use_deterministic_algorithms|fill_uninitialized_memory",
    "deterministic_algorithms_settings": r"use_deterministic_algorithms|fill_uninitialized_memory",
    "cuda_matmul_settings": r"set_float32_matmul_precision|allow_tf32|allow_\w+_reduced_precision|fp32_precision",
    "default_dtype": r"set_default_dtype|set_default_tensor_type",
    "cpp_runtime_thread_count": r"set_num_threads",
    "grad_enabled": r"no_grad|enable_grad|set_grad_enabled|inference_mode",
    "autocast_state": r"autocast",
    "saved_tensors_hooks_fx_wrap_cache_hashes": r"saved_tensors_hooks",
    "sac_context_fn_hashes": r"checkpoint",
    "region_activation_memory_budget": r"activation_memory_budget",
    "user_defined_triton_source": r"triton\.jit|triton\.autotune",
    "triton_kernel_source_codes": r"triton\.jit|triton\.autotune",
    "fx_kwargs[is_inference]": r"no_grad|enable_grad|set_grad_enabled|inference_mode|requires_grad",
    "fx_kwargs[cudagraphs]": r"cudagraphs|mode\s*=|options\s*=",
}
"""Code that sets a part of a key, as a regular expression."""

_COMPILE_ARGUMENTS = r"\b(?:mode|options|dynamic)\s*="
_SETTING = re.compile(r"^\w*config\w*\[(?:.*\.)?(\w+)\]$")
_NUMBER = re.compile(r"\[(\d+)\]$")
_TENSOR = re.compile(r"dtype=torch\.(\w+), shape=torch\.Size\(\[([^\]]*)\]\), stride=(\([^)]*\))")


class _Lookup(NamedTuple):
    """A key with all of its parts."""

    run: Snapshot
    event: ev.CacheKey
    parts: dict[str, ev.KeyPart]


def cache_misses(snapshot: Snapshot, *earlier: Snapshot) -> tuple[ev.CacheMissed, ...]:
    """Explain the misses of a run by its own earlier keys and those of earlier runs; the last of these is the newest.

    The first compile of a graph has nothing to hit, and is left out.
    """
    if not earlier and snapshot.cache_misses:
        return snapshot.cache_misses
    misses: dict[str, ev.CacheMissed] = {}
    for cache in sorted({key.cache for key in snapshot.cache_keys}, reverse=True):  # Inductor's first: it has all parts
        for miss in _misses(cache, snapshot, earlier):
            known = misses.get(miss.graph)
            misses[miss.graph] = miss if known is None else _joined(known, miss)
    return tuple(misses.values())


def _joined(one: ev.CacheMissed, other: ev.CacheMissed) -> ev.CacheMissed:
    """Return two misses of a graph as one. Both keys have the same settings."""
    known = {difference.part for difference in one.differences}
    more = tuple(difference for difference in other.differences if difference.part not in known)
    differences = sorted((*one.differences, *more), key=lambda difference: _is_consequence(difference.part))
    return replace(one, caches=tuple(dict.fromkeys((*one.caches, *other.caches))), differences=tuple(differences))


def _misses(cache: str, snapshot: Snapshot, earlier: Sequence[Snapshot]) -> Iterator[ev.CacheMissed]:
    missed = _missed(cache, snapshot)
    known: list[_Lookup] = []
    varied = set[str]()
    last: dict[str, ev.KeyPart] = {}
    for run in (*earlier, snapshot):
        for lookup in _lookups(cache, run):
            if known:
                varied |= {name for name in {**last, **lookup.parts} if not _equal(name, last, lookup.parts)}
            last = lookup.parts
            if run is snapshot and id(lookup.event) in missed:
                nearest = _nearest(lookup, known[-MOST_KEYS:], varied)
                if nearest is not None:
                    yield _explained(cache, lookup, nearest, varied)
            known.append(lookup)


def _missed(cache: str, snapshot: Snapshot) -> set[int]:
    """Return the identities of the keys whose lookups missed; keys and lookups are in the same order.

    In a trace only the misses of AOTAutograd may have keys.
    """
    missed = set[int]()
    keys = [key for key in snapshot.cache_keys if key.cache == cache]
    for graph in dict.fromkeys(key.graph for key in keys):
        own = [key for key in keys if key.graph == graph]
        lookups = [one for one in snapshot.cache_lookups if (one.cache, one.graph) == (cache, graph)]
        outcomes = [one.outcome for one in lookups if one.outcome != "bypass"]
        if len(own) == outcomes.count("miss"):
            outcomes = ["miss"] * len(own)
        missed |= {id(key) for key, outcome in zip(own, outcomes, strict=False) if outcome == "miss"}
    return missed


def _lookups(cache: str, run: Snapshot) -> Iterator[_Lookup]:
    parts: dict[str, ev.KeyPart] = {}
    for key in run.cache_keys:
        if key.cache == cache:
            changed = {part.name: part for part in key.parts}
            parts = {name: part for name, part in {**parts, **changed}.items() if name not in key.removed}
            yield _Lookup(run, key, parts)


def _equal(name: str, one: dict[str, ev.KeyPart], other: dict[str, ev.KeyPart]) -> bool:
    before, after = one.get(name), other.get(name)
    return before is after or (before is not None and after is not None and before.digest == after.digest)


def _nearest(lookup: _Lookup, known: Sequence[_Lookup], varied: Iterable[str]) -> _Lookup | None:
    """Return the key with the most equal parts; on ties that of the same graph, then the newest.

    In the same run only keys of the same frame, or of an equal graph, are of the same program.
    """
    best: tuple[int, bool, int] | None = None
    nearest: _Lookup | None = None
    for age, other in enumerate(reversed(known)):
        if not _comparable(lookup, other):
            continue
        unequal = sum(not _equal(name, lookup.parts, other.parts) for name in varied)
        rank = (unequal, other.event.graph != lookup.event.graph, age)
        if best is None or rank < best:
            best, nearest = rank, other
    return nearest


def _comparable(one: _Lookup, other: _Lookup) -> bool:
    if _value(one, "fx_kwargs[is_backward]") != _value(other, "fx_kwargs[is_backward]"):
        return False
    frames = [frame_number(lookup.event.graph) for lookup in (one, other)]
    same_compile = one.run is other.run and one.event.graph == other.event.graph  # its pieces are different programs
    same_graph = GRAPH in one.parts and _equal(GRAPH, one.parts, other.parts)
    return same_graph or (frames[0] == frames[1] and not same_compile)


def _value(lookup: _Lookup, name: str) -> str:
    return lookup.parts[name].value if name in lookup.parts else ""


def _explained(cache: str, lookup: _Lookup, nearest: _Lookup, varied: Iterable[str]) -> ev.CacheMissed:
    names = [name for name in {**nearest.parts, **lookup.parts} if name in varied]
    names = [name for name in names if not _equal(name, nearest.parts, lookup.parts)]
    cause = _Cause(lookup, nearest)
    differences = [cause.difference(name) for name in names]
    differences.sort(key=cause.order)
    return ev.CacheMissed(
        graph=lookup.event.graph, caches=(cache,), key=lookup.event.key, nearest_key=nearest.event.key,
        nearest_graph=nearest.event.graph, nearest_run="" if nearest.run is lookup.run else nearest.run.label,
        differences=tuple(differences),
    )  # fmt: skip


def _is_consequence(part: str) -> bool:
    """Return whether a part differs mostly because another one does."""
    return part.partition("[")[0] in (GRAPH, INPUTS, FLAGS, "aot_config")


class _Cause:
    """What the parts of two keys that differ come from, by the graphs and sources of both runs."""

    def __init__(self, lookup: _Lookup, nearest: _Lookup) -> None:
        self._run, self._before = lookup.run, nearest.run
        self._lookup, self._nearest = lookup, nearest
        nodes = [_nodes(one.run, one.event.graph) for one in (lookup, nearest)]
        self._nodes = nodes[0]
        self._changed_input = _first_difference(_tensor_key, *map(_inputs, nodes))
        self._changed_call = _first_difference(_call_key, *map(_calls, nodes))
        self._changed_lines = _changed_lines(self._before, self._run)

    def order(self, difference: ev.KeyDifference) -> int:
        """Return where a part is listed: settings, then what of the graph differs in itself, then consequences."""
        base = difference.part.partition("[")[0]
        if base == GRAPH:
            return 1 if self._changed_call is not None else 3
        if base == INPUTS:
            return 2 if self._changed_input is not None else 3
        if base == FLAGS and difference.part in _CALLS and self._is_changed(difference.location):
            return 1  # a changed line sets it
        return 4 if _is_consequence(difference.part) else 0

    def difference(self, name: str) -> ev.KeyDifference:
        """Return what of a part differs, with its line."""
        before, after = self._nearest.parts.get(name), self._lookup.parts.get(name)
        texts = [_describe(part.value) if part is not None else "" for part in (before, after)]
        base = name.partition("[")[0]
        if base == GRAPH:
            node = self._changed_call or self._changed_input
            if node is not None:
                texts = [_call_text(side) for side in (node[1], node[0])]
            location = self._graph_line()
        elif base == INPUTS:
            location = self._input_line(name)
        else:
            location = self._setting_line(name, texts[1])
        if texts[0] == texts[1] and before is not None and after is not None:
            texts = [f"{text} {part.digest[:6]}".strip() for text, part in zip(texts, (before, after), strict=True)]
        return ev.KeyDifference(part=name, before=texts[0], after=texts[1], location=location)

    def _graph_line(self) -> ev.Location | None:
        if self._changed_call is None:
            return self._input_line("") if self._changed_input is not None else self._only_change()
        after, before = self._changed_call
        place = (after.location if after is not None else None) or (before.location if before is not None else None)
        return place if self._is_changed(place) else self._only_change() or place

    def _input_line(self, name: str) -> ev.Location | None:
        """Return the line that changed, else the one that made the call, else the first that uses the input."""
        if change := self._only_change():
            return change
        inputs, number = _inputs(self._nodes), _NUMBER.search(name)
        node = inputs[int(number[1])] if number and int(number[1]) < len(inputs) else None
        if self._changed_input is not None and (node is None or self._changed_input[0] is None):
            node = self._changed_input[0]
        entered = (frame for frame in self._run.frames if frame.graph == self._lookup.event.graph)
        caller = next((frame.caller for frame in entered if frame.caller is not None), None)
        if self._before is self._run and caller is not None:
            return caller
        users = (other.location for other in self._nodes if node is not None and node.name in other.inputs)
        return next((place for place in users if place is not None), None)

    def _setting_line(self, name: str, value: str) -> ev.Location | None:
        if name in ELSEWHERE:
            return None
        setting = _SETTING.match(name)
        word = setting[1] if setting else name.partition("[")[0]
        pattern = _CALLS.get(name) or _CALLS.get(name.partition("[")[0]) or rf"\b{re.escape(word)}\b"
        arguments = _COMPILE_ARGUMENTS if setting or name.startswith(FLAGS) else pattern
        for wanted in (pattern, arguments):
            for changed_only in (True, False):
                if place := self._line(wanted, value, changed_only=changed_only):
                    return place
        return None

    def _line(self, pattern: str, value: str, *, changed_only: bool) -> ev.Location | None:
        """Return the line of the program's files that sets what a pattern names, of those that changed if asked.

        Of several lines, it is the first with the new value.
        """
        wanted, with_value = re.compile(pattern), re.compile(rf"(?<![\w.]){re.escape(value)}(?![\w.])")
        places: list[ev.Location] = []
        for file, text in ((self._run.file, self._run.source), *((s.file, s.text) for s in self._run.sources)):
            for number, line in enumerate(text.split("\n"), 1):
                code = line.partition("#")[0]
                if changed_only and (file != self._run.file or number not in self._changed_lines):
                    continue
                if wanted.search(code) and ("=" in code or "(" in code):
                    places.append(ev.Location(file, number, ""))
                    if value and with_value.search(code):
                        return places[-1]
        return places[0] if places else None

    def _is_changed(self, place: ev.Location | None) -> bool:
        return place is not None and place.file == self._run.file and place.line in self._changed_lines

    def _only_change(self) -> ev.Location | None:
        """Return the one place of the source that changed since the earlier run, None if there are several or none."""
        lines = self._changed_lines
        if lines and lines[-1] - lines[0] < len(lines):
            return ev.Location(self._run.file, lines[0], "")
        return None


def _changed_lines(before: Snapshot, after: Snapshot) -> list[int]:
    """Return the numbers of the lines of code that the later source has and the earlier one lacks."""
    if before is after or before.source == after.source:
        return []
    old, new = ([line.partition("#")[0].strip() for line in run.source.split("\n")] for run in (before, after))
    changed: list[int] = []
    for tag, _, _, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "delete" and (line := next((n for n in range(start, len(new)) if new[n]), None)) is not None:
            changed.append(line + 1)
        elif tag != "equal":
            changed += [number + 1 for number in range(start, end) if new[number]]
    return sorted(set(changed))


def _nodes(run: Snapshot, graph: str) -> Sequence[ev.FxNode]:
    return next((captured.nodes for captured in run.graphs if captured.graph == graph), ())


def _inputs(nodes: Sequence[ev.FxNode]) -> list[ev.FxNode]:
    return [node for node in nodes if node.op == "placeholder"]


def _calls(nodes: Sequence[ev.FxNode]) -> list[ev.FxNode]:
    return [node for node in nodes if node.op not in ("placeholder", "output")]


def _tensor_key(node: ev.FxNode) -> object:
    return node.target, node.dtype, node.shape, node.stride, node.device


def _call_key(node: ev.FxNode) -> object:
    return node.op, node.target, node.args


Pair = tuple[ev.FxNode | None, ev.FxNode | None]


def _first_difference(
    key: Callable[[ev.FxNode], object], after: list[ev.FxNode], before: list[ev.FxNode]
) -> Pair | None:
    """Return the first nodes that differ, None if there are none or one of the graphs is unknown."""
    if not after and not before:
        return None
    pairs = zip_longest(after, before)
    return next((pair for pair in pairs if pair[0] is None or pair[1] is None or key(pair[0]) != key(pair[1])), None)


def _call_text(node: ev.FxNode | None) -> str:
    return "" if node is None else f"{node.target}({node.args})" if node.op != "placeholder" else _tensor_text(node)


def _tensor_text(node: ev.FxNode) -> str:
    return f"{node.target}: {node.dtype}[{', '.join(node.shape or ())}]"


def _describe(value: str) -> str:
    """Return `float32[4, 16], stride (16, 1)` for torch's metadata of a tensor, other values as they are."""
    match = _TENSOR.search(value)
    return f"{match[1]}[{match[2]}], stride {match[3]}" if match else value
