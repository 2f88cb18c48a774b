"""The arguments of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcexplore.cli.arguments import parse
from tcexplore.cli.options import Limits
from tcexplore.events import Config
from tcexplore.studies.bisect import BisectOptions
from tcexplore.studies.mode_variants import ModesOptions
from tcexplore.studies.recompiles import RecompilesOptions
from tcexplore.studies.sweep import SweepOptions


def test_a_bare_file_opens_the_app_with_torch_defaults():
    request = parse(["model.py"])
    assert (request.command, request.target, request.config, request.argv) == ("app", "model.py", Config(), ())


def test_every_option_reaches_the_configuration():
    options = ["--mode", "max-autotune", "--backend", "aot_eager", "--dynamic", "false", "--fullgraph", "--train"]
    more = ["--device", "cuda", "--input", "f32[64,512]", "--input", "mask=bool[64]", "--seed", "7", "--threads", "3"]
    for command in ([], ["check"]):
        assert parse([*command, "model.py", *options, *more]).config == Config(
            mode="max-autotune", backend="aot_eager", dynamic=False, fullgraph=True, train=True, device="cuda",
            override=("mode", "backend", "dynamic", "fullgraph"),
            inputs=("f32[64,512]", "mask=bool[64]"), seed=7, threads=3,
        )  # fmt: skip


def test_further_arguments_of_torch_compile_are_names_with_values(capsys: pytest.CaptureFixture[str]):
    given = ["--compile-arg", "recompile_limit=4", "--compile-arg", "options={'max_autotune': True}"]
    for command in ([], ["check"], ["modes"]):
        config = parse([*command, "model.py", *given]).config
        assert config.compile_arguments == ("recompile_limit=4", "options={'max_autotune': True}")
    with pytest.raises(SystemExit):
        parse(["check", "model.py", "--compile-arg", "recompile_limit"])
    assert "'recompile_limit' is not NAME=VALUE" in capsys.readouterr().err


def test_arguments_after_two_dashes_belong_to_the_script():
    request = parse(["check", "script.py", "--json", "--", "--epochs", "3", "--", "--json"])
    assert (request.json, request.argv) == (True, ("--epochs", "3", "--", "--json"))


def test_check_takes_limits():
    request = parse(["check", "m.py", "--max-breaks", "0", "--timeout", "2.5", "--time-for", "0"])
    assert (request.command, request.limits.max_breaks, request.timeout, request.time_for) == ("check", 0, 2.5, 0)


def test_check_takes_more_limits_and_a_number_of_calls():
    limits = ["--min-speedup", "1.2", "--max-compile-seconds", "30", "--max-memory-ratio", "1.5", "--accuracy"]
    request = parse(["check", "m.py", *limits, "--calls", "1000"])
    assert request.limits == Limits(None, 1.2, 30.0, 1.5, True)
    assert request.calls == 1000


def test_studies_take_lists():
    compared = parse(["modes", "m.py", "--modes", "default,lite", "--dynamic", "auto,true", "--train"])
    assert (compared.command, compared.config.train, compared.config.dynamic) == ("modes", True, None)
    assert compared.study == ModesOptions(modes=("default", "lite"), dynamic=(None, True))
    swept = parse(["sweep", "m.py", "--dim", "1", "--sizes", "1, 2,4,2", "--mode", "lite"])
    assert (swept.study, swept.config.mode) == (SweepOptions(1, (1, 2, 4)), "lite")
    assert parse(["bisect", "m.py", "--repro", "repro"]).study == BisectOptions("repro")
    varied = parse(["recompiles", "m.py", "--vary", "x.0=1..4", "--buckets", "x.0=4"])
    assert varied.study == RecompilesOptions(("x.0=1..4",), ("x.0=4",))


def test_a_file_may_have_the_name_of_a_command():
    assert parse(["./check"]).target == "./check"


def test_doctor_takes_nothing():
    assert parse(["doctor"]).command == "doctor"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "FILE[:NAME]"),
        (["a.py", "b.py"], "b.py"),
        (["m.py", "--threads", "0"], "--threads"),
        (["m.py", "--threads", "two"], "'two'"),
        (["m.py", "--seed", "x"], "--seed"),
        (["m.py", "--dynamic", "maybe"], "maybe"),
        (["m.py", "--json"], "--json"),
        (["m.py", "--mod", "default"], "--mod"),
        (["check", "m.py", "--max-breaks", "-1"], "--max-breaks"),
        (["check", "m.py", "--timeout", "0"], "--timeout"),
        (["check", "m.py", "--timeout", "nan"], "nan"),
        (["check", "m.py", "--time-for", "inf"], "inf"),
        (["doctor", "now"], "now"),
        (["check", "m.py", "--min-speedup", "0"], "--min-speedup"),
        (["modes", "m.py", "--dynamic", "maybe"], "maybe"),
        (["modes", "m.py", "--modes", ""], "--modes"),
        (["sweep", "m.py"], "--sizes"),
        (["sweep", "m.py", "--sizes", "1,0"], "0 is below 1"),
        (["recompiles", "m.py", "--vary", "x.0=1..500", "--vary", "y=1..500"], "--vary too many combinations"),
    ],
)
def test_bad_arguments_print_one_line_and_exit_with_2(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    assert named in err
    assert "--help" in err


def test_help_names_the_commands_and_the_exit_status(capsys: pytest.CaptureFixture[str]):
    for arguments, expected in (
        (["--help"], ("check", "doctor", "--mode")),
        (["check", "--help"], ("exit status", "3")),
    ):
        with pytest.raises(SystemExit) as ended:
            parse(arguments)
        text = capsys.readouterr().out
        assert ended.value.code == 0
        assert all(word in text for word in expected)


def test_an_unknown_target_is_an_argument_error(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert parse(["check", "m.py", "--target", "h100"]).config.target == "h100"
    assert parse(["m.py"]).config.target == "native"
    own = tmp_path / "own.toml"
    own.write_text('like = "l4"')
    assert parse(["m.py", "--target", str(own)]).config.target == str(own)
    with pytest.raises(SystemExit) as left:
        parse(["m.py", "--target", "v100"])
    assert left.value.code == 2
    assert "use one of a100, b200, b300" in capsys.readouterr().err


def test_a_mistyped_command_is_suggested(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        parse(["chek", "m.py"])
    assert left.value.code == 2
    assert "there is no command 'chek'; did you mean check?" in capsys.readouterr().err
    assert parse(["check.py"]).command == "app"
