"""The command line: exit codes, one clear line for a failure, and help that is there at once."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvtop import cli
from kvtop.commands import config
from kvtop.failure import Failure

HEAVY = ("torch", "transformers", "textual", "numpy", "rich")


def run_python(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, env=os.environ | environ
    )


def test_help_takes_less_than_a_fifth_of_a_second() -> None:
    def seconds() -> float:
        started = time.perf_counter()
        assert run_python("-m", "kvtop", "--help").returncode == 0
        return time.perf_counter() - started

    # the best of several: a busy machine slows a single one
    assert min(seconds() for _ in range(5)) < 0.2


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, contextlib\n"
        "from kvtop.cli import main\n"
        "with contextlib.suppress(SystemExit): main(['--help'])\n"
        f"print('loaded', [name for name in {HEAVY} if name in sys.modules])\n"
    )
    done = run_python("-c", code)
    assert done.stdout.endswith("loaded []\n"), done.stdout + done.stderr


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_a_command_s_help_imports_neither_torch_nor_textual_and_explains_it(command: str) -> None:
    code = (
        "import sys, contextlib\n"
        "from kvtop.cli import main\n"
        f"with contextlib.suppress(SystemExit): main(['{command}', '--help'])\n"
        "print('loaded', [name for name in ('torch', 'transformers', 'textual') if name in sys.modules])\n"
    )
    done = run_python("-c", code)
    assert done.stdout.endswith("loaded []\n"), done.stdout + done.stderr
    assert f"usage: kvtop {command}" in done.stdout
    assert len(done.stdout.splitlines()) > 8


def test_help_names_every_command() -> None:
    text = run_python("-m", "kvtop", "--help").stdout
    for name, summary in cli.COMMANDS.items():
        assert name in text
        assert summary in text


def test_no_command_and_an_unknown_one_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "commands:" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        cli.main(["lvie"])
    assert ended.value.code == 2
    assert "no command 'lvie'; did you mean live?" in capsys.readouterr().err


def test_an_unknown_flag_and_a_bad_value_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["config", "--nope"], "kvtop config: there is no flag --nope\n"),
        (["live", "--blok", "16"], "kvtop live: there is no flag --blok; did you mean --block-size?\n"),
        (["run", "x.json", "--watermrk=0.1"], "kvtop run: there is no flag --watermrk; did you mean --watermark?\n"),
        (["run", "x.json", "y.json"], "unrecognized arguments: y.json"),
        (["run", "x.json", "--block-size", "24"], "--block-size: is '24', expected a power of two from 1 to 256"),
        (["run", "x.json", "--watermark", "1"], "--watermark: is '1', expected a share from 0 to below 1"),
        (["run", "x.json", "--kv-memory", "much"], "--kv-memory: is 'much', expected a size such as 2GiB"),
        (["run", "x.json", "--num-blocks", "4", "--kv-memory", "1GiB"], "not allowed with argument --num-blocks"),
        (["run"], "the following arguments are required: WORKLOAD"),
    ):
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        assert ended.value.code == 2
        said = capsys.readouterr().err
        assert message in said and len(said.splitlines()) == 2
        assert f"`kvtop {arguments[0]} --help` says what there is" in said


def test_a_failure_is_one_line_and_a_traceback_only_under_debug(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    missing = str(tmp_path / "none.json")
    assert cli.main(["run", missing]) == 1
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"kvtop: {missing}: cannot be read: No such file or directory\n")
    for arguments in (["--debug", "run", missing], ["run", "--debug", missing]):
        assert cli.main(arguments) == 1
        assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (Failure("the pool is too small"), 1, "kvtop: the pool is too small\n"),
        (KeyError("seq"), 1, "kvtop: internal error: KeyError: 'seq' (--debug shows where)\n"),
        (Failure("two\nlines\x1b[2J"), 1, "kvtop: two lines␛[2J\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_what_a_command_raises_becomes_an_exit_code_and_a_harmless_line(
    error: BaseException, code: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(args: object) -> int:
        raise error

    monkeypatch.setattr(config, "run", fail)
    assert cli.main(["config"]) == code
    assert capsys.readouterr().err == message


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    done = subprocess.run(
        f"{sys.executable} -m kvtop config --json | head -c 1", shell=True, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("{", "")


def test_a_terminal_that_lacks_a_sign_gets_another() -> None:
    done = run_python("-m", "kvtop", "config", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "engine.num_blocks" in done.stdout


def test_the_version_is_that_of_the_package() -> None:
    from kvtop import __version__

    assert run_python("-m", "kvtop", "--version").stdout == f"kvtop {__version__}\n"


def test_config_prints_json_that_says_where_each_value_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[engine]\nblock_size = 32\nwatermark = 0.05\n[screen]\ntheme = "light"\n')
    done = run_python("-m", "kvtop", "config", "--json", KVTOP_CONFIG=str(file), KVTOP_WATERMARK="10%")
    assert (done.returncode, done.stderr) == (0, "")
    shown = json.loads(done.stdout)
    settings = {entry["key"]: (entry["value"], entry["origin"], entry["place"]) for entry in shown["settings"]}
    assert shown["config_file"] == str(file)
    assert settings["engine.block_size"] == (32, "config", str(file))
    assert settings["engine.watermark"] == (0.1, "environment", "KVTOP_WATERMARK")
    assert settings["screen.theme"] == ("light", "config", str(file))
    assert settings["engine.dtype"] == ("auto", "default", "")


def test_config_warns_of_a_theme_that_there_is_not_with_file_and_key(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[screen]\ntheme = "puce"\n')
    done = run_python("-m", "kvtop", "config", KVTOP_CONFIG=str(file))
    assert done.returncode == 0
    assert f"{file}: screen.theme is 'puce', but there is no such theme, expected one of dark, light" in done.stderr
    done = run_python("-m", "kvtop", "config", KVTOP_CONFIG=str(file), KVTOP_THEME="mauve")
    assert "warning: KVTOP_THEME is 'mauve', but there is no such theme" in done.stderr


def test_config_prints_a_table_with_warnings_on_stderr(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[engine]\nblock_size = 24\n")
    done = run_python("-m", "kvtop", "config", KVTOP_CONFIG=str(file), COLUMNS="200")
    assert done.returncode == 0
    assert f"{file}: engine.block_size is 24, expected a power of two from 1 to 256; ignored" in done.stderr
    (row,) = (line.split() for line in done.stdout.splitlines() if line.startswith("engine.block_size"))
    assert row == ["engine.block_size", "16", "default"]


def test_config_shows_keys_and_says_what_is_wrong_with_one(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[keys]\npause = ["f5", "."]\nstep = "G"\npouse = "x"\nabort = "f99"\n')
    done = run_python("-m", "kvtop", "config", KVTOP_CONFIG=str(file), COLUMNS="200")
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("keys.")]
    assert rows == [["keys.pause", "f5,", "full_stop", "config", "file"], ["keys.step", "G", "config", "file"]]
    assert f"{file}: keys.pouse: there is no action of that name; did you mean pause" in done.stderr
    assert f"{file}: keys.abort: there is no key 'f99', expected a character or a name like f5" in done.stderr
    listed = run_python("-m", "kvtop", "config", "--keys", "--json", KVTOP_CONFIG=str(file))
    actions = {entry["action"]: entry["keys"] for entry in json.loads(listed.stdout)}
    assert (actions["pause"], actions["quit"]) == ("f5,full_stop", "q,ctrl+c,ctrl+q")
