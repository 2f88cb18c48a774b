"""The keys of every action: the defaults, keymaps close to other programs, and the user's own.

The app's bindings, footers, help and palette and the hints in documents all read this table. A key is a character, or
one of the names that Textual gives to keys: `enter`, `ctrl+d`, `shift+tab`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

Scope = Literal[
    "view", "reading", "main", "diff", "answer", "target", "target_diff", "study", "modes", "environments", "bisect",
    "fix", "ranks", "app",
]  # fmt: skip
"""Where an action works: `view` in a view's rows, `reading` on any screen with such a view, `study` on any study's
screen, `app` everywhere, the others on the screen of that name."""

DEFAULT_KEYS: dict[Scope, dict[str, str]] = {
    "main": {
        "source-pane": "1", "graph-pane": "2", "breaks-pane": "3", "guards-pane": "4", "code-pane": "5",
        "timing-pane": "6", "output-pane": "7", "next-pane": "tab", "previous-pane": "shift+tab", "zoom": "z",
        "wider": ">", "narrower": "<", "taller": "+", "lower": "-", "default-sizes": "0", "follow": "f",
        "go-back": "backspace", "go-forward": "F", "next-break": "b", "previous-break": "B", "next-kernel": ")",
        "previous-kernel": "(", "next-view": "v", "previous-view": "V", "as-code": "c", "mark": "m", "compare": "=",
        "recompile-check": "R", "fix": "h", "row-guards": "i", "machine-code": "P", "target-diff": "K",
    },
    "view": {
        "up": "up,k", "down": "down,j", "page-up": "pageup", "page-down": "pagedown,space", "first": "home,g",
        "last": "end,G", "left": "left", "right": "right", "open": "enter",
    },
    "app": {
        "target": "T", "diff": "d", "base": "p", "modes": "M", "sweep": "S", "recompiles": "W", "bisect": "L",
        "artifacts": "", "cold": "C", "earlier-save": "[", "later-save": "]", "newest-save": "}", "ranks": "o",
        "calls": "#", "compile-arguments": "", "run-again": "r", "stop": "x", "undo": "u", "theme": "t",
        "help": "?", "commands": ":,ctrl+p", "screenshot": "", "export-html": "", "export-text": "", "export-json": "",
        "suspend": "ctrl+z", "quit": "q",
    },
    "reading": {
        "search": "/", "next-match": "n", "previous-match": "N", "back": "escape", "edit": "e", "copy": "y",
        "copy-all": "Y",
    },
    "diff": {
        "diff-next-part": "tab", "diff-previous-part": "shift+tab", "diff-earlier-base": "[", "diff-later-base": "]",
        "diff-back": "d,q",
    },
    "answer": {"answer-back": "=,q"},
    "target": {"target-back": "T,q"},
    "target_diff": {
        "target-diff-next-stage": "v", "target-diff-previous-stage": "V", "target-diff-previous-target": "[",
        "target-diff-next-target": "]", "target-diff-next-kernel": "tab", "target-diff-previous-kernel": "shift+tab",
        "target-diff-back": "K,q",
    },
    "study": {"study-stop": "x", "study-again": "r", "study-zoom": "z", "study-back": "q"},
    "modes": {"modes-sort": "s", "modes-environments": "E"},
    "environments": {"environments-modes": "E"},
    "bisect": {"bisect-write-reproducer": "w"},
    "fix": {"fix-write": "w", "fix-another-fix": "tab", "fix-undo": "u", "fix-back": "h"},
    "ranks": {"ranks-back": "o,q"},
}  # fmt: skip
"""The keys of each action, separated by commas, by its scope and name."""

PRESETS: dict[str, dict[str, str]] = {
    "default": {},
    "lazygit": {
        "next-pane": "right,l,tab", "previous-pane": "left,h,shift+tab", "left": "H", "right": "L",
        "page-up": "pageup,comma,ctrl+u", "page-down": "pagedown,.,ctrl+d", "first": "home,<", "last": "end,>",
        "next-view": "],v", "previous-view": "[,V", "zoom": "+,_", "study-zoom": "+,_", "follow": "space,f",
        "wider": "ctrl+right", "narrower": "ctrl+left", "taller": "ctrl+up", "lower": "ctrl+down",
        "earlier-save": "{", "later-save": "}", "newest-save": "$", "run-again": "R", "recompile-check": "r",
        "study-again": "R", "fix": "a", "fix-back": "a", "bisect": "X", "copy": "y,ctrl+o",
        "undo": "z,u", "fix-undo": "z,u", "diff": "W,d", "diff-back": "W,d,q", "recompiles": "I",
        "diff-next-part": "tab,]", "diff-previous-part": "shift+tab,[", "diff-earlier-base": "{",
        "diff-later-base": "}", "target-diff-next-stage": "],v", "target-diff-previous-stage": "[,V",
        "target-diff-previous-target": "{", "target-diff-next-target": "}",
    },
    "vim": {
        "left": "left,h", "right": "right,l", "page-up": "pageup,ctrl+b,ctrl+u", "page-down": "pagedown,ctrl+f,ctrl+d",
        "next-pane": "ctrl+w,tab", "follow": "ctrl+],f", "go-back": "ctrl+o,ctrl+t,backspace",
        "next-kernel": "},)", "previous-kernel": "{,(", "newest-save": "$", "fix": "a", "fix-back": "a",
        "help": "?,f1",
    },
}  # fmt: skip
"""Changes of the default keys, close to those of another program. In `vim`, `gg` is `g` twice."""

_SCREENS: tuple[tuple[Scope, ...], ...] = (
    ("view", "reading", "main", "app"),
    *(("view", "reading", scope) for scope in ("diff", "answer", "target", "target_diff", "ranks")),
    *(("view", "reading", "study", scope) for scope in ("modes", "environments", "bisect", "fix")),
)
"""Scopes whose keys must differ. On a screen over the panes, its own keys hide those of the app."""

_NAMED = frozenset({
    "up", "down", "left", "right", "home", "end", "pageup", "pagedown", "insert", "delete", "backspace", "tab", "enter",
    "escape", "space", *(f"f{n}" for n in range(1, 25)),
})  # fmt: skip
_MODIFIERS = ("ctrl", "alt", "shift", "super", "hyper", "meta")
_TEXTUAL_NAMES = {
    "solidus": "slash", "reverse_solidus": "backslash", "commercial_at": "at", "hyphen_minus": "minus",
    "plus_sign": "plus", "low_line": "underscore",
}  # fmt: skip
"""Textual's names of characters that differ from Unicode's."""
_CHARACTERS = {
    _TEXTUAL_NAMES.get(name, name): character
    for character in map(chr, range(0x21, 0x7F)) if not character.isalnum()
    for name in [unicodedata.name(character).lower().replace("-", "_").replace(" ", "_")]
}  # fmt: skip
"""Punctuation by Textual's names."""
_NAMES = {character: name for name, character in _CHARACTERS.items()}
_SHOWN = {
    "up": "↑", "down": "↓", "left": "←", "right": "→", "enter": "⏎", "escape": "esc", "backspace": "bksp",
    "pageup": "PgUp", "pagedown": "PgDn", "home": "Home", "end": "End", "delete": "del", "insert": "ins",
}  # fmt: skip

