"""torch's own names: of values and functions as the user would write them, and of the spans of phases."""

from __future__ import annotations

import functools
import re
from types import CodeType

from tcexplore.events import Phase

_ROOT = re.compile(r"\b[LG]\['([^'\]]+)'\]")
_MEMBER = re.compile(
    r"\.(?:_(?:modules|parameters|buffers)|__dict__\['_(?:modules|parameters|buffers)'\])\['([^'\]]+)'\]"
)
"""A member of a module, of one with a `__getattr__` of its own as well."""
_CLASS_ITEM = re.compile(r"dict\(type\((.+?)\)\.__dict__\)\['([^']+)'\]")
_DICT_ITEM = re.compile(r"dict\.__getitem__\((.+?), '([^']+)'\)")
_INSTALLED = re.compile(r"\b_\d{9,}_c\d+\b")
"""A global variable that Dynamo adds to the user's, with the address of its value and the number of the compile."""
_CARRIED = re.compile(r"\b___stack\d+\b")
_QUOTED_CARRIED = re.compile(r"`___stack\d+`")
_WRAP_INLINE = "torch/_dynamo/external_utils.py"
"""The file with the function that Dynamo puts around a module of torch."""

_WRAPPED = re.compile(r"\bL\['fn'\]|(?<![\w.'\"])fn\b(?=[.\[])")

_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_(\d+)$")


RUNS_OP = ("run_with_rng_state", "run_and_save_rng_state")
"""Ends of the names of higher-order ops that run another op with a state of random numbers: its first op argument."""

_INPUT = re.compile(r"[lL]_(\w+)_$")
_MEMBER_KIND = re.compile(r"(?:(?<=self)_dict)?_(?:modules|parameters|buffers)_")


@functools.lru_cache(4096)  # each guard and each size of an object has its source
def readable_source(source: str) -> str:
    """Return a Dynamo source as the user would write it: `L['self']._modules['fc1']` becomes `self.fc1`."""
    source = _CLASS_ITEM.sub(r"type(\1).\2", source)
    source = _DICT_ITEM.sub(r"\1['\2']", source)
    return _INSTALLED.sub("<global of Dynamo>", _MEMBER.sub(r".\1", _ROOT.sub(r"\1", source)))


def readable_input(name: str) -> str:
    """Return an input of a graph as the user would write it: `L_self_modules_fc_parameters_bias_` is `self.fc.bias`."""
    source = _INPUT.match(name)
    return _MEMBER_KIND.sub(".", source[1]) if source is not None else name


def wraps_module(code: CodeType) -> bool:
    """Return whether a frame is torch's own, which calls a module whose `forward` is not the user's as `fn`."""
    return code.co_name == "inner" and code.co_filename.endswith(_WRAP_INLINE)


def name_wrapped(source: str) -> str:
    """Return a source of a frame that `wraps_module` with the module as `self`, as in the frame of a `forward`."""
    return _WRAPPED.sub(lambda match: match[0].replace("fn", "self"), source)


def is_carried(source: str) -> bool:
    """Return whether a source reads a value that Dynamo carries over a graph break: `___stack0`."""
    return _CARRIED.search(source) is not None


def describe_carried(sentence: str) -> str:
    """Return a sentence with `___stack0` in backticks replaced by what it is."""
    described = _QUOTED_CARRIED.sub("the value carried over the break", sentence)
    return sentence if described == sentence else described[:1].upper() + described[1:]


def is_resumed(function: str) -> bool:
    """Return whether this is the name of a resume function, which Dynamo makes after a graph break."""
    return _RESUMED.match(function) is not None


def function_name(function: str) -> str:
    """Return the original name of a resume function (`torch_dynamo_resume_in_f_at_12` is `f`), else the name itself."""
    resumed = _RESUMED.match(function)
    return resumed.group(1) if resumed else function


def resumed_line(function: str) -> int | None:
    """Return the line of the graph break after which a resume function goes on; None for any other function."""
    resumed = _RESUMED.match(function)
    return int(resumed.group(2)) if resumed else None


PHASE_OF: dict[str, Phase] = {
    "dynamo": "dynamo",
    "entire_frame_compile": "dynamo",
    "backend_compile": "dynamo",
    "create_aot_dispatcher_function": "aot",
    "inductor_compile": "inductor",
    "fx_codegen_and_compile": "inductor",
    "async_compile.wait": "compiler",
    "compile_file": "compiler",
    "entire_backward_compile": "backward",
}
"""Phases by the torch spans that open them; any other span belongs to the enclosing phase."""
