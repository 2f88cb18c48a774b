"""The wire format: a 4-byte big-endian length, then JSON. Decoding never unpickles, and it cleans all text.

A message has each location once, in a table, since the nodes of a large graph repeat them thousands of times. Fields
with their default are left out.
"""

from __future__ import annotations

import json
import struct
import types
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tcexplore.events.base import Location, clean

HEADER = struct.Struct(">I")

LONGEST_TEXT = 8 * 1024 * 1024
"""Maximum characters of one string; the rest is cut, so that a huge message costs neither side seconds."""

LARGEST = 256 * 1024 * 1024
"""Maximum size of a frame's body in bytes."""

# Bound here: the model file may replace `json.dumps` and `json.loads`.
_to_json = json.JSONEncoder(separators=(",", ":")).encode
_from_json = json.loads

Locations = Sequence[Location]
"""The table of a message."""

Decoder = Callable[[Any, Locations], Any]

TABLE = "$locations"
"""Key of the table: file, line and function of each."""


class ProtocolError(ValueError):
    """A message is not a valid record of this protocol."""


def encode(record: Any) -> bytes:
    """Return one frame: the header, then the JSON of `record` with its type name under `$`."""
    encoder = _Encoder()
    data = encoder.fields(record)
    if encoder.locations:
        data[TABLE] = [[place.file, place.line, place.function] for place in encoder.locations]
    body = _to_json({"$": type(record).__name__, **data}).encode()
    return HEADER.pack(len(body)) + body


def decode(body: bytes, vocabulary: dict[str, type], text: Callable[[str], str] = clean) -> Any:
    """Return the record in a frame's body, with every string passed through `text`.

    Ignore unknown fields. Raise `ProtocolError` for a malformed body.
    """
    try:
        data = _from_json(body)
        cls = vocabulary[data["$"]]
        table = data.get(TABLE, [])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProtocolError(f"not an event of this protocol: {body[:80]!r}") from error
    row = _decoder(tuple[tuple[str, int, str], ...], text)
    return _decoder(cls, text)(data, [Location(*place) for place in row(table, ())])


class _Encoder:
    """Converts one message to JSON values."""

    def __init__(self) -> None:
        self.locations: list[Location] = []
        self._numbers: dict[Location, int] = {}
        self._known: dict[int, int] = {}
        """Number of each location in the table by the id of the object, which the message keeps alive."""

    def fields(self, record: Any) -> dict[str, Any]:
        """Return the fields of a record that differ from their defaults."""
        kind: Any = type(record)
        values = {}
        for name, default in _defaults(kind):
            value = getattr(record, name)
            if value is not default:
                values[name] = self._plain(value)
        return values

    def _plain(self, value: Any) -> Any:
        if isinstance(value, str):
            return value if len(value) <= LONGEST_TEXT else _cut(value)
        if isinstance(value, Location):
            number = self._known.get(id(value))
            return self._add(value) if number is None else number
        if isinstance(value, tuple | list):
            return [self._plain(item) for item in value]
        return self.fields(value) if is_dataclass(value) else value

    def _add(self, place: Location) -> int:
        number = self._numbers.setdefault(place, len(self.locations))
        if number == len(self.locations):
            self.locations.append(place)
        self._known[id(place)] = number
        return number


@cache
def _defaults(cls: type) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a record with their defaults; `MISSING` for none, and for one that is made anew."""
    return tuple((f.name, f.default) for f in fields(cls))


def _cut(text: str) -> str:
    return f"{text[:LONGEST_TEXT]}\n[{len(text) - LONGEST_TEXT:,} characters cut]"


@cache
def _decoder(hint: Any, text: Callable[[str], str]) -> Decoder:
    if hint is Location:
        return _location(text)
    if isinstance(hint, type) and is_dataclass(hint):
        return _record(hint, text)
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if all(get_origin(a) is Literal for a in args):
            return _choice({value: value for a in args for value in get_args(a)})
        return _optional(next(a for a in args if a is not type(None)), text)
    if origin is tuple:
        return _tuple(args, text)
    if origin is Literal:
        return _choice({value: value for value in args})
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _choice({member.value: member for member in hint})
    if hint is str:
        return _text(text)
    if hint in (int, float, bool):
        return _scalar(hint)
    raise TypeError(f"no decoder for {hint!r}")


def _record(cls: type, text: Callable[[str], str]) -> Decoder:
    hints = get_type_hints(cls)
    members = [
        (f.name, _decoder(hints[f.name], text), f.default is MISSING and f.default_factory is MISSING)
        for f in fields(cls)
    ]

    def decode_record(data: Any, places: Locations) -> Any:
        if not isinstance(data, dict):
            raise ProtocolError(f"{cls.__name__}: expected a record")
        values: dict[str, Any] = {}
        for name, decoder, required in members:
            if name in data:
                values[name] = decoder(data[name], places)
            elif required:
                raise ProtocolError(f"{cls.__name__}: missing field {name}")
        return cls(**values)

    return decode_record


def _location(text: Callable[[str], str]) -> Decoder:
    record = _record(Location, text)

    def location(data: Any, places: Locations) -> Any:
        if type(data) is not int:
            return record(data, places)
        if not 0 <= data < len(places):
            raise ProtocolError("expected a location of the table")
        return places[data]

    return location


def _optional(inner: Any, text: Callable[[str], str]) -> Decoder:
    decoder = _decoder(inner, text)
    return lambda data, places: None if data is None else decoder(data, places)


def _tuple(args: tuple[Any, ...], text: Callable[[str], str]) -> Decoder:
    def sequence(data: Any) -> Any:
        if not isinstance(data, list):
            raise ProtocolError("expected a list")
        return data

    if len(args) == 2 and args[1] is Ellipsis:
        each = _decoder(args[0], text)
        return lambda data, places: tuple([each(item, places) for item in sequence(data)])
    decoders = [_decoder(a, text) for a in args]

    def fixed(data: Any, places: Locations) -> Any:
        if len(sequence(data)) != len(decoders):
            raise ProtocolError(f"expected {len(decoders)} items")
        return tuple([decoder(item, places) for decoder, item in zip(decoders, data, strict=True)])

    return fixed


def _choice(values: dict[Any, Any]) -> Decoder:
    def choice(data: Any, _: Locations) -> Any:
        if not isinstance(data, str | int) or data not in values:
            raise ProtocolError(f"expected one of {', '.join(map(str, values))}")
        return values[data]

    return choice


def _text(convert: Callable[[str], str]) -> Decoder:
    def string(data: Any, _: Locations) -> str:
        if not isinstance(data, str):
            raise ProtocolError("expected text")
        return convert(data)

    return string


def _scalar(kind: type) -> Decoder:
    def number(data: Any, _: Locations) -> Any:
        allowed = (int, float) if kind is float else (kind,)
        if not isinstance(data, allowed) or (kind is not bool and isinstance(data, bool)):
            raise ProtocolError(f"expected {kind.__name__}")
        return kind(data)

    return number
