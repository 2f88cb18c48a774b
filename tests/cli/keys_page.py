"""docs/keys.md, rendered from `tcexplore config --keys --json`: the keys of every action in each keymap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tcexplore.keymap import shown_key

INTRO = """\
# Keys

| key | action |
|---|---|
| `1` … `7`, `z` | go to a pane, zoom it |
| `⏎`, `backspace` | open a row or follow it into the next pane; jump back |
| `b` | next graph break |
| `h` | verified fix for the break under the cursor; `w` writes it, `u` undoes it |
| `v` | the pane's other views |
| `d` | diff with the last complete run |
| `S` | the studies: modes, sizes, recompiles, the stage at fault, cold runs, two targets, break-even |
| `T` | choose the GPU to generate code for |
| `/` | search in the pane; `n` and `N` go to the next and the previous match |
| `?`, `:` | help on the pane, and all commands |

These are enough to start with. `?` lists the keys that work in the current pane, the footer the most important ones.
`:` finds every action, view, target and place by name: `slow line`, `stop recompiling`, `ptx h100`. `compile score`
compiles another function of the file, with the same `inputs`.

The mouse works too: click a row, a key in the footer or an entry of the history; drag to select and copy.

## Keymaps

`--keymap lazygit` and `--keymap vim` use keys that you may know. In `vim`, `gg` goes to the first row.

## Your own keys

In a [configuration file](configuration.md), best the user-wide one:

```toml
keymap = "lazygit"                # or "vim", "default"; as --keymap lazygit
```

```toml
[keymap]
preset = "vim"                    # default: "default"
fix = "ctrl+a"                    # an action, and its keys
page-down = ["ctrl+f", "pagedown"]
zoom = ""                         # no key
```

A key is a character, or a name: `enter`, `escape`, `tab`, `space`, `backspace`, `pageup`, `home`, `up`, `f5`, `comma`,
with `ctrl+`, `shift+` or `alt+` in front. Two actions of a screen cannot have the same key. Footers, help, command list
and hints show the keys in use. In forms and in the search line, `enter` and `escape` keep their meaning.

## All actions

`tcexplore config --keys` prints this list with the keys in use. `⇧` is shift, `^` is ctrl. The columns of the keymaps
are empty where they have the default keys. An action without a key is in the command list.

| action | key | lazygit | vim | meaning |
|---|---|---|---|---|
"""


def render(keymaps: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the whole page. `keymaps` has the actions of each keymap."""
    default, others = keymaps["default"], (keymaps["lazygit"], keymaps["vim"])
    rows = []
    for name, action in default.items():
        changed = (other[name]["keys"] for other in others)
        columns = (_shown(action["keys"]), *("" if keys == action["keys"] else _shown(keys) for keys in changed))
        rows.append(f"| `{name}` | {' | '.join(columns)} | {action['help']} |\n")
    return INTRO + "".join(rows)


def _shown(keys: list[str]) -> str:
    return " ".join(f"`{shown_key(key)}`" for key in keys) or "–"
