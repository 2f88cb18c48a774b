"""Parsing of the user's code."""

from __future__ import annotations

import ast

import pytest

from tcexplore.events.python_source import parse_source

WARNED = 'def model(x):\n    """\\d"""\n    try:\n        return x\n    finally:\n        return x\n'
"""Python warns of the escape, and since 3.14 of the last `return`."""


def test_a_file_of_which_python_warns_is_parsed_where_warnings_are_errors():
    with pytest.raises((SyntaxError, DeprecationWarning)):
        ast.parse(WARNED)
    assert isinstance(parse_source(WARNED).body[0], ast.FunctionDef)
