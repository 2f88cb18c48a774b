"""Rows about the cost of guards, and about guard filters: what each gains, and what it makes unsafe."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.document import Row
from tcexplore.documents.prose import BLANK, wrapped
from tcexplore.events import GuardFilterTried
from tcexplore.events.config import SKIP_GUARD_EVAL
from tcexplore.keymap import hint
from tcexplore.quantities import duration
from tcexplore.session import Snapshot
from tcexplore.session.economics import VISIBLE_GUARD_SHARE, GuardCost, guard_cost
from tcexplore.session.links import GUARD_FILTERS_LINK

UNSAFE = {
    "skip_guard_on_inbuilt_nn_modules_unsafe": "a change in torch's own layers after the compile, such as train() or "
    "another dropout, goes unnoticed",
    "skip_guard_on_all_nn_modules_unsafe": "a change of any attribute of a module after the compile goes unnoticed",
    "skip_guard_on_globals_unsafe": "a change of a global variable after the compile goes unnoticed",
    "keep_tensor_guards_unsafe": "any change except of the input tensors' shape, stride, dtype or device goes "
    "unnoticed: values, modules, globals, grad mode",
    "skip_all_guards_unsafe": "any change goes unnoticed, also of shape or dtype: the call may read wrong memory",
    SKIP_GUARD_EVAL: "after the warm-up, an input that needs another graph runs a wrong one",
}
"""Risk of each filter, as text."""


def guard_filter_rows(run: Snapshot, width: int) -> Iterator[Row]:
    """Yield the cost of guards, and the filters that were tried, or how to try them; nothing if guards cost little."""
    cost = guard_cost(run)
    expensive = cost is not None and not cost.cold and cost.share >= VISIBLE_GUARD_SHARE
    if not expensive and not run.guard_filters:
        return
    for text, style in _sentences(run):
        yield from wrapped(text, width, style, links=(GUARD_FILTERS_LINK,))
    if not run.guard_filters and not run.is_script:
        text = f"{hint('fix')} here tries each, and compares its results with eager's."
        yield from wrapped(text, width, "muted", links=(GUARD_FILTERS_LINK,), keys_only=True)
    yield BLANK


def _sentences(run: Snapshot) -> Iterator[tuple[str, str]]:
    if (cost := guard_cost(run)) is not None:
        yield describe_guard_cost(cost), "warn" if cost.share >= VISIBLE_GUARD_SHARE else "muted"
    for tried in run.guard_filters:
        yield describe_guard_filter(tried), "ok" if _gains(tried) else "muted"
        if _gains(tried):
            yield f"  {filter_code(tried.name)}", "code.python"
    if not run.guard_filters:
        yield "torch's guard filters drop some of the checks: `tcexplore modes` tries them.", "muted"


def describe_guard_cost(cost: GuardCost) -> str:
    """Return the time of guards as a sentence."""
    check = "The first, cold check of the guards" if cost.cold else "Checking guards"
    return f"{check} takes {duration(cost.us / 1e6)}, {cost.share:.0%} of a compiled call."


def _gains(tried: GuardFilterTried) -> bool:
    return not tried.wrong and tried.decided and tried.low > 1


def filter_code(name: str) -> str:
    """Return the code that applies a filter."""
    if name == SKIP_GUARD_EVAL:
        return "torch.compiler.set_stance('default', skip_guard_eval_unsafe=True)  # after the first calls"
    return f"torch.compile(model, options={{'guard_filter_fn': torch.compiler.{name}}})"


def describe_guard_filter(tried: GuardFilterTried) -> str:
    """Return the gain of a filter and its risk as a sentence."""
    name, unsafe = tried.name, UNSAFE.get(tried.name, "what the dropped guards check goes unnoticed")
    if tried.wrong:
        return f"{name}: the result is wrong."
    if not tried.speed:
        return f"{name}: not timed. Unsafe: {unsafe}."
    interval = f"{tried.speed:.2f}× the speed [{tried.low:.2f}, {tried.high:.2f}]"
    if not tried.decided:
        gain = f"undecided because of noise ({interval})"
    else:
        gain = interval if tried.low > 1 else f"no certain gain ({interval})"
    return f"{name}: {gain}. Unsafe: {unsafe}."
