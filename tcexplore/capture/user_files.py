"""The user's files, and the locations of stack frames in them."""

from __future__ import annotations

import inspect
import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeVar

from tcexplore.events import Location
from tcexplore.torch_text.dynamo_names import function_name

Frame = TypeVar("Frame", bound=Any)

_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
_FRAME = re.compile(r'File "([^"]+)", line (\d+)(?:, in (\S+))?')


_resolve = lru_cache(4096)(os.path.realpath)


def _real_path(path: str) -> str:
    """Return a path without symbolic links.

    Absolute ones are cached for the whole process: each run asks for torch's files, and priming has done so before.
    """
    return _resolve(path) if os.path.isabs(path) else os.path.realpath(path)


@cache
def _python_folders() -> tuple[str, ...]:
    """Return the folders of Python, of its packages and of tcexplore."""
    paths = sysconfig.get_paths()
    tcexplore = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return (*(paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")), tcexplore)


class StackFrame(NamedTuple):
    """A frame as `traceback.FrameSummary` names its fields."""

    filename: str
    lineno: int | None
    name: str


def stack_of_text(text: str) -> list[StackFrame]:
    """Return the frames in the text of a traceback."""
    return [StackFrame(file, int(line), name) for file, line, name in _FRAME.findall(text)]


class NodeNames(NamedTuple):
    """The node names of a Dynamo graph."""

    all: frozenset[str]
    by_name: Mapping[str, Mapping[str | None, str]]
    """Final names by their names in the graph or subgraph, and by module: a name may stand in several subgraphs."""
    by_first: Mapping[str, Mapping[str | None, str]]
    """Final names by the names before Dynamo renamed the nodes after variables, and by module."""
    subgraph_paths: Mapping[int | None, str] = {}
    """Paths of subgraphs by the id of their graph objects, which torch records in later nodes."""
    calls: tuple[tuple[str, object], ...] = ()
    """Name and target of each call, in order."""
    parts: Mapping[int | None, Mapping[str, str]] = {}
    """Of a graph that DDP split: the names by those in each part, by the id of the part's graph object."""


class UserFiles:
    """The model file and every module that is neither installed nor part of the standard library.

    A model whose class an installed library defines (GPT-2 from `transformers`) has no line in these files: its frames
    are those of the library, if a stack has none of the user. `adopt` counts the library of the model file's own model
    as the user's altogether.
    """

    def __init__(self, file: str) -> None:
        self.file = os.path.abspath(file)
        self._owned: dict[str, bool] = {}
        self._of_library: dict[str, bool] = {}
        self._adopted: str | None = None
        self._by_stack_trace: dict[tuple[str, bool], tuple[Location, ...]] = {}
        """Frames by the text of a stack and `libraries`: each stage repeats those of the stage before it."""
        self._located: dict[str, str] = {}
        """Absolute paths of the files that have a location, by the path in the frame."""
        self.callers: dict[str, Location] = {}
        """By compile id, the user's line that was running when the frame was compiled."""
        self.of_libraries: dict[str, bool] = {}
        """By compile id, whether no code of the user calls the frame inside its region: it may be a library's."""
        self.readers: dict[str, dict[str, Location]] = {}
        """By compile id, the line of the first node that reads each input, by the readable name of the input."""
        self.node_names: dict[str, NodeNames] = {}
        """By compile id, the node names of the Dynamo graph."""

    @cached_property
    def _real_file(self) -> str:
        return _real_path(self.file)

    @cached_property
    def _foreign_roots(self) -> tuple[str, ...]:
        roots = {*_python_folders(), *(p for p in sys.path if p.endswith(_PACKAGE_FOLDERS))}
        torch = sys.modules.get("torch")
        if torch is not None and torch.__file__:
            roots.add(os.path.dirname(torch.__file__))
        # Inductor sets this at its first compile: the folder of the code that it generates.
        generated = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
        if generated:
            roots.add(generated)
        return tuple(_real_path(r) + os.sep for r in roots)

    @cached_property
    def _compiler_folders(self) -> tuple[str, ...]:
        """The folders of torch, Triton and tcexplore."""
        folders = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
        for name in ("torch", "triton"):
            file = getattr(sys.modules.get(name), "__file__", None)
            folders += [os.path.dirname(file)] if file else []
        return tuple(_real_path(folder) + os.sep for folder in folders)

    def adopt(self, function: Any) -> None:
        """Count the installed package that defines `function` as the user's, unless it is torch or Python itself."""
        code = getattr(inspect.unwrap(function), "__code__", None)
        file = _real_path(code.co_filename) if code else ""
        if not file or self.owns(file):
            return
        roots = [
            root
            for root in self._foreign_roots
            if root.rstrip(os.sep).endswith(_PACKAGE_FOLDERS) and file.startswith(root)
        ]
        package = os.path.join(roots[0], file.removeprefix(roots[0]).split(os.sep)[0], "") if roots else ""
        if package and not any(root.startswith(package) for root in self._foreign_roots):
            self._adopted = package
            self._owned.clear()
            self._by_stack_trace.clear()

    def owns(self, file: str) -> bool:
        """Return whether a file is the user's: not installed, except in the adopted library, nor part of Python."""
        owned = self._owned.get(file)
        if owned is None:
            real = _real_path(file)
            owned = real == self._real_file or (
                not real.startswith(self._foreign_roots)
                and "site-packages" not in real
                and not file.startswith("<")
                and os.path.isfile(real)
            )
            owned = owned or (self._adopted is not None and real.startswith(self._adopted))
            self._owned[file] = owned
        return owned

    def _in_library(self, file: str) -> bool:
        """Return whether a file is of an installed library, other than torch and Triton."""
        in_library = self._of_library.get(file)
        if in_library is None:
            real = _real_path(file)
            in_library = self._of_library[file] = any(
                f"{os.sep}{folder}{os.sep}" in real for folder in _PACKAGE_FOLDERS
            ) and not real.startswith(self._compiler_folders)
        return in_library

    def frames(self, stack: Iterable[Any] | None, *, libraries: bool = False) -> tuple[Location, ...]:
        """Return the user's frames of a `traceback.StackSummary`, or of any frames with filename, lineno and name.

        With `libraries`, they are those of installed libraries if there are none of the user.
        """
        return self.locations(self.shown(tuple(stack or ()), libraries=libraries))

    def shown(self, stack: Sequence[Frame], *, libraries: bool) -> list[Frame]:
        """Return the frames that `frames` locates."""
        own = [frame for frame in stack if self.owns(frame.filename)]
        return own if own or not libraries else [frame for frame in stack if self._in_library(frame.filename)]

    def locations(self, stack: Iterable[Any]) -> tuple[Location, ...]:
        """Return the locations of frames with filename, lineno and name."""
        return tuple(self.location(frame.filename, frame.lineno, frame.name) for frame in stack)

    def frames_of_text(self, stack_trace: str | None, *, libraries: bool = False) -> tuple[Location, ...]:
        """Return the frames in the text of an FX node's `stack_trace`, as `frames` does."""
        if not stack_trace:
            return ()
        key = stack_trace, libraries
        frames = self._by_stack_trace.get(key)
        if frames is None:
            frames = self._by_stack_trace[key] = self.frames(stack_of_text(stack_trace), libraries=libraries)
        return frames

    def sources(self) -> tuple[tuple[str, str], ...]:
        """Return (path, text) of every file that has a location, without the model file."""
        files = sorted(file for file in set(self._located.values()) if file != self.file)
        return tuple((file, "".join(linecache.getlines(file))) for file in files)

    def innermost(self, frame: FrameType | None, *, libraries: bool = False) -> FrameType | None:
        """Return the innermost frame of the user's files, from a frame on outwards; None if there is none.

        With `libraries`, it is that of an installed library if there is none of the user.
        """
        for counts in (self.owns, self._in_library) if libraries else (self.owns,):
            inner = frame
            while inner is not None and not counts(inner.f_code.co_filename):
                inner = inner.f_back
            if inner is not None:
                return inner
        return None

    def reader_or_caller(self, graph: str, name: str) -> Location | None:
        """Return the line for a guard outside the user's files: the first that reads the value, or calls the frame."""
        return self.readers.get(graph, {}).get(name) or self.callers.get(graph)

    def location(self, file: str, line: int | None, function: str) -> Location:
        """Return a location; a resume function gets the name of its original function."""
        path = self._located.get(file)
        if path is None:
            path = self._located[file] = os.path.abspath(file)
        return Location(path, line or 0, function_name(function))

    def location_of(self, code: CodeType) -> Location:
        """Return the location of a function."""
        return self.location(code.co_filename, code.co_firstlineno, code.co_name)

    def find(self, ending: str, line: int, function: str) -> Location | None:
        """Return the location in the file whose path has this ending, None if no such file is known.

        It is the user's file, or that of a library of which other locations are known.
        """
        known = (*(file for file, owned in self._owned.items() if owned), *filter(self._in_library, self._located))
        candidates = (file for file in known if file.endswith(ending))
        file = self.file if self.file.endswith(ending) else next(candidates, None)
        return self.location(file, line, function) if file else None

    def imported(self, since: Collection[str] = ()) -> tuple[str, ...]:
        """Return the files of the user's loaded modules, sorted, without the model file and an adopted library.

        Modules named in `since` and code that Inductor generated are left out.
        """
        names = [name for name in set(sys.modules).difference(since) if not name.startswith("torch.")]
        files = {getattr(sys.modules.get(name), "__file__", None) for name in names}
        owned = {os.path.abspath(f) for f in files if f and f.endswith(".py") and self.owns(f)} - {self.file}
        return tuple(sorted(f for f in owned if not self._adopted or not _real_path(f).startswith(self._adopted)))

    @staticmethod
    def line(location: Location | None) -> str:
        """Return the source line at a location, stripped; empty without a location."""
        return linecache.getline(location.file, location.line).strip() if location else ""
