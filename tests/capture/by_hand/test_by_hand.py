"""Statements whose lines were determined by reading the generated code: tcexplore must link exactly those."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from tests.capture.by_hand import listings

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

_OTHER_TORCH = f"the listings are for torch {listings.TORCH}, this is {torch.__version__}"


def test_there_are_enough_listings_and_their_labels_exist_in_the_models() -> None:
    labeled = [
        statement for name in listings.names() for part in listings.written(name) for statement in part.statements
    ]
    assert len(labeled) >= 200
    assert len({name.partition(".")[0] for name in listings.names()}) >= 10
    assert all(statement.lines for statement in labeled)
    assert {label for statement in labeled for label in statement.lines} <= listings.labels()


@pytest.mark.skipif(not torch.__version__.startswith(listings.TORCH + "."), reason=_OTHER_TORCH)
@pytest.mark.parametrize("name", listings.names())
def test_every_link_matches_the_listings(name: str) -> None:
    if name.endswith(".cpp") and not listings.has_vectors():
        pytest.skip("the listings are for vectors of 256 bits, which this machine does not have")
    right, wrong, missing = listings.judge(name)
    report = "\n".join((f"{len(wrong)} wrong, {len(missing)} missing, {right} right", *wrong, *missing))
    assert not wrong, report
    assert not missing, report
    assert right, report


def test_wrong_and_missing_lines_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [
        listings.Listing("kernel", [listings.Statement(text, frozenset("ab")) for text in ("one", "two", "three")])
    ]
    linked = zip(("one", "two", "three"), ("a", "ac", ""), strict=True)
    captured = [listings.Listing("kernel", [listings.Statement(text, frozenset(lines)) for text, lines in linked])]
    monkeypatch.setattr(listings, "written", lambda _: expected)
    monkeypatch.setattr(listings, "captured", lambda _: captured)
    right, wrong, missing = listings.judge("some.cpp")
    assert (right, len(wrong), len(missing)) == (1, 1, 1)
    assert "two" in wrong[0]
    assert "three" in missing[0]
    captured[0].statements.pop()
    with pytest.raises(listings.OtherCodeError, match="some"):
        listings.judge("some.cpp")