UNBOUND = "unbound"
"""The name of no key: Textual's keymaps cannot remove a key otherwise."""


class AppearanceError(ValueError):
    """An entry of a keymap or of a theme is invalid. `name` is the entry, empty for the whole."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def normal_keys(name: str, keys: str) -> str:
    """Return keys with Textual's names. Raises `AppearanceError` for one that does not exist."""
    return ",".join(_normal_key(name, key.strip()) for key in keys.split(",")) if keys.strip() else ""


def _normal_key(name: str, key: str) -> str:
    *modifiers, base = key.lower().split("+") if len(key) > 1 else [key]
    if not base and modifiers:  # `ctrl++`
        modifiers, base = modifiers[:-1], "+"
    base = _NAMES.get(base, base)
    printable = len(base) == 1 and base.isprintable() and not base.isspace()
    if not (printable or base in _CHARACTERS or base in _NAMED) or any(each not in _MODIFIERS for each in modifiers):
        raise AppearanceError(
            name, f"there is no key {key!r}; write a character, or a name such as enter, ctrl+d or comma"
        )
    return "+".join((*modifiers, base))


def shown_key(key: str) -> str:
    """Return a key as footers, help and hints show it."""
    *modifiers, base = key.split("+")
    text = _SHOWN.get(base) or _CHARACTERS.get(base, base)
    return "".join({"ctrl": "^", "shift": "⇧"}.get(modifier, f"{modifier}+") for modifier in modifiers) + text


_DEFAULTS = {name: normal_keys(name, keys) for names in DEFAULT_KEYS.values() for name, keys in names.items()}
_current = dict(_DEFAULTS)


def default_keys(action: str) -> str:
    """Return Textual's names of the default keys of an action, separated by commas."""
    return _DEFAULTS[action]


def use_keymap(changes: Mapping[str, str]) -> None:
    """Use the default keys with these changes from now on."""
    _current.clear()
    _current.update({**_DEFAULTS, **changes})


def keys_of(action: str) -> tuple[str, ...]:
    """Return Textual's names of the keys of an action."""
    return tuple(filter(None, _current[action].split(",")))


def hint(action: str) -> str:
    """Return the first key of an action as shown; the key of the command list if it has none."""
    keys = keys_of(action) or keys_of("commands") or ("ctrl+p",)
    return shown_key(keys[0])


def make_keymap(preset: str, entries: Mapping[str, str | Sequence[str]]) -> dict[str, str]:
    """Return the changes of a preset with own entries on top, with Textual's names. Raises `AppearanceError`."""
    if preset not in PRESETS:
        raise AppearanceError("preset", f"there is no keymap {preset!r}; use one of {', '.join(PRESETS)}")
    from difflib import get_close_matches  # not imported before the first frame without a keymap

    changes = {name: normal_keys(name, keys) for name, keys in PRESETS[preset].items()}
    for name, keys in entries.items():
        if name not in _DEFAULTS:
            nearest = get_close_matches(name, _DEFAULTS, 1)
            question = f"did you mean {nearest[0]!r}?" if nearest else "`tcexplore config --keys` lists all actions"
            raise AppearanceError(name, f"there is no action {name!r}; {question}")
        changes[name] = normal_keys(name, keys if isinstance(keys, str) else ",".join(keys))
    for first, second, key in _conflicts({**_DEFAULTS, **changes}):
        wrong = second if second in entries else first
        raise AppearanceError(
            wrong, f"{shown_key(key)} is the key of {first!r} and of {second!r}; give one another key"
        )
    return changes


def _conflicts(keys: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield two actions of a screen that have the same key, and the key."""
    for screen in _SCREENS:
        owners = dict[str, str]()
        for scope in screen:
            for name in DEFAULT_KEYS[scope]:
                for key in filter(None, keys[name].split(",")):
                    if owners.setdefault(key, name) != name:
                        yield owners[key], name, key
