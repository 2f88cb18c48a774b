"""The modules of a run as a tree with their ops, kernels, time and memory; equal siblings are one row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from rich.cells import cell_len

from tcexplore.documents.document import Document, Parts, Row, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.graph.graph_view import graph_title
from tcexplore.documents.module_folds import timed_tree
from tcexplore.documents.prose import BLANK, row, shortened, wrapped
from tcexplore.keymap import hint
from tcexplore.quantities import count, duration, size
from tcexplore.session import Snapshot
from tcexplore.session.links import line_links, node_link
from tcexplore.session.module_tree import OWN, ModuleRow, ModuleTree, member_rows

TEACHES = (
    "Each module of the model appears here with its ops, kernels, time and memory. Equal layers are one row, and a "
    "layer that differs from the others says in what."
)

_HEADS = ("ops", "kernels", "eager", "compiled", "params")
_WIDTHS = (6, 8, 9, 9, 10)
_DROPPED = ("params", "ops", "kernels", "eager", "compiled")
"""The columns in the order in which a narrow view leaves them out."""
_NARROWEST_NAME = 20

OTHER_LAUNCH = "other launch"
"""Name of the launch of a call on a CPU without that of each kernel, which is its modules'."""

FEW_ROWS = 36
"""Maximum number of rows at first; deeper modules are closed if there are more."""


def modules_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Document:
    """Return the document of the view."""
    tree = timed_tree(snapshot)
    if not tree.rows:
        if not snapshot.graphs:
            return Parts("", [empty_part(snapshot, width, TEACHES)])
        return Parts("", [fixed(wrapped("No op runs in a module: the model is a function.", width, "muted"))])
    odd = sum(bool(module.differs) for module in tree.rows)
    title = graph_title(snapshot) + (f", {count(odd, 'odd layer')}" if odd else "")
    return Parts(title, [fixed(module_row_list(tree, toggled, width))])


def module_row_list(tree: ModuleTree, toggled: frozenset[str], width: int) -> Iterator[Row]:
    """Yield the rows of the view."""
    shown = _columns(tree, width)
    room = max(_NARROWEST_NAME, width - 2 - _total_width(shown))
    yield from wrapped(summarize_modules(tree), width, "strong")
    yield row((f" {'module':<{room}}" + _cells(_HEADS, shown), "muted"), no_wrap=True)
    hidden: int | None = None
    modules, deepest = tree.rows, _deepest(tree.rows)
    for index, module in enumerate(modules):
        if hidden is not None and module.depth > hidden:
            continue
        has_children = index + 1 < len(modules) and modules[index + 1].depth > module.depth
        # A layer that differs is closed: what differs is on its row.
        repeats = module.repeats > 1 and not has_children
        at_first = not repeats and not module.differs and module.depth < deepest
        opened = (f"module {module.path}" in toggled) != at_first
        hidden = None if opened or not has_children else module.depth
        yield _module_row(module, room, shown, opened=opened, has_inside=has_children or repeats)
        lead = " " * (2 * module.depth + 3)
        if module.differs:
            yield from wrapped(f"differs: {module.differs}", width - len(lead), "changed", indent=len(lead))
        elif module.numbers:
            yield from wrapped(module.numbers, width - len(lead), "muted", indent=len(lead))
        for text in filter(None, (_times_of_each(module, modules), _variants(module))):
            yield from wrapped(text, width - len(lead), "muted", indent=len(lead))
        for each in member_rows(module) if repeats and opened else ():
            yield _module_row(each, room, shown, opened=False, has_inside=False)
    for rest in tree.rest:
        times = _duration(rest.eager_us), _duration(rest.compiled_us)
        name = OTHER_LAUNCH if rest.name == "launch" else rest.name
        yield row((f"   {name:<{room - 2}}", "muted"), _cells(("", "", *times, ""), shown).rstrip(), no_wrap=True)
    notes = [_calls_note(tree), _kernels_note(tree)]
    notes += [note(tree) for head, note in (("eager", _eager_note), ("compiled", _compiled_note)) if head in shown]
    if any(notes):
        yield BLANK
        for note in filter(None, notes):
            yield from wrapped(note, width, "muted")
    if len(shown) < len(_HEADS):
        text = f"{hint('zoom')} also shows {', '.join(head for head in _HEADS if head not in shown)}."
        yield from wrapped(text, width, "muted", keys_only=True)


