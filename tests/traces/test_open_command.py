"""`tcexplore open` and `tcexplore check` on traces: report, JSON, limits, bad input."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import re
import shutil
import sys
import tarfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tcexplore.cli import main
from tcexplore.files import NotWrittenError
from tcexplore.traces import record_files


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    status, out, _ = printed(capsys, *arguments, "--json")
    assert status == 0
    report: dict[str, Any] = json.loads(out)
    return report


def test_json_has_ranks_and_divergence(traces: Path, capsys: pytest.CaptureFixture[str]):
    report = as_json(capsys, "open", str(traces / "branch"))
    assert report["schema"] == 3
    assert [row["rank"] for row in report["ranks"]] == [0, 1]
    assert report["divergence"]["kind"] == "branch"
    assert report["divergence"]["file"].endswith("seeded.py")
    assert report["torch"] == "2.13.0+cpu"
    assert [graph["id"] for graph in report["graphs"]] == ["0/0", "1/0"]


def test_a_rank_can_be_chosen(traces: Path, capsys: pytest.CaptureFixture[str]):
    report = as_json(capsys, "open", str(traces / "shape"), "--rank", "1")
    assert [graph["id"] for graph in report["graphs"]] == ["0/0", "0/1", "1/0"]
    assert report["recompiles"][0]["kind"] == "size"
    status, _, error = printed(capsys, "open", str(traces / "shape"), "--rank", "7", "--json")
    assert (status, "no rank 7" in error) == (2, True)


def test_check_reads_a_trace_too(traces: Path, capsys: pytest.CaptureFixture[str]):
    status, out, _ = printed(capsys, "check", str(traces / "break"), "--max-breaks", "0")
    assert (status, "BREAK" in out) == (0, True)
    (path,) = (traces / "break").glob("*_rank_1_*")
    status, out, _ = printed(capsys, "check", str(path), "--max-breaks", "0")
    assert (status, "1 graph break, 0 allowed" in out) == (1, True)


def pack(files: list[Path], form: str, folder: Path) -> list[str]:
    """Return the paths of trace files in a form: compressed, in an archive, or as they are."""
    if form in ("file", "several"):
        return [str(path) for path in (files[:1] if form == "file" else files)]
    if form.startswith("tar"):
        path = folder / f"traces.{form}"
        with tarfile.open(path, "w:gz" if form == "tar.gz" else "w") as archive:
            for file in files:
                archive.add(file, f"same/{file.name}")
    else:
        path = folder / f"trace.log.{form}"
        path.write_bytes({"gz": gzip.compress, "xz": lzma.compress}.get(form, bytes)(files[0].read_bytes()))
    if form.endswith("zst"):
        path.write_bytes(pytest.importorskip("zstandard").compress(path.read_bytes()))
    return [str(path)]


FORMS = ["file", "several", "gz", "xz", "zst", "tar", "tar.gz", "tar.zst"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_trace_is_read(traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str):
    report = as_json(capsys, "open", *pack(sorted((traces / "same").iterdir()), form, tmp_path))
    assert len(report["ranks"]) == (1 if form in ("file", "gz", "xz", "zst") else 2)
    assert len(report["graphs"]) == 2


@pytest.mark.parametrize("form", FORMS[2:])
def test_every_form_is_read_behind_a_url(traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str):
    memory = pytest.importorskip("fsspec").filesystem("memory")
    (path,) = pack(sorted((traces / "same").iterdir()), form, tmp_path)
    url = f"memory://traces/{os.path.basename(path)}"
    memory.put(path, url)
    assert len(as_json(capsys, "open", url)["graphs"]) == 2


@pytest.mark.parametrize("form", ["zst", "tar.gz", "tar.zst"])
def test_a_compressed_file_that_ends_too_early_is_named(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
):
    path = Path(*pack(sorted((traces / "same").iterdir()), form, tmp_path))
    path.write_bytes(path.read_bytes()[:3000])
    status, _, error = printed(capsys, "open", str(path), "--json")
    assert (status, error.count("\n")) == (2, 1)
    assert "cannot be decompressed" in error or "is not a readable archive" in error


def test_the_readable_part_of_a_compressed_file_is_shown(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = Path(*pack(sorted((traces / "same").iterdir()), "gz", tmp_path))
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    status, out, error = printed(capsys, "open", str(path), "--json")
    assert status == 0
    assert "its last record is incomplete" in error
    assert json.loads(out)["graphs"]


def test_the_missing_package_of_a_form_is_named(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    paths = pack(sorted((traces / "same").iterdir()), "zst", tmp_path)
    for package in ("zstandard", "compression.zstd", "fsspec"):
        monkeypatch.setitem(sys.modules, package, None)
    assert "pip install zstandard" in printed(capsys, "open", *paths, "--json")[2]
    assert "pip install fsspec" in printed(capsys, "open", "s3://bucket/traces", "--json")[2]


def test_a_folder_of_a_web_server_is_read(traces: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("aiohttp")

    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(traces))

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        report = as_json(capsys, "open", f"http://127.0.0.1:{server.server_port}/same/")
        server.shutdown()
    assert [row["graphs"] for row in report["ranks"]] == [2, 2]


@pytest.mark.parametrize("rank", ["99999999", "0"])
def test_an_impossible_rank_is_ignored(traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], rank: str):
    (path,) = (traces / "breaks").glob("*_rank_0_*")
    copy = tmp_path / f"dedicated_log_torch_trace_rank_{rank}_x.log"
    copy.write_text(path.read_text().replace('"rank": 0', '"rank": 12345678'))
    assert len(as_json(capsys, "open", str(copy))["ranks"]) == 1


def test_two_jobs_in_one_folder_are_offered_for_choice(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for name in ("same", "branch"):
        for path in (traces / name).iterdir():
            shutil.copy(path, tmp_path)
    status, _, error = printed(capsys, "open", str(tmp_path), "--json")
    assert status == 2
    assert "job 1:" in error
    assert "--job N" in error
    divergences = [as_json(capsys, "open", str(tmp_path), "--job", job)["divergence"] for job in ("1", "2")]
    assert sorted(divergence is None for divergence in divergences) == [False, True]


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "is empty"), (b"import torch\n", "holds no records"), (None, "does not exist")]
)
def test_what_is_no_trace_is_refused_with_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, message: str
):
    path = tmp_path / "trace.log"
    if content is not None:
        path.write_bytes(content)
    status, out, error = printed(capsys, "open", str(path), "--json")
    assert status == 2
    assert message in error
    assert json.loads(out)["error"]["message"]


def test_an_empty_folder_says_what_writes_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    status, _, error = printed(capsys, "open", str(tmp_path), "--report")
    assert (status, f"TORCH_TRACE={tmp_path}" in error) == (2, True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission_is_named_and_the_rest_is_read(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    shutil.copytree(traces / "same", tmp_path / "t")
    (path,) = (tmp_path / "t").glob("*_rank_1_*")
    path.chmod(0)
    status, _, error = printed(capsys, "open", str(tmp_path / "t"), "--report")
    assert (status, "permission denied" in error) == (0, True)


def test_many_files_are_read_up_to_a_limit(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    for module in ("trace_inputs", "rank_comparison"):
        monkeypatch.setattr(f"tcexplore.traces.{module}.MOST_FILES", 3)
    (path,) = (traces / "same").glob("*_rank_0_*")
    for rank in (100, 4, 20, 5, 6):
        os.link(path, tmp_path / f"dedicated_log_torch_trace_rank_{rank}_x.log")
    status, out, error = printed(capsys, "open", str(tmp_path), "--json")
    report = json.loads(out)
    assert (status, [rank["rank"] for rank in report["ranks"]]) == (0, [4, 5, 6])
    assert report["divergence"] is None, "the other ranks are not missing"
    assert "holds 5 files; the first 3 are read" in error


def test_the_same_problem_of_many_files_is_reported_briefly(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (path,) = (traces / "breaks").glob("*_rank_0_*")
    for rank in range(14):
        (tmp_path / f"dedicated_log_torch_trace_rank_{rank}_x.log").write_bytes(path.read_bytes()[:-9])
    _, _, error = printed(capsys, "open", str(tmp_path), "--report")
    assert error.count("its last record is incomplete") == 10
    assert "4 more files have such problems" in error


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_without_permission_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    tmp_path.chmod(0)
    for command in ("check", "open"):
        status, _, error = printed(capsys, command, str(tmp_path))
        assert (status, error.count("permission denied")) == (2, 1)
    tmp_path.chmod(0o700)


def test_a_url_is_read_through_fsspec(traces: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("fsspec")
    report = as_json(capsys, "open", f"file://{traces / 'same'}")
    assert len(report["ranks"]) == 2


def test_a_cut_and_a_damaged_record_cost_only_themselves(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    shutil.copytree(traces / "same", tmp_path / "t")
    (path,) = (tmp_path / "t").glob("*_rank_0_*")
    data = path.read_bytes().replace(b"torch.ops.aten.sin.default", b"torch.ops.aten.sIn.default")
    path.write_bytes(data[:-40])
    report = as_json(capsys, "open", str(tmp_path / "t"))
    assert any("wrong checksum" in missing["reason"] for missing in report["missing"])
    assert len(report["graphs"]) == 2
    _, _, error = printed(capsys, "open", str(tmp_path / "t"), "--report")
    assert "its last record is incomplete" in error


@pytest.mark.parametrize("seed", range(4))
def test_a_trace_with_random_damage_is_still_shown(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
):
    """Every damage that keeps the file's name costs facts, never the command."""
    random = Random(seed)
    shutil.copytree(traces / "break", tmp_path / "t")
    for path in (tmp_path / "t").iterdir():
        data = bytearray(path.read_bytes())
        for _ in range(400):
            at = random.randrange(len(data))
            data[at : at + random.randrange(3)] = bytes(random.randrange(256) for _ in range(random.randrange(3)))
        text = bytes(data)
        if seed % 2:  # wrong checksums would hide the damage from what reads payloads
            text = re.sub(rb', "has_payload": "\w+"', b"", text)
        path.write_bytes(text)
    status, out, _ = printed(capsys, "open", str(tmp_path / "t"), "--json")
    assert (status, json.loads(out)["status"]) == (0, "ok")


