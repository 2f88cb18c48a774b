"""Why a compiled frame could not be used again, in plain words. torch gives some of it as text alone."""

from __future__ import annotations

import re
from typing import NamedTuple

import torch

from tcexplore.capture.fx.tensor_descriptions import dtype_text
from tcexplore.capture.guards.guard_values import ONE_OBJECT, Compared


class Cause(NamedTuple):
    """`what` differed from what the code was compiled for; `old` and `new` are empty where they are not known.

    `kind` is one of `events.RECOMPILE_KINDS`; `dim` the dimension of a tensor, where it is about one.
    """

    what: str
    old: str
    new: str
    reason: str
    kind: str = ""
    dim: int | None = None


_TENSOR = (
    (
        "size",
        r"size mismatch at index (?P<dim>\d+)",
        "Dimension {dim} of `{what}` is {new}; it was compiled for {old}.",
    ),
    (
        "stride",
        r"stride mismatch at index (?P<dim>\d+)",
        "The stride of `{what}` in dimension {dim} is {new}, not {old}.",
    ),
    ("rank", r"rank mismatch", "`{what}` has {new} dimensions; it was compiled for {old}."),
    ("dtype", r"dtype mismatch", "The dtype of `{what}` is {new}; it was compiled for {old}."),
    ("dispatch", r"dispatch key set mismatch", "`{what}` is another kind of tensor: {new} instead of {old}."),
)
_MISMATCHES = tuple(
    (kind, re.compile(rf"^tensor '(?P<what>.+)' {said}\. expected (?P<old>.+), actual (?P<new>.+)$"), reason)
    for kind, said, reason in _TENSOR
)
_ANY_MISMATCH = re.compile(r"^tensor '(?P<what>.+?)' .*?[Ee]xpected (?P<old>.+?), actual (?P<new>.+)$")
_REQUIRES_GRAD = re.compile(r"^tensor '(?P<what>.+)' requires_grad mismatch\. expected requires_grad=(?P<flag>\d)")
_NO_TENSOR = re.compile(r"^expected type of '(?P<what>.+)' to be a tensor type, ' but found <class '(?P<new>.+)'>")
_GLOBAL_STATE = re.compile(r"^GLOBAL_STATE changed: (.+)$")
_KEY_SET = re.compile(r"^DispatchKeySet\((.+)\)$")
_DUPLICATE = re.compile(r"^Duplicate tensors? found")

_SETTINGS = {
    "grad_mode": (
        "It was compiled with gradients {old} and is now called with gradients {new} (see `torch.no_grad()`): "
        "each needs code of its own."
    ),
    "autocast": "Autocast is not as it was when this was compiled.",
    "num_threads": "The number of threads (`torch.set_num_threads`) is not what it was when this was compiled.",
    "default_dtype": "The default dtype is not what it was when this was compiled.",
    "deterministic_algorithms": "Deterministic algorithms were switched on or off.",
}


def cause_of_text(text: str, *, grad_enabled: bool) -> Cause | None:
    """The cause in a sentence of torch's that is no code: a tensor mismatch, a global setting; None for any other.

    `grad_enabled` is whether this call records gradients.
    """
    for kind, pattern, reason in _MISMATCHES:
        found = pattern.match(text)
        if found:
            old, new = _short(found["old"], found["new"])
            dim = found.groupdict().get("dim")
            said = reason.format(what=found["what"], dim=dim, old=old, new=new)
            return Cause(found["what"], old, new, said, kind, None if dim is None else int(dim))
    readers = (_requires_grad, _no_tensor, _duplicate, _any_mismatch)
    return _global_state(text, grad_enabled) or next(filter(None, (read(text) for read in readers)), None)


def cause_of_values(values: Compared, code: str, kind: str = "") -> Cause:
    """The cause, of this kind, where a guard's code compared values."""
    return _of_values(values, code)._replace(kind=kind)


def _of_values(values: Compared, code: str) -> Cause:
    what, old, new = values
    if old == ONE_OBJECT:
        both = what.replace(" and ", "` and `")
        return Cause(what, old, new, f"`{both}` are {new}; it was compiled for {old}.")
    if new and old and old != code:
        return Cause(what, old, new, f"`{what}` is {new}; it was compiled for {old}.")
    if new and old:
        return Cause(what, old, new, f"It was compiled for `{old}`, which does not hold for {new}.")
    return Cause(what, old, new, f"`{code}` does not hold any more.")


def _requires_grad(text: str) -> Cause | None:
    found = _REQUIRES_GRAD.match(text)
    if not found:
        return None
    old, new = (f"requires_grad={flag}" for flag in (found["flag"] == "1", found["flag"] == "0"))
    return Cause(found["what"], old, new, f"`{found['what']}` has {new}; it was compiled for {old}.", "requires_grad")


def _no_tensor(text: str) -> Cause | None:
    found = _NO_TENSOR.match(text)
    if not found:
        return None
    what, new = found["what"], found["new"].rpartition(".")[2]
    return Cause(what, "a tensor", new, f"`{what}` is of type {new}; it was compiled for a tensor.", "type")


def _short(old: str, new: str) -> tuple[str, str]:
    """Dtypes by their short names; of two sets of dispatch keys what the other does not have."""
    sets = [_KEY_SET.match(side) for side in (old, new)]
    if sets[0] and sets[1]:
        before, after = (found[1].split(", ") for found in sets if found)
        return ", ".join(k for k in before if k not in after), ", ".join(k for k in after if k not in before)
    return _dtype(old), _dtype(new)


def _dtype(name: str) -> str:
    """C++ says `Float` where Python has `torch.float`."""
    dtype = getattr(torch, name.lower(), None)
    return dtype_text(dtype) if isinstance(dtype, torch.dtype) else name


def _global_state(text: str, grad_enabled: bool) -> Cause | None:
    found = _GLOBAL_STATE.match(text)
    if not found:
        return None
    names = found[1].split()
    old, new = ("off", "on") if grad_enabled else ("on", "off")
    said = [
        reason.format(old=old, new=new)
        for setting, reason in _SETTINGS.items()
        if any(name.startswith(setting) for name in names)
    ]
    unknown = f"torch's global settings are not what they were: {', '.join(names)}."
    grad = names == ["grad_mode"]
    kind = "grad mode" if grad else "global state"
    return Cause(", ".join(names), *(old, new) if grad else ("", ""), " ".join(said) or unknown, kind)


def _duplicate(text: str) -> Cause | None:
    if not _DUPLICATE.match(text):
        return None
    reason = "The same tensor was passed twice; it was compiled for different ones."
    return Cause("", "different tensors", "the same tensor", reason, "aliasing")


def _any_mismatch(text: str) -> Cause | None:
    found = _ANY_MISMATCH.match(text)
    if not found:
        return None
    return Cause(found["what"], found["old"], found["new"], f"{text[0].upper()}{text[1:]}.", "tensor")