ALIKE = 0.9
"""Least share of the longest module's time with which another one takes about as long: their order may be chance."""


def summarize_modules(tree: ModuleTree) -> str:
    """Return which modules repeat, and what takes most time: equal modules together, or one without modules in it."""
    groups = [(module.same_as, module) for module in tree.rows if module.same_as]
    text = f"{count(len(groups), 'group')} of equal modules." if groups else "No modules of a list are equal."
    following = (*(module.depth for module in tree.rows[1:]), 0)
    innermost = [
        (module.compiled_us, module.path)
        for module, depth in zip(tree.rows, following, strict=True)
        if depth <= module.depth and module.compiled_us is not None and not module.same_as
    ]
    if not innermost:
        return text
    us, longest = max(innermost)
    first = {module.path: module.compiled_us for module in tree.rows}
    equals = [
        (module.compiled_us + (first.get(path) or 0.0), path, module.repeats)
        for path, module in groups
        if module.compiled_us is not None
    ]
    together, path, more = max(equals, default=(0.0, "", 0))
    own = sum(rest.compiled_us or 0.0 for rest in tree.rest if rest.name == OWN)
    if own > max(us, together):
        most = f"Most time: the model's own ops, outside of the modules in it, {_duration(own)} compiled"
        return f"{most}; longest innermost module: {longest}, {_duration(us)}. {text}"
    if together <= us:
        return f"Longest innermost module: {longest}, {_duration(us)} compiled. {text}"
    whole = f"Most time: {path} and {more} that are equal to it, {_duration(together)} compiled"
    inside = [
        module
        for module in tree.rows
        if module.path.rpartition(".")[0] == path and module.compiled_us is not None and not module.same_as
    ]
    if not inside:
        return f"{whole}. {text}"
    return f"{whole}; longest in {path}: {_longest(inside, path)}. {text}"


def _longest(modules: Sequence[ModuleRow], path: str) -> str:
    """Return the module with the most time, and the next one if it takes about as long."""
    ordered = sorted(modules, key=lambda module: -(module.compiled_us or 0.0))
    least = ALIKE * (ordered[0].compiled_us or 0.0)
    longest = [module for module in ordered[:2] if (module.compiled_us or 0.0) >= least]
    names = (f"{module.path.removeprefix(f'{path}.')}, {_duration(module.compiled_us)}" for module in longest)
    return " and ".join(names)


def _deepest(modules: Sequence[ModuleRow]) -> int:
    """Return the depth of the modules that are closed at first, so that the view has few rows."""
    rows = Counter(module.depth for module in modules)
    total, depth = 0, 0
    while rows[depth] and (total := total + rows[depth]) <= FEW_ROWS:
        depth += 1
    return max(1, depth - 1 if rows[depth] else depth)


def _columns(tree: ModuleTree, width: int) -> tuple[str, ...]:
    """Return the columns that fit beside the names: times that were measured give way last."""
    times = (("eager", (row.eager_us for row in tree.rows)), ("compiled", (row.compiled_us for row in tree.rows)))
    unknown = [head for head, known in times if all(us is None for us in known)]
    shown: tuple[str, ...] = _HEADS
    for head in (*unknown, *(head for head in _DROPPED if head not in unknown)):
        if width - 2 - _total_width(shown) >= _NARROWEST_NAME:
            break
        shown = tuple(other for other in shown if other != head)
    return shown


def _total_width(shown: Collection[str]) -> int:
    return sum(width for head, width in zip(_HEADS, _WIDTHS, strict=True) if head in shown)


def _cells(texts: Iterable[str], shown: Collection[str]) -> str:
    """Return the texts of the columns that are `shown`, of one text for each column."""
    cells = zip(_HEADS, texts, _WIDTHS, strict=True)
    return "".join(text.rjust(width) for head, text, width in cells if head in shown)


