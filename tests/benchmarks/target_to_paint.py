"""Time from a save until the Triton code for an absent GPU is on the screen, compared with this CPU's C++ code.

Uses the model and clock of `save_to_paint`; saves alternate between two apps, one of them with --target.

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

MAX_RATIO = 2.0
"""Maximum ratio of the target's time to the CPU's."""


class App:
    """The app on a separate model, showing only the code pane on a tall screen."""

    def __init__(self, folder: Path, *options: str) -> None:
        folder.mkdir()
        self._file = folder / "model.py"
        self._saves = 500
        self._file.write_text(self._model)
        command = [sys.executable, "-m", "tcexplore", str(self._file), *options]
        self.terminal = Terminal(command, columns=130, rows=250, cwd=str(folder))
        self.terminal.type("5z")  # the pane alone on the screen
        self.terminal.wait_for(constant(self._saves), timeout=180)

    @property
    def _model(self) -> str:
        return MODEL.replace("CONSTANT", constant(self._saves))

    def save(self) -> float:
        """Save, and return the seconds until the new constant is in the generated code."""
        self.terminal.read(4)  # output that follows the previous save
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
        times: dict[str, list[float]] = {}
        for name, extra in (("native", ()), (options.target, ("--target", options.target))):
            app = App(folder / name, *extra)
            with app.terminal:
                times[name] = [app.save() for _ in range(options.saves + 1)][1:]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    native, target = (statistics.median(seconds) for seconds in times.values())
    print(f"save to the CPU's C++      {native * 1e3:6.0f} ms", *(f"{s * 1e3:.0f}" for s in times["native"]))
    print(
        f"save to Triton for {options.target:8}{target * 1e3:6.0f} ms",
        *(f"{s * 1e3:.0f}" for s in times[options.target]),
    )
    print(f"{target / native:.2f} times (at most {MAX_RATIO})")
    return int(target / native > MAX_RATIO)


if __name__ == "__main__":
    sys.exit(main())
