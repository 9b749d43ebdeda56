"""Bad input: a clear message on stderr, the documented exit code, nothing written, nothing on stdout."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from ledger.config.file import CONFIG_VARIABLE
from ledger.facts.direction import Promoted
from tests.support.checkout import CHECKOUT
from tests.support.commands import UnreachableFlow, command, mirror_ledger
from tests.support.operated import FLOW, Operated, mark_of_a_gone_process, own_mark


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


@pytest.mark.parametrize("seconds", ["0", "0.09", "-1", "nan", "inf", "1e300", "soon"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("fence", "east", "--quiet-seconds"),
        ("plan", "switchover", "--from", "east", "--to", "west", "--most-quiet-seconds"),
        ("plan", "failover", "--from", "east", "--to", "west", "--quiet-seconds"),
        ("cut", "--from", "east", "--to", "west", "--quiet-seconds"),
    ],
)
def test_how_long_ends_stand_still_has_bounds(
    with_ledger: UnreachableFlow, arguments: tuple[str, ...], seconds: str
) -> None:
    message = with_ledger.refused(*arguments, seconds, code=2)
    assert arguments[-1] in message
    assert ("is not in the range 0.1<=x<=" in message) is (seconds != "soon"), message


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


# -- hand-over -------------------------------------------------------------------------------------

PAIR = ("--from", "east", "--to", "west")
REASON = ("--reason", "r")


@pytest.mark.parametrize(
    ("arguments", "code", "telling"),
    [
        (("apply", *PAIR), 2, "--reason"),
        (("show", "--from", "nope", "--to", "west"), 2, "nope"),
        (
            ("show", "--from", "west", "--to", "east"),
            2,
            "no flow of the configuration copies from west to east",
        ),
        (("show", *PAIR, "--topic", "none"), 2, "no flow from east to west copies to topic none"),
        (("show", *PAIR, "--for", "nobody"), 2, "nobody"),
        (("show", *PAIR), 5, "the ledger knows no topic at all that was copied from east to west"),
        (("apply", *PAIR, *REASON), 5, "knows no topic"),
        (("undo", "x", *REASON), 2, "no hand-over has the operation id 'x'; nothing was undone"),
        (("undo", "x"), 2, "--reason"),
        (("show", *PAIR, "--wide", "-o", "csv"), 2, "--wide is about tables"),
    ],
)
def test_what_cannot_be_handed_over_is_refused(
    idle: Operated, arguments: tuple[str, ...], code: int, telling: str
) -> None:
    done = idle.command("hand-over", *arguments)
    assert (done.code, done.out) == (code, "")
    assert telling in done.err
    assert idle.operations() == []


def test_a_cluster_that_does_not_answer_is_not_handed_anything(idle: Operated) -> None:
    idle.writer("claimed", own_mark())
    idle.copied({("orders", 0): 10})
    done = idle.command("hand-over", "show", *PAIR)
    assert (done.code, done.out) == (1, "")
    assert "could not be reached" in done.err


# -- resync-keys -----------------------------------------------------------------------------------

RESYNC_KEYS = ("resync-keys", "east-to-west", "--topic", "orders")


@pytest.mark.parametrize(
    ("arguments", "telling"),
    [
        (("resync-keys", "nope", "--topic", "orders"), "nope"),
        (("resync-keys", "east-to-west"), "--topic"),
        ((*RESYNC_KEYS, "--partition", "-1"), "-1"),
        ((*RESYNC_KEYS, "--partition", "first"), "first"),
    ],
)
def test_bad_arguments_of_resync_keys_are_named(
    with_ledger: UnreachableFlow, arguments: tuple[str, ...], telling: str
) -> None:
    assert telling in with_ledger.refused(*arguments, code=2)


def test_a_shared_target_is_refused_before_anything_is_reached(with_ledger: UnreachableFlow) -> None:
    message = with_ledger.with_line('target_mode = "shared"').refused(*RESYNC_KEYS, code=5)
    assert 'target_mode = "shared"' in message
    assert "no keys were compared" in message


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_an_unreachable_broker_is_named_and_nothing_is_written(
    with_ledger: UnreachableFlow, dry_run: tuple[str, ...]
) -> None:
    assert str(with_ledger.port) in with_ledger.refused(*RESYNC_KEYS, *dry_run, code=1)


def test_keys_are_not_resynced_by_a_path_that_is_no_ledger(without_ledger: UnreachableFlow) -> None:
    assert "is not a ledger" in without_ledger.refused(*RESYNC_KEYS, code=2)
    assert not Path(without_ledger.config.ledger.path).exists()


# -- offsets set -----------------------------------------------------------------------------------

SET = ("offsets", "set", "--flow")


@pytest.mark.parametrize(
    ("arguments", "telling"),
    [
        (("east-to-west",), "--group (again for each) or --all-groups"),
        (("east-to-west", "--all-groups", "--group", "g"), "one of both; none was set"),
        (("east-to-west", "--all-groups", "--partition", "1"), "--partition needs --topic"),
        (("nope", "--all-groups"), "nope"),
        (("east-to-west", "--all-groups", "--watch", "5", "--dry-run"), "--watch does not go with --dry-run"),
        (("east-to-west", "--all-groups", "--accept", "exact"), "exact"),
        (
            ("east-to-west", "--from", "west", "--to", "east", "--all-groups"),
            "east-to-west copies from east to west, not from west to east",
        ),
        (("east-to-west", "--all-groups", "--wide", "-o", "csv"), "--wide is about tables"),
    ],
)
def test_what_does_not_go_together_is_refused(
    idle: Operated, arguments: tuple[str, ...], telling: str
) -> None:
    done = idle.command(*SET, *arguments)
    assert (done.code, done.out) == (2, "")
    assert telling in done.err


def test_clusters_of_which_nothing_is_known_are_refused(idle: Operated) -> None:
    between = ("offsets", "set", "--all-groups")
    done = idle.command(*between, "--from", "east")
    assert (done.code, "name the clusters (--from and --to), or a flow" in done.err) == (2, True)
    done = idle.command(*between, "--from", "east", "--to", "north")
    assert (done.code, "no cluster 'north'" in done.err) == (2, True)


def test_a_target_that_does_not_answer_leaves_everything_as_it_is(idle: Operated) -> None:
    idle.writer("claimed", own_mark())
    idle.copied({("orders", 0): 10})
    at = {"cluster": "east", "topic": "orders", "topic_id": "id-of-orders", "partition": 0}
    idle.append("checkpoints", {**at, "group_id": "billing", "committed_offset": 4})
    for asked in (("--flow", "east-to-west"), ("--from", "east", "--to", "west")):
        done = idle.command("offsets", "set", *asked, "--all-groups")
        assert (done.code, done.out) == (1, "")
        assert "could not be reached" in done.err
    assert idle.operations() == []


def test_where_applications_have_left_no_offset_is_set(idle: Operated) -> None:
    """What they read where they are now would be read again; the advice is carried out."""
    idle.writer("claimed", own_mark())
    idle.copied({("orders", 0): 10, ("users", 0): 10})
    for topic in ("orders", "users"):
        at = {"cluster": "east", "topic": topic, "topic_id": f"id-of-{topic}", "partition": 0}
        idle.append("checkpoints", {**at, "group_id": "billing", "committed_offset": 4})
    promoted = Promoted(cluster="east", cluster_id="E", former="west", former_id="W", topics=("east.orders",))
    content = json.dumps(promoted.content())
    row = {"writer": "operator", "kind": "promoted", "flow": None, "content": content}
    idle.append("operations", {**row, "operation_id": "op-1", "operator": "anna"})
    asked = ("offsets", "set", "--flow", "east-to-west", "--all-groups")
    done = idle.command(*asked)
    assert (done.code, done.out) == (5, "")
    assert "orders of east was promoted over west" in done.err
    assert "applications work at east, not at west; no offset was set there" in done.err
    assert 'mirror-ledger demote east --over west --keep-ends --reason "home again"' in done.err
    of_another = idle.command(*asked, "--topic", "users")
    assert (of_another.code, "could not be reached" in of_another.err) == (1, True)
    assert [row["kind"] for row in idle.operations()] == ["promoted"]


def test_from_a_ledger_that_has_lost_rows_nothing_is_set_unless_that_is_accepted(idle: Operated) -> None:
    """A map without its beginning sends a group behind what it has not read."""
    idle.writer("claimed", own_mark())
    idle.copied({("orders", 0): 10})
    at = {"cluster": "east", "topic": "orders", "topic_id": "id-of-orders", "partition": 0}
    idle.append("checkpoints", {**at, "group_id": "billing", "committed_offset": 4})
    syncs = DeltaTable(f"{idle.path}/offset_syncs")
    syncs.alter.set_table_properties({"delta.appendOnly": "false"})
    DeltaTable(syncs.table_uri).delete("kind = 'started'")
    reset = ("offsets", "translate", "--flow", "east-to-west", "-o", "kafka-reset")
    of_flow = ("offsets", "set", "--flow", "east-to-west", "--all-groups")
    between = ("offsets", "set", "--from", "east", "--to", "west", "--all-groups")
    for asked, goes_on in ((reset, 0), (of_flow, 1), (between, 1)):
        refused = idle.command(*asked)
        assert (refused.code, refused.out) == (4, "")
        assert "the ledger has lost rows (audit_l8_nothing_missing: 1 row)" in refused.err
        assert idle.command(*asked, "--accept", "missing_rows").code == goes_on
    assert idle.command("query", "audit_l8_nothing_missing").code == 4


# -- settle ----------------------------------------------------------------------------------------

SETTLE = ("settle", FLOW, "--reason", "a fire")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("settle", "nope", "--reason", "a fire"), "nope"),
        (("settle", FLOW), "--reason"),
        ((*SETTLE, "-o", "x"), "x"),
    ],
)
def test_bad_arguments_of_settle_are_named(
    with_ledger: UnreachableFlow, arguments: tuple[str, ...], named: str
) -> None:
    assert named in with_ledger.refused(*arguments, code=2)


def test_a_flow_that_never_ran_is_refused(with_ledger: UnreachableFlow) -> None:
    assert "has never run: nothing of it can be at west; nothing was settled" in with_ledger.refused(
        *SETTLE, code=5
    )


def test_a_driver_at_work_has_the_flow(at_work: Operated) -> None:
    done = at_work.command(*SETTLE)
    assert done.code == 5
    assert f"flow {FLOW} is being mirrored" in done.err
    assert f"mirror-ledger stop {FLOW}" in done.err


def test_a_target_that_does_not_answer_is_named(idle: Operated) -> None:
    idle.writer("claimed", mark_of_a_gone_process(), epoch=3)
    idle.copied({("orders", 0): 100})
    done = idle.command(*SETTLE)
    assert (done.code, "west" in done.err) == (1, True), done.err