def _module_row(module: ModuleRow, room: int, shown: Collection[str], *, opened: bool, has_inside: bool) -> Row:
    first = module.members[0]
    mark = ("▾ " if opened else "▸ ") if has_inside else "  "
    name = module.path.removeprefix(".".join(first.path[:-1])).removeprefix(".") or "model"
    facts = [f"×{module.repeats}"] if module.repeats > 1 else []
    facts += [module.equals] if module.equals else [module.type] if module.type else []
    facts += [] if module.ops else ["in no graph"]
    lead = " " * (2 * module.depth + 1) + mark
    left = room + 1 - cell_len(lead)
    breaks = f"  ✖ {count(module.breaks, 'break')}" if module.breaks else ""
    name = shortened(name, max(1, left - 1 - cell_len(breaks)))
    left -= cell_len(name) + cell_len(breaks)
    note = shortened("  " + " ".join(facts), max(0, left)) if facts else ""
    pad = " " * max(0, left - cell_len(note))
    values = (
        str(module.ops), str(module.kernels), _duration(module.eager_us), _duration(module.compiled_us),
        size(module.bytes) if module.bytes else "",
    )  # fmt: skip
    # The rows below an open module stand for the ops of the modules inside it.
    shown_ops = [
        op for each in module.members for op in each.ops if not (opened and has_inside) or op.path == each.path
    ]
    place = next((op.node.location for op in first.ops if op.node.location is not None), None)
    links = tuple(node_link(op.graph, op.node.name) for op in shown_ops)
    links += line_links(place) if links else ()
    return row(
        (lead, "key"), (name, "changed" if module.differs else "node"), (note, "muted"), (breaks, "break"),
        (pad + _cells(values, shown)).rstrip(),
        links=links,
        location=place, fold=f"module {module.path}" if has_inside else None, no_wrap=True,
    )  # fmt: skip


def _variants(module: ModuleRow) -> str:
    """Return that equal modules have different kernels; empty if they don't, or if the code is not known."""
    if not (variants := module.kernel_variants):
        return ""
    return f"equal ops, but {len(variants)} sets of kernels: of {', '.join(map(str, variants))} modules"


def _times_of_each(module: ModuleRow, rows: Sequence[ModuleRow]) -> str:
    """Return the times of equal modules, with the one that they equal in another row of `rows`, and which is slowest.

    One is called slowest only if it always took longer than any other ever did: among many equal ones, one is the last
    by chance. Empty if they were not measured.
    """
    equal = (each for row in rows if row.path == module.same_as and module.same_as for each in row.members)
    known = [(each.compiled_us, each) for each in (*equal, *module.members) if each.compiled_us is not None]
    if len(module.members) < 2 or len(known) < module.repeats:
        return ""
    (least, _), (most, slowest) = (choose(known, key=lambda pair: pair[0]) for choose in (min, max))
    whole = f"with {module.same_as}, each" if len(known) > module.repeats else "each"
    others = (each.compiled_range_us[1] for _, each in known if each is not slowest)
    certain = slowest.compiled_range_us[0] > max(others)
    which = f"the slowest is {slowest.name}" if certain else "none is certainly slower than the others"
    return f"{whole} {duration(least / 1e6)} to {duration(most / 1e6)} compiled, {which}"


def _duration(us: float | None) -> str:
    return "" if us is None else duration(us / 1e6)


def _calls_note(tree: ModuleTree) -> str:
    return f"Times: of one call of each of {tree.calls} regions." if tree.calls > 1 else ""


def _kernels_note(tree: ModuleTree) -> str:
    """Return why the kernels of modules add up to more than those of the module around them, if they do."""
    around: list[ModuleRow] = []
    inside: Counter[tuple[str, ...]] = Counter()
    for module in tree.rows:
        del around[module.depth :]
        if around:
            inside[around[-1].members[0].path] += module.kernels
        around.append(module)
    if all(inside[module.members[0].path] <= module.kernels for module in tree.rows):
        return ""
    return "Kernels: one that computes ops of several modules counts for each of them."


def _eager_note(tree: ModuleTree) -> str:
    known = any(module.eager_us is not None for module in tree.rows)
    return "Eager: the time of each op; on a CPU also the time between the ops." if known else ""


def _compiled_note(tree: ModuleTree) -> str:
    known = any(module.compiled_us is not None for module in tree.rows)
    if not known:
        return ""
    return "Compiled: each kernel, on a CPU with its launch by the wrapper, split over its modules by bytes or FLOPs."
