"""How long after a save the Triton code for a GPU that is not here stands on the screen, against this CPU's own C++.

The same model and clock as `save_to_paint`, saves in turn in two apps, one of them with --target.

Run: python -m tests.benchmarks.target_to_paint [--saves 8] [--target h100]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.save_to_paint import MODEL, atomic_save, constant
from tests.terminal import Terminal

MOST = 2.0
"""Times the CPU's own code that the target's may take."""


class App:
    """The app on a model of its own, the code pane alone on a tall screen."""

    def __init__(self, folder: Path, *options: str) -> None:
        folder.mkdir()
        self._file = folder / "model.py"
        self._saves = 500
        self._file.write_text(self._model)
        command = [sys.executable, "-m", "tcexplore", str(self._file), *options]
        self.terminal = Terminal(command, columns=130, rows=250, cwd=str(folder))
        self.terminal.type("5")
        self.terminal.wait_for(constant(self._saves), timeout=180)

    @property
    def _model(self) -> str:
        return MODEL.replace("CONSTANT", constant(self._saves))

    def save(self) -> float:
        """Seconds from a save to its constant in the generated code."""
        self.terminal.read(4)  # what goes on after the save before
        self.terminal.forget()
        self._saves += 1
        saved = atomic_save(self._file, self._model)
        return self.terminal.wait_for(constant(self._saves), timeout=120) - saved


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--saves", type=int, default=8)
    parser.add_argument("--target", default="h100")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="target-to-paint-"))
    try:
        taken = {}
        for name, more in (("native", ()), (options.target, ("--target", options.target))):
            app = App(folder / name, *more)
            with app.terminal:
                taken[name] = [app.save() for _ in range(options.saves + 1)][1:]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    native, target = (statistics.median(found) for found in taken.values())
    print(f"save to the CPU's C++      {native * 1e3:6.0f} ms", *(f"{s * 1e3:.0f}" for s in taken["native"]))
    print(
        f"save to Triton for {options.target:8}{target * 1e3:6.0f} ms",
        *(f"{s * 1e3:.0f}" for s in taken[options.target]),
    )
    print(f"{target / native:.2f} times (at most {MOST})")
    return int(target / native > MOST)


if __name__ == "__main__":
    sys.exit(main())
