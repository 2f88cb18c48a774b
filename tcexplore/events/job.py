"""A worker that is ready, and what it is asked for: one run of a file, and how that compiles."""

from __future__ import annotations

from dataclasses import dataclass, field

from tcexplore.events.base import Event

FOLLOW_S = 300.0
"""Seconds that a script is followed when nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """How a run compiles; the fields are the arguments of `torch.compile` and the command line's options."""

    mode: str = "default"
    backend: str = "inductor"
    dynamic: bool | None = None
    fullgraph: bool = False
    train: bool = False
    device: str | None = None
    """Move model and inputs here; None leaves them where the file put them."""
    target: str = "native"
    """The device to show code for: the one in the machine, a name of the device table, or the path of a TOML file."""
    assembly: bool = False
    """Whether C++ kernels are brought to assembly too: some seconds each."""
    inputs: tuple[str, ...] = ()
    """`--input` specifications such as `f32[64,512]` or `mask=bool[64]`."""
    seed: int = 0
    threads: int | None = None
    fuse: bool = True
    """False: Inductor's scheduler leaves every node apart."""
    dim: int = 0
    sizes: tuple[int, ...] = ()
    """Make each of the file's calls once per size, dimension `dim` of its inputs that large; none: as they are."""
    follow: float = FOLLOW_S
    """Seconds after which a script that compiles things itself is ended, 0 for never."""
    vary: tuple[str, ...] = ()
    """`--vary` specifications (`events/vary.py`): each of the file's calls is made for every combination."""
    mark_dynamic: tuple[str, ...] = ()
    """Dimensions of arguments, such as `x.0`, that are marked with `torch._dynamo.mark_dynamic`."""
    as_tensors: tuple[str, ...] = ()
    """Arguments that are numbers and are given as tensors instead."""
    buckets: tuple[str, ...] = ()
    """Such as `x.0=8,16,32`: tensors are padded with zeros to the next of these sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Front end to worker: run this file once. Only a `Switch` may follow it in this direction.

    `source` is the text that the front end read at the save, so that the run and the panes
    cannot disagree when the file changes again meanwhile.
    """

    run: int
    file: str
    source: str
    name: str | None = None
    argv: tuple[str, ...] = ()
    config: Config = field(default_factory=Config)
    time_for: float | None = None
    """Seconds of timing after the compile; None refines until the worker is ended, 0 skips timing."""
    passes: int = 1
    """How often the compiled calls are made, one after another; with more than one nothing is timed beside that."""
    examine: bool = True
    """Whether results and memory of both sides are compared after the compile."""
    graph_scripts: bool = False
    """Whether torch's own script for each of Inductor's graphs is wanted."""
    runnable: bool = False
    """Whether each Triton kernel for the target is wanted as a file that runs by itself."""
    caches: str = ""
    """A folder for torch's compile caches, all of which are used then. Empty leaves them where torch has them, those
    that would hide the compile switched off."""
    cache_dir: str = ""
    """A folder for compiled kernels in the place of torch's own; the caches that would hide the compile stay off."""
    save_artifacts: str = ""
    """A file to write torch's portable compile artifacts to, once everything is compiled; empty for none."""
    load_artifacts: str = ""
    """A file with such artifacts, to be loaded before anything is compiled."""
    baseline: str | None = None
    """The file's text before a change that `source` has or `overlay` makes: the two are compared, in their results and
    in the time that a compiled call takes, in the place of timing eager against compiled."""
    overlay: tuple[tuple[str, str], ...] = ()
    """Paths of local modules, each with the text that it is imported with instead of its own."""
    recompile_queries: tuple[str, ...] = ()
    """Inputs (`f32[33,512], True`) of which to tell, once everything is compiled, whether they would recompile."""
    retargetable: bool = False
    """Whether a `Switch` to another target may follow: the run keeps its graphs for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby(Event):
    """A worker is ready for a job. `seconds` is how long importing and priming took."""

    torch: str
    python: str
    device: str
    """What compiled code runs on by default, e.g. `cpu` or `cuda: NVIDIA H200`."""
    seconds: float
    modes: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    """What `torch.compile` takes as mode and as backend with this torch; empty where torch does not say."""
