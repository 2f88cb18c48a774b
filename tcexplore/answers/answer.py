"""An answer: facts and lists, as text or JSON within a number of tokens, with what was left out and how to get it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tcexplore.events import clean
from tcexplore.quantities import count

Fields = dict[str, Any]

CHARS_PER_TOKEN = 4
"""Characters of a token, as tokenizers have them on code and English on average."""

MAX_TOKENS = 2000
"""Default size of an answer."""

TEXT_LIMITS = (20_000, 6_000, 2_500, 1_000, 500, 240)
"""Maximum characters of a text, tried in this order until the answer fits; then items are left out."""

SHORTEST = 60
"""Maximum characters of a text if not even one item fits otherwise."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question."""

    question: str
    facts: Fields = field(default_factory=dict)
    """Always printed whole; without nulls."""
    lists: Mapping[str, Sequence[Fields]] = field(default_factory=dict)
    """Most important first: what does not fit is left out from the end."""
    hints: tuple[str, ...] = ()
    """Commands or questions that tell more."""
    problem: str = ""
    """Why there is no answer; empty if there is one."""


Render = Callable[[Answer, tuple[str, ...]], str]


def render(answer: Answer, command: str, *, as_json: bool, max_tokens: int = MAX_TOKENS, skip: int = 0) -> str:
    """Return an answer as text or JSON. `command` asks the same question again; `skip` leaves out the first items."""
    form: Render = _json_text if as_json else _text
    answer = replace(answer, lists={name: items[skip:] for name, items in answer.lists.items()})
    whole, room = form(answer, ()), max_tokens * CHARS_PER_TOKEN
    if not max_tokens or len(whole) <= room:
        return whole
    total = sum(map(len, answer.lists.values()))

    def part(items: int, limit: int) -> str:
        kept, gone = _first_items(answer, items)
        shorter, cut = _shortened(kept, limit)
        return form(shorter, _left_out(command, cut, gone, skip))

    for limit in TEXT_LIMITS:
        if len(text := part(total, limit)) <= room:
            return text
    for limit in (TEXT_LIMITS[-1], SHORTEST):
        if len(part(min(total, 1), limit)) <= room:
            break
    low, high = min(total, 1), total
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(part(middle, limit)) <= room else (low, middle - 1)
    return part(low, limit)


def _first_items(answer: Answer, items: int) -> tuple[Answer, dict[str, tuple[int, int]]]:
    """Return the answer with its first items, in the order of the lists, and what is left of each list of how many."""
    kept: dict[str, Sequence[Fields]] = {}
    gone: dict[str, tuple[int, int]] = {}
    for name, known in answer.lists.items():
        kept[name] = known[:items]
        items -= len(kept[name])
        if len(kept[name]) < len(known):
            gone[name] = len(kept[name]), len(known)
    return replace(answer, lists=kept), gone


def _left_out(command: str, cut: int, gone: Mapping[str, tuple[int, int]], skip: int) -> tuple[str, ...]:
    """Return a sentence for everything that was left out."""
    sentences = [
        f"{all_ - kept} of {all_} {name} left out: {command} --skip {skip + kept}"
        for name, (kept, all_) in gone.items()
    ]
    if cut:
        sentences.append(f"{count(cut, 'long text')} cut: {command} --max-tokens 0")
    return tuple(sentences)


# ---- texts


def _shortened(answer: Answer, limit: int) -> tuple[Answer, int]:
    """Return the answer with texts of at most `limit` characters, and the number of texts that were cut."""
    cutter = _Cutter(limit)
    lists = {name: [cutter.value(item) for item in items] for name, items in answer.lists.items()}
    return replace(answer, facts=cutter.value(answer.facts), lists=lists), cutter.cut