def test_hostile_text_of_a_trace_reaches_no_terminal(traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    shutil.copytree(traces / "same", tmp_path / "t")
    for path in (tmp_path / "t").iterdir():
        text = path.read_text().replace("seeded.py", "see\\u001b[2Jded.py")
        path.write_text(text.replace('"aotautograd_cache_miss"', '"aotautograd_cache_\\u001b[2J"'))
    status, out, error = printed(capsys, "open", str(tmp_path / "t"), "--report")
    assert status == 0
    assert "\x1b" not in out + error
    printed(capsys, "open", str(tmp_path / "t"), "--records", str(tmp_path / "records"))
    stacks = (tmp_path / "records" / "rank_0" / "compile_stacks.txt").read_text()
    assert "see␛[2Jded.py" in stacks
    assert "\x1b" not in stacks


def test_several_processes_write_the_same_records(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record_files, "shares", lambda: 3)
    written = []
    for least in (10**6, 0):
        monkeypatch.setattr(record_files, "_LEAST_RECORDS", least)
        folder = tmp_path / str(least)
        assert main(["open", str(traces / "same"), "--records", str(folder)]) == 0
        written.append({path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()})
    assert len(written[0]) > 50
    assert written[1] == written[0]


def test_an_error_of_a_process_that_writes_records_is_reported(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    write, parent = record_files._write_part, os.getpid()

    def fail(*arguments: Any) -> record_files.WrittenRecords:
        if os.getpid() != parent:
            raise NotWrittenError("the disk is full")
        return write(*arguments)

    monkeypatch.setattr(record_files, "shares", lambda: 2)
    monkeypatch.setattr(record_files, "_LEAST_RECORDS", 0)
    monkeypatch.setattr(record_files, "_write_part", fail)
    assert main(["open", str(traces / "same"), "--records", str(tmp_path / "records")]) == 2
    assert "the disk is full" in capsys.readouterr().err


def test_all_records_are_written_as_files(traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "records"
    assert main(["open", str(traces / "same"), "--records", str(folder)]) == 0
    assert "files in" in capsys.readouterr().err
    names = {path.name.partition("_")[2] for path in (folder / "rank_0" / "0_0").iterdir()}
    kinds = ("dynamo_output_graph.txt", "inductor_output_code.py", "aot_joint_graph.txt", "compilation_metrics.json",
             "before_pre_grad_graph.txt", "inductor_post_grad_graph.txt")  # fmt: skip
    assert names.issuperset(kinds)
    (start,) = (folder / "rank_0" / "0_0").glob("*_dynamo_start.json")
    assert json.loads(start.read_text())["stack"][0]["filename"].endswith("seeded.py")
    stacks = (folder / "rank_0" / "compile_stacks.txt").read_text()
    assert stacks.count("in <module>") == 1, "what stacks share is there once"
    assert [line.strip() for line in stacks.splitlines() if line.strip().startswith("[")] == ["[0/0]", "[1/0]"]
    spans = json.loads((folder / "rank_1" / "chromium_events.json").read_text())
    assert {span["ph"] for span in spans} >= {"B", "E"}
    assert main(["open", str(traces / "same"), "--records", str(folder)]) == 2
