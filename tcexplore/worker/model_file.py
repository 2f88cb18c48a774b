"""Run the model file from the text that was saved, under its real path; see before whether it compiles by itself."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import linecache
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from types import ModuleType
from typing import Any

from tcexplore.capture.entry import EntryError
from tcexplore.capture.hooks import Emit
from tcexplore.capture.time_limit import TimeLimitError, time_limit
from tcexplore.events import Job, ScriptEnded
from tcexplore.events.config import IN_CACHES


class ModelFile:
    """The parsed text of the model file.

    Raises `SyntaxError` if it is not valid Python, and `ValueError` if it has a null byte.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        lines = job.source.splitlines(keepends=True)
        # Without a modification time, linecache never compares the entry with the file, which may be newer.
        linecache.cache[job.file] = (len(job.source), None, lines, job.file)
        self._tree = ast.parse(job.source, job.file)

    @property
    def is_script(self) -> bool:
        """Whether the program compiles something itself, and neither the file nor the job names a model and inputs."""
        return bool(self.script_rule)

    @cached_property
    def may_be_script(self) -> bool:
        """Whether neither the file nor the job names a model and inputs."""
        explicit = self.job.name is not None or self.job.config.inputs
        return not explicit and not {"model", "inputs"} <= module_names(self._tree)

    @cached_property
    def script_rule(self) -> str:
        """How it is known that the program compiles something itself; empty if the file is no script."""
        if not self.may_be_script:
            return ""
        if compiles_itself(self._tree) or any(map(_is_compile_option, self.job.argv)):
            return "the file compiles something itself"
        if any(map(_is_main_block, self._tree.body)):
            compiling = next((file for file, tree in self._imported_trees() if compiles_itself(tree)), None)
            return f"{os.path.basename(compiling)}, which it imports, compiles something" if compiling else ""
        return ""

    def _imported_trees(self) -> Iterator[tuple[str, ast.Module]]:
        """Yield the modules beside the file that it imports, directly or not, as they are written."""
        folder = os.path.dirname(self.job.file)
        waiting, known = deque([(self.job.file, self._tree)]), {self.job.file}
        while waiting and len(known) < MOST_IMPORTED:
            file, tree = waiting.popleft()
            for imported in _imported_files(tree, os.path.dirname(file), folder):
                if imported not in known:
                    known.add(imported)
                    with suppress(OSError, SyntaxError, ValueError, RecursionError), open(imported, "rb") as text:
                        waiting.append((imported, ast.parse(text.read(), imported)))
                        yield waiting[-1]

    def run_as_module(self) -> ModuleType:
        """Run the file as an imported module, without its `if __name__ == "__main__":` block."""
        stem = os.path.splitext(os.path.basename(self.job.file))[0]
        free = stem.isidentifier() and stem not in sys.modules and stem not in sys.stdlib_module_names
        name = stem if free else f"tcexplore_file_{stem}"
        _, _, package = self._package
        name = f"{package}.{name}" if package else name
        # A loader is given, since a file may have any extension.
        loader = importlib.machinery.SourceFileLoader(name, self.job.file)
        spec = importlib.util.spec_from_file_location(name, self.job.file, loader=loader)
        assert spec is not None, self.job.file
        return self._run(importlib.util.module_from_spec(spec))

    def run_as_script(self, step: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None) -> ModuleType:
        """Run the file as `python FILE` would. `step` decorates the function whose call is a step (`Config.step`)."""
        module = ModuleType("__main__")
        if self.job.config.step is not None and step is not None:
            vars(module)[STEP_DECORATOR] = step
            decorate(self._tree, self.job.config.step)
        return self._run(module)

    def _run(self, module: ModuleType) -> ModuleType:
        sys.argv = [self.job.file, *self.job.argv]
        folder, root, package = self._package
        module.__package__ = package or module.__package__  # as for `python -m package.file`
        sys.path[:0] = dict.fromkeys([root] if package else [folder, root])
        importlib.invalidate_caches()
        module.__file__ = self.job.file
        sys.modules[module.__name__] = module
        with ModuleOverlay(dict(self.job.overlay)):
            exec(compile(self._tree, self.job.file, "exec", dont_inherit=True), module.__dict__)
        return module

    @cached_property
    def _package(self) -> tuple[str, str, str]:
        """Return the folder of the file, that of its outermost package, and the name of its package.

        The name is empty for a file that imports nothing relative to it (`from .model import Net`).
        """
        folder = root = os.path.dirname(self.job.file)
        nodes = ast.walk(self._tree)
        level = max((node.level for node in nodes if isinstance(node, ast.ImportFrom)), default=0)
        names: list[str] = []
        while len(names) < level or os.path.isfile(os.path.join(root, "__init__.py")):
            root, name = os.path.split(root)
            names.insert(0, name)
        return folder, root, ".".join(names) if level else ""


