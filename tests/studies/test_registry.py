"""All studies have what the command line and the app need."""

from __future__ import annotations

import pytest

from tcexplore.cli.arguments import parse
from tcexplore.studies.registry import STUDIES, StudyEntry
from tcexplore.studies.study import load_study
from tcexplore.ui.screens.help_screen import page_text


@pytest.mark.parametrize("entry", STUDIES, ids=lambda entry: entry.name)
def test_every_study_has_its_name_a_help_page_and_a_command(entry: StudyEntry, capsys: pytest.CaptureFixture[str]):
    study = load_study(entry.name)
    assert study.name == entry.name
    assert page_text(entry.name)
    if entry.command:
        with pytest.raises(SystemExit) as ended:
            parse([entry.name, "--help"])
        assert ended.value.code == 0
        assert " ".join(study.description.split()[:5]) in " ".join(capsys.readouterr().out.split())
