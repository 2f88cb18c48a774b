"""Rows about tests of the user's custom ops."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.document import Row
from tcexplore.documents.locations import places
from tcexplore.documents.prose import row, wrapped
from tcexplore.session import Snapshot
from tcexplore.session.links import line_links


def op_check_rows(snapshot: Snapshot, width: int, *, passed: bool = True) -> Iterator[Row]:
    """Yield a row for each test that failed with its reason, and, if `passed`, for each op with passed tests."""
    where = places(snapshot.file)
    for check in snapshot.op_checks:
        if check.passed:
            continue
        place = f" ({where.describe(check.location)})" if check.location else ""
        links = line_links(check.location)
        verb = "fails" if check.test != "fake implementation" else "has a stale fake implementation"
        test = f" {check.test}" if check.test != "fake implementation" else ""
        text = f"{check.op} {verb}{test}{place}: {check.reason}"
        yield from wrapped(text, width, "break", lead="✖ ", location=check.location, links=links)
    for op in dict.fromkeys(check.op for check in snapshot.op_checks) if passed else ():
        tests = [check.test for check in snapshot.op_checks if check.op == op and check.passed]
        if tests:
            yield row((" ✔ ", "ok"), f"{op}  ", (", ".join(tests), "muted"))
