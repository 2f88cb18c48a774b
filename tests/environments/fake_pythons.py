"""Fake interpreters and environments: shell scripts that answer as a Python would."""

from __future__ import annotations

from pathlib import Path

ANSWER = """\
#!/bin/sh
printf '\\ntcexplore:\\n%s\\n%s\\n%s\\n%s\\n%s\\n' "$$" "$0" "{prefix}" "{python}" "{torch}"
"""


def script(path: Path, text: str) -> Path:
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def fake_python(path: Path, python: str = "3.12.4", torch: str = "2.11.0", prefix: str = "/nowhere") -> Path:
    """Write an interpreter with these versions; no torch if empty."""
    return script(path, ANSWER.format(prefix=prefix, python=python, torch=torch))


def fake_environment(folder: Path, python: str = "3.12.4", torch: str = "2.11.0") -> Path:
    """Make a virtual environment with such an interpreter."""
    fake_python(folder / "bin" / "python", python, torch, str(folder))
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    return folder