class ModuleOverlay:
    """A finder of `sys.meta_path` that replaces the text of some local modules, to try a change without writing it."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = {os.path.abspath(file): text for file, text in texts.items()}

    def __enter__(self) -> None:
        if self._texts:
            sys.meta_path.insert(0, self)
        for file, text in self._texts.items():
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)

    def __exit__(self, *_: object) -> None:
        with suppress(ValueError):
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a module with a replaced text, or None for any other module."""
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        text = self._texts.get(os.path.abspath(spec.origin)) if spec and spec.origin else None
        if spec is None or spec.origin is None or text is None:
            return None
        spec.loader = _OverlayLoader(name, spec.origin, text)
        return spec


class _OverlayLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, file: str, text: str) -> None:
        super().__init__(name, file)
        self._text = text

    def get_data(self, path: str) -> bytes:
        return self._text.encode() if path == self.path else super().get_data(path)

    def path_stats(self, path: str) -> Mapping[str, float]:
        """Raise `OSError`, so that no .pyc file of the original text is used."""
        raise OSError(f"{path} is replaced")


MOST_IMPORTED = 200
"""Modules of a program in which a use of torch.compile is looked for."""


def _is_main_block(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)


def _imported_files(tree: ast.Module, folder: str, root: str) -> Iterator[str]:
    """Yield the files in or below the folder `root` that a module in `folder` imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [(root, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = os.path.normpath(os.path.join(folder, *[os.pardir] * (node.level - 1))) if node.level else root
            inside = [f"{node.module}.{alias.name}" if node.module else alias.name for alias in node.names]
            names = [(base, name) for name in (*filter(None, [node.module]), *inside)]
        else:
            continue
        for base, name in names:
            path = os.path.join(base, *name.split("."))
            yield from (file for file in (f"{path}.py", os.path.join(path, "__init__.py")) if os.path.isfile(file))


STEP_DECORATOR = "__tcexplore_step__"


def decorate(tree: ast.Module, name: str) -> None:
    """Decorate the function `name` or `Class.name` with `STEP_DECORATOR`, on the lines that it has.

    `name` may also be a method, or a function inside another one, if no function of the module has it.
    """
    body: list[ast.stmt] = tree.body
    *classes, name = name.split(".")
    for owner in classes:
        body = [child for node in body if isinstance(node, ast.ClassDef) and node.name == owner for child in node.body]
    functions = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == name]
    if not functions and not classes:
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
    for function in functions:
        known = function.decorator_list
        if all(ast.unparse(decorator) != STEP_DECORATOR for decorator in known):
            known.insert(0, ast.copy_location(ast.Name(STEP_DECORATOR, ast.Load()), known[0] if known else function))


REFUSED = "A script chooses itself what it compiles."
REFUSED_HINT = "To compile it in another way, put a model and its inputs in a file as `model` and `inputs`."


def refuse_for_script(job: Job) -> None:
    """Raise `EntryError` if the job compiles in a way that needs a model and its inputs."""
    if job.config.regions != "whole" or job.artifacts not in IN_CACHES:
        raise EntryError(REFUSED, REFUSED_HINT, "arguments")


def run_script(
    script: Callable[[], Any], limit: float, emit_calls: Callable[[], None], emit: Emit,
    waited_s: Callable[[], float] = float,
) -> None:  # fmt: skip
    """Run `script`, for at most `limit` seconds unless that is 0; then emit its last calls and a `ScriptEnded`.

    `waited_s` returns the seconds in which the script waited for tcexplore, which are not its own. Propagate exceptions
    of the script, except for an exit with status 0.
    """
    start, limited = time.perf_counter(), False
    before = os.times()
    try:
        with time_limit(limit):
            script()
    except SystemExit as error:
        if error.code not in (None, 0):
            raise
    except TimeLimitError:
        limited = True
    finally:
        emit_calls()
        after = os.times()
        processes_s = sum(after[2:4]) - sum(before[2:4])
        seconds = max(0.0, time.perf_counter() - start - waited_s())
        emit(ScriptEnded(seconds=seconds, time_limit=limit if limited else None, processes_s=processes_s))


_COMPILERS = {
    "torch.compile", "torch._dynamo.optimize", "torch.compiler.compile", "accelerate.utils.compile_regions",
    "torch._inductor.aoti_compile_and_package", "torch._inductor.aot_compile", "torch._export.aot_compile",
}  # fmt: skip

_COMPILE_METHODS = {"compile", "compile_repeated_blocks"}
"""Methods of a module that compile it; the second one is that of `diffusers`."""

_COMPILE_ARGUMENTS = {
    "torch_compile", "torch_compile_backend", "torch_compile_mode", "dynamo_backend", "dynamo_plugin", "compile_config"
}  # fmt: skip
"""Arguments with which trainers and `generate` of `transformers`, and `accelerate.Accelerator`, compile the model."""


def compiles_itself(tree: ast.Module) -> bool:
    """Return whether the file uses `torch.compile`, calls the `.compile()` of an object, or has a trainer compile.

    Names are resolved through the file's imports; `re.compile` and functions of other modules do not count.
    """
    imports = _imported_names(tree)
    return any(
        _has_library_compile(node) if isinstance(node, ast.keyword) else _is_compiler(node, imports)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name | ast.keyword)
    )


def _has_library_compile(argument: ast.keyword) -> bool:
    off = isinstance(argument.value, ast.Constant) and argument.value.value in (False, None, "no")
    return argument.arg in _COMPILE_ARGUMENTS and not off


def _is_compile_option(argument: str) -> bool:
    """Return whether an argument of the script, such as `--torch_compile=True`, has a trainer compile."""
    name, _, value = argument.partition("=")
    return name.lstrip("-").replace("-", "_") in _COMPILE_ARGUMENTS and value.lower() not in ("false", "no", "0")


def module_names(tree: ast.Module) -> set[str]:
    """Return the names that the file binds at module level, outside `if __name__ == "__main__":`."""
    return set(_bound_names(tree.body))


def _bound_names(body: list[ast.stmt]) -> Iterator[str]:
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name.partition(".")[0] for alias in aliases)
            case ast.If() if _is_main_block(statement):
                continue
            case _:
                yield from _assigned_names(statement)


def _assigned_names(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement binds, its body included."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            yield from _bound_names([child])
        elif isinstance(child, ast.ExceptHandler):
            yield from _bound_names(child.body)
        else:
            yield from (
                node.id for node in ast.walk(child) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            )


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """Return the full dotted name of every name that an import binds anywhere in the file."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _is_compiler(node: ast.Attribute | ast.Name, imports: dict[str, str]) -> bool:
    dotted = ast.unparse(node)
    root, dot, rest = dotted.partition(".")
    if root in imports:
        return imports[root] + dot + rest in _COMPILERS
    return isinstance(node, ast.Attribute) and node.attr in _COMPILE_METHODS
