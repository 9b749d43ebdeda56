"""Bad input: a clear message on stderr, the documented exit code, nothing written, nothing on stdout."""

import subprocess
import sys
from pathlib import Path

import pytest

from ledger.config.file import CONFIG_VARIABLE
from tests.support.checkout import CHECKOUT
from tests.support.commands import command, mirror_ledger
from tests.support.unreachable import UnreachableFlow


def test_no_configuration_says_both_ways(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    done = mirror_ledger(capsys, "status")
    assert (done.code, done.out) == (2, "")
    assert "--config" in done.err
    assert CONFIG_VARIABLE in done.err


def test_a_malformed_configuration_lists_every_problem_with_file_and_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broken.toml"
    file.write_text(
        '[ledger]\n[clusters.east]\nbootstrap_servers = "nowhere"\n'
        '[flows.f]\nsource = "east"\ntarget = "wset"\ntopics = ["("]\ncolour = 1\n',
        encoding="utf-8",
    )
    done = mirror_ledger(capsys, "--config", str(file), "init")
    assert (done.code, done.out) == (2, "")
    for part in (
        "ledger",
        "clusters.east.bootstrap_servers",
        "flows.f.target",
        "flows.f.topics",
        "flows.f.colour",
    ):
        assert part in done.err
    assert done.err.count(str(file)) >= 5
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "nope"),
        ("stop", "nope"),
        ("status", "nope"),
        ("pause", "nope"),
        ("offsets", "translate", "--flow", "nope"),
        ("query", "replication_lag", "--param", "flow=nope"),
    ],
)
def test_an_unknown_flow_is_named_with_those_that_exist(
    with_ledger: UnreachableFlow, arguments: tuple[str, ...]
) -> None:
    assert "nope" in with_ledger.refused(*arguments, code=2)


def test_a_process_ends_as_the_command_does(with_ledger: UnreachableFlow) -> None:
    """All other tests carry commands out in this process; here is what a shell sees."""
    message = with_ledger.refused("status", "nope", code=2)
    process = subprocess.run(
        [sys.executable, "-m", "ledger.cli.main", "--config", with_ledger.config.file, "status", "nope"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (process.returncode, process.stdout, process.stderr) == (2, "", message)
    assert "Traceback" not in process.stderr


def test_an_unknown_query_or_parameter_is_refused(with_ledger: UnreachableFlow) -> None:
    assert "offset_translation" in with_ledger.refused("query", "nope", code=2)
    assert "flow" in with_ledger.refused("query", "replication_lag", code=2)
    lag = ("query", "replication_lag", "--param")
    assert "colour" in with_ledger.refused(*lag, "colour=red", code=2)
    assert "KEY=VALUE" in with_ledger.refused(*lag, "flow", code=2)


def test_an_unreachable_broker_is_named_and_the_start_that_failed_needs_attention(
    with_ledger: UnreachableFlow,
) -> None:
    """Of the start that failed the ledger has one row, and no claim."""
    before = with_ledger.commits()
    done = command(with_ledger.capture, with_ledger.config, "run", "east-to-west", "--until-caught-up")
    assert (done.code, done.out) == (1, "")
    assert str(with_ledger.port) in done.err
    assert with_ledger.commits() == {**before, "operations": before["operations"] + 1}
    told = command(with_ledger.capture, with_ledger.config, "status")
    assert told.out.startswith("east-to-west: starting since 20"), "the process lives: it is this one"


@pytest.mark.parametrize("arguments", [("status",), ("run", "east-to-west"), ("stop", "east-to-west")])
def test_a_path_that_is_no_ledger_is_refused(
    without_ledger: UnreachableFlow, arguments: tuple[str, ...]
) -> None:
    message = without_ledger.refused(*arguments, code=2)
    assert f"{without_ledger.config.ledger.path} is not a ledger" in message
    assert "mirror-ledger init" in message
    assert not Path(without_ledger.config.ledger.path).exists()


def test_a_relative_ledger_is_created_and_found_from_any_folder(
    without_ledger: UnreachableFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path(without_ledger.config.file)
    ledger = file.parent / "facts"
    text = file.read_text(encoding="utf-8").replace(without_ledger.config.ledger.path, "facts")
    file.write_text(text, encoding="utf-8")
    (file.parent / "elsewhere").mkdir()
    monkeypatch.chdir(file.parent / "elsewhere")
    assert f"{ledger} is not a ledger" in without_ledger.refused("status", code=2)
    done = mirror_ledger(without_ledger.capture, "--config", "../mirror.toml", "init")
    assert (done.code, str(ledger) in done.err) == (0, True)
    monkeypatch.chdir("/")
    assert mirror_ledger(without_ledger.capture, "--config", str(file), "status").code == 0
    assert list((file.parent / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("as_of", "telling"),
    [
        ("2001-01-01T00:00:00Z", "the ledger begins at"),
        ("2999-12-31T23:59:59Z", "has not come yet: it is 20"),
        ("2001-01-01T00:00:00", "offset"),
        ("yesterday", "no cut token"),
        ("v1.offset_syncs=99999", "cut"),
    ],
)
def test_a_cut_that_does_not_exist_is_refused(with_ledger: UnreachableFlow, as_of: str, telling: str) -> None:
    assert telling in with_ledger.refused("status", "--as-of", as_of, code=2)


def test_half_an_offset_is_refused(with_ledger: UnreachableFlow) -> None:
    arguments = ("offsets", "translate", "--flow", "east-to-west", "--topic", "orders", "--offset", "3")
    assert "--partition" in with_ledger.refused(*arguments, code=2)


@pytest.mark.parametrize(
    "arguments",
    [
        ("offsets", "translate", "--flow", "east-to-west"),
        ("query", "replication_lag", "--param", "flow=east-to-west"),
    ],
)
def test_a_flow_that_never_ran_has_no_answer(
    with_ledger: UnreachableFlow, arguments: tuple[str, ...]
) -> None:
    assert "has never run" in with_ledger.refused(*arguments, code=5)


@pytest.mark.parametrize("other", ["--until-caught-up", "--take-over"])
def test_a_standby_neither_takes_over_from_the_living_nor_ends_by_itself(
    with_ledger: UnreachableFlow, other: str
) -> None:
    assert "--standby waits" in with_ledger.refused("run", "east-to-west", "--standby", other, code=2)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [(("nope",), 2, "nope"), (("--once",), 1, "could not be reached")],
    ids=["unknown", "unreachable"],
)
def test_recording_of_an_unknown_cluster_and_of_one_that_does_not_answer(
    with_ledger: UnreachableFlow, arguments: tuple[str, ...], code: int, message: str
) -> None:
    assert message in with_ledger.refused("record", *arguments, code=code)
