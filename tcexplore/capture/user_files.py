"""Which files are the user's own, and where in them a stack points."""

from __future__ import annotations

import inspect
import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Collection, Iterable
from functools import cached_property
from typing import Any, NamedTuple

from tcexplore.events import Location

_INSTALLED = ("site-packages", "dist-packages")
_FRAME = re.compile(r'File "([^"]+)", line (\d+)(?:, in (\S+))?')
_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+$")


class NodeNames(NamedTuple):
    """The names of a Dynamo graph's nodes, and each by the name that it had before it was named after a variable."""

    all: frozenset[str]
    by_first: dict[str, str]


class UserFiles:
    """The user's file and every module that is neither the standard library's nor installed.

    A model whose class an installed library defines (a GPT-2 out of `transformers`) has no line in the user's file:
    `adopt` then counts that library as theirs.
    """

    def __init__(self, file: str) -> None:
        self.file = os.path.abspath(file)
        self._known: dict[str, bool] = {}
        self._adopted: str | None = None
        self._placed: set[str] = set()
        self.callers: dict[str, Location] = {}
        """By compile id, the user's line that ran when the frame was compiled."""
        self.nodes: dict[str, NodeNames] = {}
        """By compile id, what Dynamo's nodes are called."""

    @cached_property
    def _foreign(self) -> tuple[str, ...]:
        paths = sysconfig.get_paths()
        ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        roots = {paths[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")} | {ours}
        roots |= {p for p in sys.path if p.endswith(_INSTALLED)}
        torch = sys.modules.get("torch")
        if torch is not None and torch.__file__:
            roots.add(os.path.dirname(torch.__file__))
        # Set by Inductor itself once it has compiled anything: where it keeps the code it generates.
        generated = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
        if generated:
            roots.add(generated)
        return tuple(os.path.realpath(r) + os.sep for r in roots)

    def adopt(self, function: Any) -> None:
        """Count the installed package that defines `function` as the user's; torch and Python never are."""
        code = getattr(inspect.unwrap(function), "__code__", None)
        file = os.path.realpath(code.co_filename) if code else ""
        if not file or self.owns(file):
            return
        roots = [root for root in self._foreign if root.rstrip(os.sep).endswith(_INSTALLED) and file.startswith(root)]
        package = os.path.join(roots[0], file.removeprefix(roots[0]).split(os.sep)[0], "") if roots else ""
        if package and not any(root.startswith(package) for root in self._foreign):
            self._adopted = package
            self._known.clear()

    def owns(self, file: str) -> bool:
        """Whether a file is the user's: it exists, and is neither installed nor part of Python or tcexplore."""
        known = self._known.get(file)
        if known is None:
            real = os.path.realpath(file)
            known = real == os.path.realpath(self.file) or (
                os.path.isfile(real)
                and not real.startswith(self._foreign)
                and "site-packages" not in real
                and not file.startswith("<")
            )
            known = known or (self._adopted is not None and real.startswith(self._adopted))
            self._known[file] = known
        return known

    def frames(self, stack: Iterable[Any] | None) -> tuple[Location, ...]:
        """The user's frames of a `traceback.StackSummary` or of any frames with filename, lineno and name."""
        return tuple(self.location(f.filename, f.lineno, f.name) for f in stack or () if self.owns(f.filename))

    def frames_of_text(self, stack_trace: str | None) -> tuple[Location, ...]:
        """The same from the text that FX keeps in `node.meta["stack_trace"]`."""
        found = _FRAME.findall(stack_trace or "")
        return tuple(self.location(f, int(n), fn) for f, n, fn in found if self.owns(f))

    def sources(self) -> tuple[tuple[str, str], ...]:
        """(path, text) of every file that a place was given in, but for the user's own."""
        files = sorted(file for file in self._placed if file != self.file)
        return tuple((file, "".join(linecache.getlines(file))) for file in files)

    def location(self, file: str, line: int | None, function: str) -> Location:
        """A place in a file; the part of a function that Dynamo resumes after a graph break goes by its own name."""
        self._placed.add(os.path.abspath(file))
        return Location(os.path.abspath(file), line or 0, function_name(function))

    def find(self, ending: str, line: int, function: str) -> Location | None:
        """A place whose file torch gives by the end of its path alone; None unless that is a file met before."""
        known = (file for file, owned in self._known.items() if owned and file.endswith(ending))
        file = self.file if self.file.endswith(ending) else next(known, None)
        return self.location(file, line, function) if file else None

    def imported(self, since: Collection[str] = ()) -> tuple[str, ...]:
        """Every loaded module of the user's other than the file itself, sorted.

        `since` names modules that were loaded before and are not looked at; what Inductor generated is not theirs.
        """
        new = [m for name, m in list(sys.modules.items()) if name not in since and not name.startswith("torch.")]
        files = {getattr(m, "__file__", None) for m in new}
        own = {os.path.abspath(f) for f in files if f and f.endswith(".py") and self.owns(f)} - {self.file}
        return tuple(sorted(f for f in own if not self._adopted or not os.path.realpath(f).startswith(self._adopted)))

    @staticmethod
    def line(location: Location | None) -> str:
        """The user's line as written, stripped; empty where there is none."""
        return linecache.getline(location.file, location.line).strip() if location else ""


def is_resumed(function: str) -> bool:
    """Whether this is a function that Dynamo made to go on after a graph break."""
    return _RESUMED.match(function) is not None


def function_name(function: str) -> str:
    """The user's name of a function, also where Dynamo resumes it: `torch_dynamo_resume_in_f_at_12` is `f`."""
    found = _RESUMED.match(function)
    return found.group(1) if found else function