class _Cutter:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.cut = 0

    def value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self.value(inner) for name, inner in value.items()}
        if isinstance(value, str) and len(value) > self._limit:
            self.cut += 1
            return f"{value[: self._limit]}… (+{len(value) - self._limit:,} characters)"
        if isinstance(value, list | tuple):
            return self._items(value)
        return value

    def _items(self, values: Sequence[Any]) -> list[Any]:
        kept: list[Any] = []
        size = 0
        for value in values:
            size += len(str(value))
            if size > self._limit and kept:
                self.cut += 1
                return [*kept, f"… (+{len(values) - len(kept)})"]
            kept.append(self.value(value))
        return kept


# ---- JSON


def _json_text(answer: Answer, left_out: tuple[str, ...]) -> str:
    fields = {"question": answer.question, "problem": answer.problem, **answer.facts, **answer.lists}
    fields |= {"left_out": list(left_out), "see_also": list(answer.hints)}
    lists = set(answer.lists)
    known = {name: _known(value) for name, value in fields.items() if name in lists or not _is_empty(value)}
    return json.dumps(known, ensure_ascii=False, separators=(",", ":")) + "\n"


def _known(value: Any) -> Any:
    """Return a value without nulls and empty texts and lists."""
    if isinstance(value, dict):
        return {name: _known(inner) for name, inner in value.items() if not _is_empty(inner)}
    if isinstance(value, list | tuple):
        return [_known(item) for item in value]
    return _rounded(value)


def _is_empty(value: Any) -> bool:
    return value is None or value == "" or value == [] or value == () or value == {}


def _rounded(value: Any) -> Any:
    """Return a number with four significant digits: no measurement has more."""
    return float(f"{value:.4g}") if isinstance(value, float) else value


# ---- text


def _text(answer: Answer, left_out: tuple[str, ...]) -> str:
    lines = [f"problem: {answer.problem}"] if answer.problem else []
    lines += _lines(answer.facts, "")
    for name, items in answer.lists.items():
        lines.append(f"{name}: {'none' if not items else len(items)}")
        for item in items:
            lines += _item(item)
    lines += [f"left out: {text}" for text in left_out]
    lines += [f"see also: {', '.join(answer.hints)}"] if answer.hints else []
    return clean("\n".join(lines)) + "\n"


_HEAD = ("id", "name", "where")
"""Fields on the first line of an item."""


def _item(item: Fields) -> Iterator[str]:
    """Yield an item: its id and place on the first line, its other fields below."""
    head = [str(item[name]) for name in _HEAD if not _is_empty(item.get(name))]
    yield f"- {'  '.join(head)}" if head else "-"
    yield from _lines({name: value for name, value in item.items() if name not in _HEAD}, "  ")


def _lines(fields: Fields, indent: str) -> Iterator[str]:
    for name, value in fields.items():
        if _is_empty(value):
            continue
        if isinstance(value, dict):
            yield f"{indent}{name}:"
            yield from _lines(value, f"{indent}  ")
        elif isinstance(value, list | tuple):
            yield from _list_lines(name, value, indent)
        elif isinstance(value, str) and "\n" in value:
            yield f"{indent}{name}:"
            yield from (f"{indent}  {line}" for line in value.rstrip("\n").split("\n"))
        else:
            yield f"{indent}{name}: {_scalar(value)}"


def _list_lines(name: str, values: Sequence[Any], indent: str) -> Iterator[str]:
    """Yield a list on one line if it is short, else an entry per line."""
    if any(isinstance(value, dict) for value in values):
        yield f"{indent}{name}:"
        for value in values:
            yield from (f"{indent}  {line}" for line in (_item(value) if isinstance(value, dict) else [f"- {value}"]))
        return
    texts = [str(_scalar(value)) for value in values]
    if sum(map(len, texts)) <= 100 and not any("\n" in text for text in texts):
        yield f"{indent}{name}: {', '.join(texts)}"
        return
    yield f"{indent}{name}:"
    yield from (f"{indent}  {line}" for text in texts for line in text.split("\n"))


def _scalar(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _rounded(value)
