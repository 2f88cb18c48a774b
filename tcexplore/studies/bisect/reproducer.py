"""A folder that shows a fault without tcexplore: the user's files, a script, versions, torch's own scripts."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from tcexplore.events import Job, Standby
from tcexplore.studies.bisect.bisect_result import BisectStep
from tcexplore.studies.bisect.reproducer_script import script, what

README = """\
# {what}

```sh
python repro.py
```

ends with an exception where the fault shows. Seed {seed}; inputs: {inputs}.

- torch {torch}, Python {python}, {device}
- {system}

{graphs}"""

GRAPHS = """\
torch's own script for each graph that Inductor compiled; `minify` makes it smaller as long as the fault stays:

```sh
{commands}
```
"""


def write(folder: str, job: Job, culprit: BisectStep, machine: Standby | None) -> tuple[Path, ...]:
    """Write the reproducer of `culprit` and return the files that were written. Raises `OSError`."""
    there, written = Path(folder), []
    scripts = _scripts(culprit)
    texts = {
        **_users(job, culprit),
        "repro.py": script(job, culprit),
        **scripts,
        "README.md": _readme(culprit, machine, tuple(scripts)),
    }
    for name, text in texts.items():
        path = there / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return tuple(written)


def free(folder: str) -> str:
    """The folder, if writing into it overwrites nothing. Raises `ValueError` with a sentence otherwise."""
    there = Path(folder.strip()).expanduser()
    if not folder.strip():
        raise ValueError("A folder is needed: it is made where there is none.")
    if there.exists() and (not there.is_dir() or any(there.iterdir())):
        raise ValueError(f"{there} is there already: nothing is overwritten, name another.")
    return str(there)


def _users(job: Job, culprit: BisectStep) -> dict[str, str]:
    """The file as it was run, and the local modules that it imported from beside or below it."""
    folder, files = os.path.dirname(job.file), {os.path.basename(job.file): job.source}
    for module in culprit.run.modules:
        inside = os.path.relpath(module, folder)
        if not inside.startswith(os.pardir) and module != job.file:
            files[inside] = Path(module).read_text(encoding="utf-8", errors="replace")
    return files


def _scripts(culprit: BisectStep) -> dict[str, str]:
    found = enumerate(culprit.run.graph_scripts)
    return {f"fx_graph_{number}_{script.graph.replace('/', '_')}.py": script.source for number, script in found}


def _readme(culprit: BisectStep, machine: Standby | None, scripts: tuple[str, ...]) -> str:
    entry, config = culprit.run.entry, culprit.run.config
    calls = "; ".join(f"({', '.join(call)})" for call in entry.calls) if entry else "not known"
    commands = "\n".join(f"python {name} run\npython {name} minify" for name in scripts)
    return README.format(
        what=what(culprit),
        seed=config.seed,
        inputs=calls,
        torch=machine.torch if machine else "?",
        python=machine.python if machine else platform.python_version(),
        device=machine.device if machine else "?",
        system=platform.platform(),
        graphs=GRAPHS.format(commands=commands) if scripts else "",
    )
