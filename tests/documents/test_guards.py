"""The guards pane."""

from __future__ import annotations

from dataclasses import replace

from tcexplore.documents.guards.guards_view import guards_document
from tcexplore.events import Guard
from tests import fakes


def test_values_on_dynamos_stack_are_described():
    names = {
        "___stack1": "value 1 carried over the break",
        "___stack0.__code__": "carried value 0.__code__",
    }
    run = fakes.complete()
    for name, shown in names.items():
        guard = Guard(kind="EQUALS_MATCH", source=name, name=name, code=(f"{name} == 1.0",), summary="== 1.0")
        document = guards_document(replace(run, guards=(replace(run.guards[0], guards=(guard,)),)), frozenset(), 100)
        assert shown[-31:] in document.row(1).text
