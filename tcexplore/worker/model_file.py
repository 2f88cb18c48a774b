"""Running the user's file from the text that was saved, under its real path."""

from __future__ import annotations

import ast
import importlib.util
import linecache
import os
import sys
from types import CodeType, ModuleType

from tcexplore.capture.entry.script_detection import compiles_itself, module_names
from tcexplore.events import Job
from tcexplore.worker.module_overlay import Overlay


class ModelFile:
    """The file's text, parsed: what kind of file it is can be told before it is run.

    Raises `SyntaxError` (`ValueError` for a null byte) where it is no Python.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        lines = job.source.splitlines(keepends=True)
        # Without a modification time the entry is never checked against the disk, where a newer text may stand.
        linecache.cache[job.file] = (len(job.source), None, lines, job.file)
        self._tree = ast.parse(job.source, job.file)

    @property
    def is_script(self) -> bool:
        """Whether the file compiles something itself and says nothing of a model and inputs of its own."""
        asked = self.job.name is not None or self.job.config.inputs
        return not asked and not {"model", "inputs"} <= module_names(self._tree) and compiles_itself(self._tree)

    def as_module(self) -> ModuleType:
        """Run it as an imported module; `if __name__ == "__main__":` stays out."""
        stem = os.path.splitext(os.path.basename(self.job.file))[0]
        free = stem.isidentifier() and stem not in sys.modules and stem not in sys.stdlib_module_names
        name = stem if free else f"tcexplore_file_{stem}"
        spec = importlib.util.spec_from_file_location(name, self.job.file)
        assert spec is not None, self.job.file
        return self._run(importlib.util.module_from_spec(spec))

    def as_script(self) -> ModuleType:
        """Run it as `python FILE` would."""
        return self._run(ModuleType("__main__"))

    def _run(self, module: ModuleType) -> ModuleType:
        sys.argv = [self.job.file, *self.job.argv]
        sys.path.insert(0, os.path.dirname(self.job.file))
        importlib.invalidate_caches()
        module.__file__ = self.job.file
        sys.modules[module.__name__] = module
        with Overlay(dict(self.job.overlay)):
            exec(self._code(), module.__dict__)
        return module

    def _code(self) -> CodeType:
        return compile(self._tree, self.job.file, "exec", dont_inherit=True)
