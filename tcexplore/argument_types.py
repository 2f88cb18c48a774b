"""Argument types for argparse. Each converts a text or raises an error of one line."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from tcexplore.targets.target_names import NATIVE

Item = TypeVar("Item")
Choice = TypeVar("Choice", bound=str)

DYNAMIC = {"true": True, "false": False, "auto": None}


def integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None


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
        raise argparse.ArgumentTypeError("0 seconds is too short for a run")
    return number


def ratio(text: str) -> float:
    if (number := _number(text, "ratio")) == 0:
        raise argparse.ArgumentTypeError("the ratio must be above 0")
    return number


def line_pair(text: str) -> tuple[int, int]:
    """Return two lines, from `21,24`."""
    first, comma, second = text.partition(",")
    if not comma:
        raise argparse.ArgumentTypeError(f"{text!r} is not two lines such as 21,24")
    return at_least_one(first.strip()), at_least_one(second.strip())


def share(text: str) -> float:
    """Return a share between 0 and 1, from `0.9` or `90%`."""
    number = _number(text.removesuffix("%"), "share") / (100 if text.endswith("%") else 1)
    if number > 1:
        raise argparse.ArgumentTypeError(f"{text} is above 1; write a percentage as 90%")
    return number


def name(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("a name is missing")
    return text


def assignment(text: str) -> str:
    """Return `NAME=VALUE` unchanged."""
    given, equals, value = text.partition("=")
    if not (given.isidentifier() and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return text


def one_of(choices: Sequence[Choice]) -> Callable[[str], Choice]:
    """Return a function that returns a choice unchanged."""

    def choose(text: str) -> Choice:
        for choice in choices:
            if choice == text:
                return choice
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(choices)}")

    return choose


def dynamic(text: str) -> bool | None:
    if text not in DYNAMIC:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(DYNAMIC)}")
    return DYNAMIC[text]


def target(text: str) -> str:
    """Return a name of the device table unchanged, a file as an absolute path: the worker runs in another folder."""
    if text == NATIVE:
        return text
    from tcexplore.targets.device_table import TargetError, find_target

    try:
        return find_target(os.path.abspath(text) if text.endswith(".toml") else text).reference
    except TargetError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def target_file(text: str) -> str:
    """Return the absolute path of a file that describes a target."""
    if not text.endswith(".toml"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a .toml file; the targets of the device table need no file")
    return target(text)


def keymap(text: str) -> str:
    """Return the name of a keymap unchanged."""
    from tcexplore.keymap import AppearanceError, make_keymap

    try:
        make_keymap(text, {})
    except AppearanceError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def theme(text: str) -> str:
    """Return the name of a theme unchanged."""
    from tcexplore.keymap import AppearanceError
    from tcexplore.ui.appearance import read_theme

    try:
        read_theme(text)
    except AppearanceError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def vary(text: str) -> str:
    """Return a valid specification such as `x.0=1..64` unchanged."""
    from tcexplore.events.input_specs import VaryError, parse_varies

    try:
        parse_varies((text,))
    except VaryError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def several(kind: Callable[[str], Item]) -> Callable[[str], tuple[Item, ...]]:
    """Return a type for comma-separated values without duplicates."""

    def items(text: str) -> tuple[Item, ...]:
        return tuple(dict.fromkeys(kind(item.strip()) for item in text.split(",")))

    return items


def _number(text: str, noun: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a {noun}")
    return number


def inputs(text: str) -> str:
    """Return the inputs of one call unchanged; the worker, which has torch, parses them."""
    if not text.strip(" ,"):
        raise argparse.ArgumentTypeError("no inputs given")
    return text


def force_option(parser: argparse.ArgumentParser) -> None:
    """Add the option to overwrite files, for commands that write some."""
    parser.add_argument("--force", action="store_true", help="overwrite existing files, except for the run's sources")
