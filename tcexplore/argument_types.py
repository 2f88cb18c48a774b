"""Kinds of argument: text to a value, or one line that says what is wrong with it."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from typing import TypeVar

from tcexplore.targets.target_names import NATIVE

Item = TypeVar("Item")

DYNAMIC = {"true": True, "false": False, "auto": None}


def integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None


def count(text: str) -> int:
    if (number := integer(text)) < 0:
        raise argparse.ArgumentTypeError(f"{text} is below 0")
    return number


def at_least_one(text: str) -> int:
    if (number := integer(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return number


def seconds(text: str) -> float:
    return _number(text, "number of seconds")


def positive_seconds(text: str) -> float:
    if (number := seconds(text)) == 0:
        raise argparse.ArgumentTypeError("0 seconds leave no time for a run")
    return number


def ratio(text: str) -> float:
    if (number := _number(text, "ratio")) == 0:
        raise argparse.ArgumentTypeError("a ratio is above 0")
    return number


def name(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("a name is missing")
    return text


def dynamic(text: str) -> bool | None:
    if text not in DYNAMIC:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(DYNAMIC)}")
    return DYNAMIC[text]


def target(text: str) -> str:
    """A name of the device table as it is, a file by its whole path: the worker stands in another folder."""
    if text == NATIVE:
        return text
    from tcexplore.targets.device_table import TargetError, find_target

    try:
        return find_target(os.path.abspath(text) if text.endswith(".toml") else text).reference
    except TargetError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def vary(text: str) -> str:
    """`x.0=1..64`, as it is."""
    from tcexplore.events.input_specs import VaryError, parse_varies

    try:
        parse_varies((text,))
    except VaryError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def several(kind: Callable[[str], Item]) -> Callable[[str], tuple[Item, ...]]:
    """Values parted by commas, each once."""

    def items(text: str) -> tuple[Item, ...]:
        return tuple(dict.fromkeys(kind(item.strip()) for item in text.split(",")))

    return items


def _number(text: str, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no {what}")
    return number


def inputs(text: str) -> str:
    """The inputs of one call; what they are worth is seen where torch is."""
    if not text.strip(" ,"):
        raise argparse.ArgumentTypeError("there are no inputs in it")
    return text
