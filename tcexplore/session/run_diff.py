"""Difference of two runs: source, graphs, breaks, guards, and kernels, paired by their computation."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from typing import Any, Generic, Literal, NamedTuple, TypeVar, cast, get_args

from tcexplore import events as ev
from tcexplore.session.snapshot import Snapshot

T = TypeVar("T")

_IDENTITY = re.compile(r"\b\d{9,}\b|\b_\d{9,}_c\d+\b|\b0x[0-9a-fA-F]{6,}\b|(?<=, )\d+(?=\), type=)")
"""Ids and addresses of objects, and names of globals that Dynamo makes of them."""

ChangeKind = Literal["same", "changed", "added", "removed"]

KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)


@dataclass(frozen=True, slots=True)
class RunChange(Generic[T]):
    """An item before and after; one side is None if it was added or removed."""

    kind: ChangeKind
    before: T | None
    after: T | None

    @property
    def item(self) -> T:
        """The item of the later run, or the removed one."""
        return cast(T, self.before if self.after is None else self.after)


GraphNode = tuple[str, ev.FxNode]
"""A compile id, and a node of its graph."""

GraphGuard = tuple[str, ev.Guard]
"""A compile id, and a guard of its graph."""


@dataclass(frozen=True, slots=True)
class RunDiff:
    """Difference of two runs; each tuple is in the order of the later run, with removed items in their old place."""

    before: Snapshot
    after: Snapshot
    same_program: bool
    """The generated code is identical, except for names of kernels and comments."""
    source: tuple[RunChange[str], ...]
    nodes: tuple[RunChange[GraphNode], ...]
    """A node that reads the result of another op is `changed`."""
    breaks: tuple[RunChange[ev.GraphBreak], ...]
    guards: tuple[RunChange[GraphGuard], ...]
    kernels: tuple[RunChange[ev.Kernel], ...]


def run_diff(before: Snapshot, after: Snapshot) -> RunDiff:
    """Compare two runs, complete or not. The numbers of their devices do not count if they are ranks of traces."""
    ranks = are_ranks(before, after)
    kernels = before.code.kernels, after.code.kernels
    return RunDiff(
        before=before,
        after=after,
        same_program=same_program(before, after),
        source=align(before.source.splitlines(), after.source.splitlines(), lambda line: line),
        nodes=_compare_nodes(_nodes(before), _nodes(after), ranks=ranks),
        breaks=align(before.breaks, after.breaks, lambda b: (b.kind, b.code)),
        guards=_pair_guards(pair_unordered(_guards(before), _guards(after), partial(_guard_key, ranks=ranks))),
        kernels=match_kernels(*kernels, ranks=ranks) if before.target == after.target else (),
    )


def count_changes(changes: Sequence[RunChange[Any]]) -> dict[str, int]:
    """Count the changes of each kind."""
    return {kind: sum(change.kind == kind for change in changes) for kind in KINDS}


def align(before: Sequence[T], after: Sequence[T], key: Callable[[T], Hashable]) -> tuple[RunChange[T], ...]:
    """Merge two sequences, with items of equal keys paired as in a diff."""
    keys = list(map(key, before)), list(map(key, after))
    start = common_prefix(*keys)
    end = common_prefix(keys[0][start:][::-1], keys[1][start:][::-1])
    middle = keys[0][start : len(before) - end], keys[1][start : len(after) - end]
    changes = [RunChange("same", x, y) for x, y in zip(before[:start], after[:start], strict=True)]
    x, y = start, start
    for a, b in (*pairs(*middle), (len(middle[0]), len(middle[1]))):
        changes += [RunChange("removed", item, None) for item in before[x : start + a]]
        changes += [RunChange("added", None, item) for item in after[y : start + b]]
        x, y = start + a + 1, start + b + 1
        if a < len(middle[0]):
            changes.append(RunChange("same", before[x - 1], after[y - 1]))
    tail = zip(before[len(before) - end :], after[len(after) - end :], strict=True)
    return (*changes, *(RunChange("same", x, y) for x, y in tail))


def pair_unordered(before: Sequence[T], after: Sequence[T], key: Callable[[T], Hashable]) -> tuple[RunChange[T], ...]:
    """Merge two unordered sequences, with items of equal keys paired and removed items last."""
    left: dict[Hashable, list[T]] = {}
    for item in before:
        left.setdefault(key(item), []).append(item)
    changes = []
    for item in after:
        same = left.get(key(item))
        changes.append(RunChange("same", same.pop(0), item) if same else RunChange("added", None, item))
    return (*changes, *(RunChange("removed", item, None) for items in left.values() for item in items))


def common_prefix(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Return the length of the common prefix, which needs no alignment."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


KernelOps = Callable[[ev.Kernel], frozenset[Hashable]]
"""Gives the ops of the program that a kernel computes."""


class _KernelRule(NamedTuple):
    """Kernels with equal keys are a pair if they are also alike; a key of None has no partner."""

    kind: ChangeKind
    key: Callable[[ev.Kernel], Hashable]
    alike: Callable[[ev.Kernel, ev.Kernel], bool] = lambda *_: True


def match_kernels(
    before: Sequence[ev.Kernel], after: Sequence[ev.Kernel], *, ranks: bool = False, ops: KernelOps | None = None
) -> tuple[RunChange[ev.Kernel], ...]:
    """Pair each later kernel with an earlier one: equal code is `same`, equal ops or half of the ops is `changed`.

    With `ops`, kernels that compute the same ops of the program come first, and those without a common one are no pair.
    """
    left = {id(kernel): kernel for kernel in before}
    partner: dict[int, tuple[ChangeKind, ev.Kernel]] = {}
    programs = {id(k): kernel_program(k, ranks=ranks) for k in (*before, *after)}

    def code(kernel: ev.Kernel) -> Hashable:
        return kernel.phase, programs[id(kernel)]

    for rule in _kernel_rules(code) if ops is None else _kernel_rules_with_ops(code, ops):
        candidates: defaultdict[Hashable, list[ev.Kernel]] = defaultdict(list)
        for kernel in left.values():
            candidates[rule.key(kernel)].append(kernel)
        candidates.pop(None, None)
        for kernel in after:
            if id(kernel) in partner:
                continue
            alike = candidates.get(rule.key(kernel), [])
            place = next((n for n, match in enumerate(alike) if rule.alike(match, kernel)), None)
            if place is not None:
                match = alike.pop(place)
                partner[id(kernel)] = rule.kind, left.pop(id(match))
    changes = [
        RunChange(*partner[id(kernel)], kernel) if id(kernel) in partner else RunChange("added", None, kernel)
        for kernel in after
    ]
    return tuple(_with_removed(changes, before, left))


def _kernel_rules(code: Callable[[ev.Kernel], Hashable]) -> tuple[_KernelRule, ...]:
    return (
        _KernelRule("same", code),
        _KernelRule("changed", lambda k: (k.phase, k.language, k.ops)),
        _KernelRule("changed", lambda k: (k.phase, k.generated), _half_the_ops),
    )


def _kernel_rules_with_ops(code: Callable[[ev.Kernel], Hashable], ops: KernelOps) -> tuple[_KernelRule, ...]:
    def related(a: ev.Kernel, b: ev.Kernel) -> bool:
        """Return whether two kernels may be a pair: they have a common op, or the ops of one are unknown."""
        return not ops(a) or not ops(b) or not ops(a).isdisjoint(ops(b))

    same_code, same_ops, half = _kernel_rules(code)
    return (
        _KernelRule("same", lambda k: (code(k), ops(k))),
        same_code._replace(alike=related),
        _KernelRule("changed", lambda k: (k.generated, ops(k)) if ops(k) else None),
        same_ops._replace(alike=related),
        half._replace(alike=lambda a, b: related(a, b) and _half_the_ops(a, b)),
    )


def _with_removed(
    changes: Sequence[RunChange[ev.Kernel]], before: Sequence[ev.Kernel], removed: Collection[int]
) -> Iterator[RunChange[ev.Kernel]]:
    """Yield the changes with each removed kernel after the one that it followed."""
    behind: dict[int, list[RunChange[ev.Kernel]]] = {}
    last = 0
    for kernel in before:
        if id(kernel) in removed:
            behind.setdefault(last, []).append(RunChange("removed", kernel, None))
        else:
            last = id(kernel)
    yield from behind.get(0, ())
    for change in changes:
        yield change
        yield from behind.get(id(change.before), ())


def _half_the_ops(a: ev.Kernel, b: ev.Kernel) -> bool:
    shared, either = set(a.ops) & set(b.ops), set(a.ops) | set(b.ops)
    return 2 * len(shared) >= len(either) > 0


def _nodes(snapshot: Snapshot) -> list[GraphNode]:
    return [(graph.graph, node) for graph in snapshot.graphs for node in graph.all_nodes]


def _compare_nodes(
    before: Sequence[GraphNode], after: Sequence[GraphNode], *, ranks: bool
) -> tuple[RunChange[GraphNode], ...]:
    """Pair the nodes in the way that leaves the fewest changes: by their calls, and without the numbers in names.

    An edit moves these numbers; but without them, the nodes of a long chain are all alike.
    """
    numbered, plain = (partial(_node_key, ranks=ranks, numbers=numbers) for numbers in (True, False))
    ways = (_align_gaps(align(before, after, numbered), plain), align(before, after, plain))
    return min(
        (tuple(_with_rewired(changes)) for changes in ways),
        key=lambda changes: sum(change.kind != "same" for change in changes),
    )


def _align_gaps(changes: Sequence[RunChange[T]], key: Callable[[T], Hashable]) -> list[RunChange[T]]:
    """Return the changes with what is removed and added between two pairs aligned by another key."""
    aligned: list[RunChange[T]] = []
    for same, gap in groupby(changes, lambda change: change.kind == "same"):
        if same:
            aligned += gap
            continue
        known = list(gap)
        removed = [change.before for change in known if change.before is not None]
        added = [change.after for change in known if change.after is not None]
        aligned += align(removed, added, key)
    return aligned


def _node_key(item: GraphNode, *, ranks: bool, numbers: bool) -> Hashable:
    """Return what equal nodes share. Without `numbers`, inputs have their name before the number, and their place."""
    node = item[1]
    args = without_device(node.args) if ranks else node.args
    if not numbers:
        names = {name: f"{_NUMBER_AT_END.sub('', name)}#{place}" for place, name in enumerate(node.inputs)}
        args = _NAME.sub(lambda name: names.get(name[0], name[0]), args)
    return node.op, node.target, args, node.dtype, node.shape, node.stride


_NAME = re.compile(r"\w+")
_NUMBER_AT_END = re.compile(r"_\d+$")


def _with_rewired(changes: Sequence[RunChange[GraphNode]]) -> Iterator[RunChange[GraphNode]]:
    """Yield the changes; a node that reads the result of another op than before is `changed`."""
    pairs = [(change.before, change.after) for change in changes if change.before and change.after]
    partner = {(old[0], old[1].name): (new[0], new[1].name) for old, new in pairs}
    paired = set(partner.values())

    def reads_the_same(old: GraphNode, new: GraphNode) -> bool:
        if len(old[1].inputs) != len(new[1].inputs):
            return False
        inputs = zip(old[1].inputs, new[1].inputs, strict=True)
        ends = [(partner.get((old[0], before)), (new[0], after)) for before, after in inputs]
        return all(then == now or (then is None and now not in paired) for then, now in ends)

    for change in changes:
        if change.before and change.after and not reads_the_same(change.before, change.after):
            yield RunChange("changed", change.before, change.after)
        else:
            yield change


def _guard_key(item: GraphGuard, *, ranks: bool) -> Hashable:
    """Return the key of a guard without object ids, which differ between runs."""
    guard = item[1]
    codes = tuple(_IDENTITY.sub("id", code) for code in guard.code)
    if ranks:
        return guard.kind, guard.source, without_device(guard.summary), tuple(map(without_device, codes))
    return guard.kind, guard.source, guard.summary, codes


def _pair_guards(changes: Sequence[RunChange[GraphGuard]]) -> tuple[RunChange[GraphGuard], ...]:
    """Join a removed and an added guard of one kind on one value: what it requires has changed."""
    removed: defaultdict[tuple[str, str], list[GraphGuard]] = defaultdict(list)
    for change in changes:
        if change.before is not None and change.after is None:
            removed[change.before[1].kind, change.before[1].source].append(change.before)
    joined: set[int] = set()
    paired = []
    for change in changes:
        if change.kind == "added" and (earlier := removed[change.item[1].kind, change.item[1].source]):
            joined.add(id(earlier[0]))
            paired.append(RunChange("changed", earlier.pop(0), change.after))
        else:
            paired.append(change)
    return tuple(change for change in paired if change.kind != "removed" or id(change.before) not in joined)


def _guards(snapshot: Snapshot) -> list[GraphGuard]:
    return [(installed.graph, guard) for installed in snapshot.guards for guard in installed.guards]


# ---- alignment


Items = Sequence[Hashable]
Pair = tuple[int, int]

_FEW = 500
"""Maximum length to compare all items with each other, which takes quadratic time."""


def pairs(a: Items, b: Items) -> Iterator[Pair]:
    """Yield the indices of equal items on both sides, both ascending.

    Split long sequences at items that occur once on each side. Nearly every line of generated code does, since its
    temporaries are numbered.
    """
    if min(len(a), len(b)) <= _FEW:
        yield from _compared(a, b, thorough=True)
        return
    anchors = _anchors(a, b)
    if not anchors:
        yield from _compared(a, b, thorough=False)
        return
    i, j = 0, 0
    for x, y in (*anchors, (len(a), len(b))):
        yield from ((i + p, j + q) for p, q in pairs(a[i:x], b[j:y]))
        if x < len(a):
            yield x, y
        i, j = x + 1, y + 1


def _compared(a: Items, b: Items, *, thorough: bool) -> Iterator[Pair]:
    if not a or not b:
        return
    for i, j, size in difflib.SequenceMatcher(None, a, b, autojunk=not thorough).get_matching_blocks():
        yield from zip(range(i, i + size), range(j, j + size), strict=True)


def _anchors(a: Items, b: Items) -> list[Pair]:
    """Return the longest chain of items that occur once on each side, ascending on both."""
    once_a, once_b = ({item for item, n in Counter(items).items() if n == 1} for items in (a, b))
    place = {item: index for index, item in enumerate(b) if item in once_b}
    return _ascending([(index, place[item]) for index, item in enumerate(a) if item in once_a and item in place])


def _ascending(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the longest subsequence that also ascends in the second number."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int | None] = []
    for index, (_, second) in enumerate(pairs):
        at = bisect_left(ends, second)
        before.append(last[at - 1] if at else None)
        ends[at : at + 1] = [second]
        last[at : at + 1] = [index]
    chain: list[Pair] = []
    step = last[-1] if last else None
    while step is not None:
        chain.append(pairs[step])
        step = before[step]
    return chain[::-1]


_COMMENT = re.compile(r"(?:#|//)(?!include|define|pragma|if|endif|else).*")
_HASH = re.compile(r"'backend_hash': '\w+'")
_PATH = re.compile(r"/\S+?/c\w{2}/c\w{40,}\.\w+")

_DEVICE = re.compile(
    r"\b(cuda|xpu|hpu|mtia|npu|privateuseone):\d+"
    r"|(\b(?:device|DeviceProperties)\(type='\w+'), index=\d+"
    r"|(stream|get_raw_stream\(|_DeviceGuard\(|set_device\(|\bdevice=)\d+"
)
"""Numbers of devices in graphs, guards and generated code; the groups are the text before them."""

_BUFFER = re.compile(r"\b(?:buf\d+|arg\d+_\d+|primals_\d+|tangents_\d+)\b")


@lru_cache(maxsize=4096)
def _stripped(source: str) -> str:
    if "'backend_hash'" in source:
        source = _HASH.sub("", source)
    return "\n".join(filter(None, map(str.rstrip, _COMMENT.sub("", _PATH.sub("", source)).splitlines())))


@lru_cache(maxsize=4096)
def _bare(source: str, names: tuple[str, ...]) -> str:
    """Return the code with each name replaced by its number."""
    numbers = {name: f"kernel{number}" for number, name in enumerate(names)}
    code = _stripped(source)
    # Match the starts of names: matching hundreds of whole names in thousands of lines takes a second.
    starts = {"_".join(name.split("_")[:2]) for name in names}
    patterns = [re.escape(start) for start in starts if start in code]
    if not patterns:
        return code
    return re.sub(rf"\b(?:{'|'.join(patterns)})\w*", lambda match: numbers.get(match.group(), match.group()), code)


def are_ranks(before: Snapshot, after: Snapshot) -> bool:
    """Return whether the runs are ranks of traces, each with a device of its own."""
    return bool(before.trace and after.trace)


@lru_cache(maxsize=4096)
def without_device(text: str) -> str:
    """Return a text without the numbers of devices."""
    return _DEVICE.sub(r"\1\2\3", text)


def kernel_program(kernel: ev.Kernel, *, ranks: bool = False) -> str:
    """Return the code of a kernel without its name, comments and paths, and of an extern call without buffer names.

    For `ranks`, it is without the numbers of devices as well.
    """
    own = kernel.generated
    code = _bare(kernel.source, (kernel.name,)) if own else _BUFFER.sub("buffer", kernel.source)
    return without_device(code) if ranks else code


def unique_kernels(snapshot: Snapshot) -> int:
    """Return the number of generated kernels with different code."""
    return len({kernel_program(kernel) for kernel in snapshot.code.kernels if kernel.generated})


def same_program(before: Snapshot, after: Snapshot) -> bool:
    """Return whether both runs generated identical kernels and wrappers; False if either has none."""
    ranks = are_ranks(before, after)
    programs = [_program(s, ranks=ranks) for s in (before, after)]
    return bool(programs[0]) and programs[0] == programs[1]


def _program(snapshot: Snapshot, *, ranks: bool) -> list[tuple[str, str]]:
    names = tuple(dict.fromkeys(k.name for k in snapshot.code.kernels if k.generated))
    kernels = ((kernel.phase, kernel.source) for kernel in snapshot.code.kernels)
    wrappers = ((wrapper.phase, wrapper.source) for wrapper in snapshot.code.wrappers)
    programs = ((phase, _bare(source, names)) for phase, source in (*kernels, *wrappers))
    return [(phase, without_device(code) if ranks else code) for phase, code in programs]
