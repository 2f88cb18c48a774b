"""A front end without torch, and a worker in an environment without the front end's packages."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch

FRONT_END = (
    "textual",
    "rich",
    "pygments",
    "watchfiles",
    "platformdirs",
    "tcexplore",
    "__editable__",
    "_pytest",
    "pytest",
)
"""Packages that only the front end needs, and those of the tests."""

MODEL = """\
import importlib.util, os, sys
import torch
print("prefix", sys.prefix)
print("packages", *[name for name in ("textual", "rich", "watchfiles", "platformdirs", "pytest")
                    if importlib.util.find_spec(name)])
print("active", os.environ["VIRTUAL_ENV"], os.environ["PATH"].partition(":")[0])
def model(x):
    return torch.relu(x).sum()
inputs = (torch.ones(8),)
"""

WITHOUT_TORCH = """\
import sys
for name in ("torch", "triton", "sympy", "numpy"):
    sys.modules[name] = None
from tcexplore.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with torch, but without the packages of the front end."""
    folder = tmp_path_factory.mktemp("project") / ".venv"
    venv.create(folder)
    site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for installed in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(installed).iterdir():
            if not entry.name.startswith(FRONT_END) and entry.suffix != ".pth" and not (site / entry.name).exists():
                (site / entry.name).symlink_to(entry)
    return folder


@pytest.fixture(scope="module")
def report(environment: Path) -> dict[str, Any]:
    """The JSON of a check that finds the environment beside the model file."""
    file = environment.parent / "model.py"
    file.write_text(MODEL)
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"import sys; sys.path.append({root!r})\n{WITHOUT_TORCH}",
         "check", str(file), "--json", "--time-for", "0", "--trust"],
        capture_output=True, text=True, check=False,
        env={
            "PATH": "/usr/bin:/bin", "XDG_STATE_HOME": str(environment.parent / "state"),
            "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",  # they would serve one kernel
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_a_front_end_without_torch_compiles_in_the_environment_beside_the_file(
    report: dict[str, Any], environment: Path
):
    assert report["status"] == "ok"
    assert report["environment"] == {"executable": str(environment / "bin" / "python"), "source": str(environment)}
    assert report["kernels"]
    assert report["torch"]


def test_the_worker_sees_the_environment_and_nothing_of_the_front_end(report: dict[str, Any], environment: Path):
    output = "".join(chunk["text"] for chunk in report["output"])
    assert f"prefix {environment}\n" in output
    assert "packages\n" in output
    assert f"active {environment} {environment / 'bin'}\n" in output


def test_no_fact_is_missing_for_want_of_a_package(report: dict[str, Any]):
    assert not [fact for fact in report["missing"] if "No module named" in (fact["reason"] or "")]


def test_nothing_is_installed_into_the_environment(report: dict[str, Any], environment: Path):
    del report
    assert not [path for path in environment.rglob("*") if "tcexplore" in path.name]
