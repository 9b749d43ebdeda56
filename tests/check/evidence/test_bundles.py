"""Bundles of evidence, verified by the file that lies in them, by Python alone, and by the openssl that it names."""

import hashlib
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger.clock import SystemClock
from ledger.errors import PreconditionError, UnsafeError, UsageError
from ledger.evidence.bundle import write_bundle
from ledger.store.log import DeltaFactLog
from ledger.store.snapshots import DeltaLedger
from tests.support.commands import command, unreachable_flow
from tests.support.ledger_rows import TABLE, claim, row, watermark
from tests.support.tampering import EDITED, Written, edited, verified, written

pytestmark = pytest.mark.long

OPERATION = "11111111222222223333333344444444"
STAMP = {"writer", "writer_epoch", "round", "recorded_at_ms"}


def shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False)


def verify(bundle: Path) -> subprocess.CompletedProcess[str]:
    """In a Python that sees nothing of this program, nor of any other that is not of Python itself."""
    line = [sys.executable, "-I", "-S", str(bundle / "verify.py")]
    return subprocess.run(line, cwd="/", capture_output=True, text=True, check=False)


def line_of(bundle: Path, about: str) -> str:
    """The line that the verifier prints behind one that begins so."""
    lines = verify(bundle).stdout.splitlines()
    [number] = [number for number, line in enumerate(lines) if line.startswith(f"# {about}")]
    return lines[number + 1]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    ways = {
        "rsa": "RSA -pkeyopt rsa_keygen_bits:2048",
        "ec": "EC -pkeyopt ec_paramgen_curve:P-256",
        "ed25519": "ED25519",
    }
    for name, way in ways.items():
        assert shell(folder, f"openssl genpkey -algorithm {way} -out {name}.pem").returncode == 0
    return folder


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path) -> Written:
    return written(tmp_path_factory.mktemp("evidence"), empty_ledger)


def bundle_of(ledger: Written, path: Path, to: Path, key: str | None = None) -> Path:
    """Of what was appended behind the third of its times."""
    at = DeltaLedger(str(path))
    since = at.at_time(ledger.times[2], now_ms=ledger.now_ms)
    write_bundle(
        to,
        at.now(),
        since,
        about="a test",
        now_ms=ledger.now_ms,
        reports={"report.json": "{}"},
        approvals={},
        key=key,
    )
    return to


@pytest.fixture(scope="module")
def bundle(ledger: Written, keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("bundle") / "made"
    return bundle_of(ledger, ledger.path, to, (keys / "rsa.pem").read_text())


def test_a_bundle_has_the_rows_since_a_cut_and_what_they_follow(ledger: Written, bundle: Path) -> None:
    done = verify(bundle)
    assert (done.returncode, "WRONG" in done.stdout) == (0, False), done.stdout + done.stderr
    lines = [json.loads(line) for line in (bundle / "rows" / f"{TABLE}.jsonl").read_text().splitlines()]
    assert [(one["epoch"], one["round"]) for one in lines] == [
        (epoch, n) for epoch in (2, 3) for n in (1, 2, 3)
    ]
    assert lines[-1]["columns"]["topic"] == ["a", "z", "z"]
    heads = json.loads((bundle / "heads.json").read_text())["heads"]
    assert [one["link"] for one in heads] == [head.link for head in ledger.anchor.heads]


@pytest.mark.parametrize("algorithm", ["rsa", "ec", "ed25519"])
def test_openssl_checks_the_signature_by_the_line_that_is_printed(
    ledger: Written, keys: Path, tmp_path: Path, algorithm: str
) -> None:
    made = bundle_of(ledger, ledger.path, tmp_path / "it's here", (keys / f"{algorithm}.pem").read_text())
    line = line_of(made, "signature")
    done = shell(tmp_path, line)
    assert done.returncode == 0, line + done.stdout + done.stderr
    manifest = made / "manifest.json"
    manifest.write_text(manifest.read_text().replace("a test", "a text"))
    assert shell(tmp_path, line).returncode != 0


def test_openssl_checks_a_time_stamp_by_the_lines_that_are_printed(bundle: Path, tmp_path: Path) -> None:
    stamped = Path(shutil.copytree(bundle, tmp_path / "stamped"))
    (tmp_path / "tsa.cnf").write_text(
        "[req]\ndistinguished_name=n\nx509_extensions=e\nprompt=no\n[n]\nCN=authority\n"
        "[e]\nextendedKeyUsage=critical,timeStamping\n"
        "[tsa]\ndefault_tsa=t\n[t]\nserial=serial\ndefault_policy=1.2.3\ndigests=sha256\nsigner_digest=sha256\n"
        "ess_cert_id_alg=sha256\n"
    )
    authority = (
        "echo 01 > serial && openssl req -x509 -newkey rsa:2048 -nodes -keyout tsa.key -out CA.pem -days 9 -config "
        "tsa.cnf && openssl ts -reply -config tsa.cnf -queryfile stamped/manifest.json.tsq -signer CA.pem -inkey "
        "tsa.key -out stamped/manifest.json.tsr"
    )
    assert shell(tmp_path, line_of(stamped, "to have it stamped")).returncode == 0
    done = shell(tmp_path, authority)
    assert done.returncode == 0, done.stderr
    line = line_of(stamped, "time stamp").replace("CA.pem", str(tmp_path / "CA.pem"))
    done = shell(tmp_path, line)
    assert done.returncode == 0, line + done.stdout + done.stderr
    assert verify(stamped).returncode == 0
    with (stamped / "manifest.json").open("a") as manifest:
        manifest.write(" ")
    assert shell(tmp_path, line).returncode != 0


def changed_row(bundle: Path) -> None:
    file = bundle / "rows" / f"{TABLE}.jsonl"
    file.write_text(
        file.read_text().replace('"high_watermark":[202,202,202]', '"high_watermark":[202,203,202]')
    )


def removed_append(bundle: Path) -> None:
    file = bundle / "rows" / f"{TABLE}.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:2] + lines[3:]))


def cut_end(bundle: Path) -> None:
    file = bundle / "rows" / f"{TABLE}.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))


def moved_append(bundle: Path) -> None:
    file = bundle / "rows" / f"{TABLE}.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([lines[1], lines[0], *lines[2:]]))


def other_writer(bundle: Path) -> None:
    file = bundle / "rows" / "operations.jsonl"
    file.write_text(file.read_text().replace('"writer":"operator"', '"writer":"somebody"', 1))


def other_head(bundle: Path) -> None:
    file = bundle / "heads.json"
    said = json.loads(file.read_text())
    said["heads"][0]["link"] = "v1." + "0" * 64
    file.write_text(json.dumps(said))


def other_start(bundle: Path) -> None:
    file = bundle / "manifest.json"
    said = json.loads(file.read_text())
    said["before"][0]["link"] = "v1." + "0" * 64
    file.write_text(json.dumps(said))


def without_heads(bundle: Path, **changed: Any) -> None:
    """So that no head is lacking, whatever else was taken out."""
    for file, content in (
        (bundle / "heads.json", {"heads": []}),
        (bundle / "manifest.json", {"before": [], "root": hashlib.sha256(b"").hexdigest(), **changed}),
    ):
        file.write_text(json.dumps({**json.loads(file.read_text()), **content}))


def no_links(bundle: Path) -> None:
    for file in (bundle / "rows").iterdir():
        lines = [{**json.loads(line), "link": None} for line in file.read_text().splitlines()]
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    without_heads(bundle)


def no_tables(bundle: Path) -> None:
    without_heads(bundle, tables=[])


def no_signature(bundle: Path) -> None:
    (bundle / "manifest.json.sig").unlink()


def fitted(bundle: Path, **said: Any) -> None:
    """Have the manifest name every file as it is."""
    manifest = bundle / "manifest.json"
    there = [file for file in bundle.rglob("*") if file.is_file() and not file.name.startswith("manifest")]
    files = {str(file.relative_to(bundle)): hashlib.sha256(file.read_bytes()).hexdigest() for file in there}
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "files": files, **said}))


FORGED = (
    *(changed_row, removed_append, cut_end, moved_append, other_writer, other_head, other_start),
    *(no_links, no_tables, no_signature),
)


@pytest.mark.parametrize("forge", FORGED)
@pytest.mark.parametrize("fits", [False, True], ids=["alone", "with its manifest"])
def test_what_was_changed_in_a_bundle_is_found(
    bundle: Path, tmp_path: Path, forge: Callable[[Path], None], fits: bool
) -> None:
    """Also where the manifest names the changed file: then by its links."""
    changed = Path(shutil.copytree(bundle, tmp_path / "changed"))
    forge(changed)
    if fits:
        fitted(changed)
    done = verify(changed)
    assert (done.returncode, "WRONG: " in done.stdout) == (1, True), done.stdout


def test_missing_and_strange_files_are_found(bundle: Path, tmp_path: Path) -> None:
    changed = Path(shutil.copytree(bundle, tmp_path / "changed"))
    (changed / "report.json").unlink()
    (changed / "rows" / "more.jsonl").write_text("")
    said = verify(changed).stdout
    assert "WRONG: 'report.json' is missing" in said
    strange = "WRONG: 'rows/more.jsonl' is not named by the manifest, or is of no table that it names"
    assert strange in said
    fitted(changed)
    assert strange in verify(changed).stdout


INTACT = "every file, append, link and head is what the manifest says"


def test_a_bundle_that_nobody_signed_says_so_last_and_names_in_it_are_no_commands(
    bundle: Path, tmp_path: Path
) -> None:
    changed = Path(shutil.copytree(bundle, tmp_path / "changed"))
    for name in ("key.pem", "manifest.json.sig"):
        (changed / name).unlink()
    names = ("x; touch DONE; #", f"x\n{INTACT}\n\x1b[2J; touch DONE")
    for name in names:
        for ending in ("txt", "pem", "sig"):
            (changed / "approvals").mkdir(exist_ok=True)
            (changed / "approvals" / f"{name}.{ending}").write_text("t")
    fitted(changed, signature=None)
    done = verify(changed)
    assert (done.returncode, "\x1b" in done.stdout) == (3, False)
    lines = done.stdout.splitlines()
    assert lines.count(INTACT) == 1
    appends = sum(len(file.read_text().splitlines()) for file in (changed / "rows").iterdir())
    assert lines[1] == f"checked: {appends} appends"
    assert lines[-1] == "NOT SIGNED, NOT STAMPED: anybody could have made this"
    typed = [line for line in lines if line.startswith("cd ") and "-sig" in line]
    assert len(typed) == len(names)
    for line in typed:
        shell(tmp_path, line)
    assert not list(tmp_path.rglob("DONE"))


def refused(ledger: Written, path: Path, to: Path) -> bool:
    try:
        bundle_of(ledger, path, to)
    except UnsafeError:
        return True
    return False


def test_a_bundle_of_a_changed_ledger_is_refused_by_its_own_verifier(
    ledger: Written, bundle: Path, tmp_path: Path
) -> None:
    """As the ledger's own is; where both find nothing the rows are as they were."""
    came_to = []
    for number in range(8):
        path, to = tmp_path / f"edited-{number}", tmp_path / f"bundle-{number}"
        if edited(ledger, path, "rows", random.Random(f"bundle {number}")) is None:
            continue
        came_to.append(refused(ledger, path, to))
        assert (verify(to).returncode == 1) is came_to[-1]
        if came_to[-1]:
            assert verified(path, [], ledger.now_ms, EDITED)
        else:
            rows = {file.name: file.read_bytes() for file in (to / "rows").iterdir()}
            assert rows == {file.name: file.read_bytes() for file in (bundle / "rows").iterdir()}
    assert came_to.count(True) >= 2


def test_a_folder_that_is_there_and_a_key_that_is_none_are_refused(ledger: Written, tmp_path: Path) -> None:
    with pytest.raises(PreconditionError, match="is there already; nothing was written"):
        bundle_of(ledger, ledger.path, tmp_path)
    with pytest.raises(UsageError, match="no private key"):
        bundle_of(ledger, ledger.path, tmp_path / "new", "-----BEGIN NONSENSE-----")
    assert not (tmp_path / "new").exists()


def test_the_command_writes_a_bundle_of_an_operation(
    tmp_path: Path, empty_ledger: Path, keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = unreachable_flow(tmp_path, capsys).with_line(f'[evidence]\nkey = {{ file = "{keys / "ec.pem"}" }}')
    shutil.copytree(empty_ledger, flow.config.ledger.path)
    log = DeltaFactLog(flow.config.ledger.path, SystemClock())
    claimed = claim(log)
    log.append(claimed, TABLE, 1, [watermark(1)])
    whole = row("operations", operation_id=OPERATION, kind="stop", operator="ann", content="{}")
    log.append_next("operator", "operations", [{name: whole[name] for name in whole.keys() - STAMP}])
    log.append(claimed, TABLE, 2, [watermark(2)])
    to = tmp_path / "bundle"
    done = command(capsys, flow.config, "evidence", OPERATION, "--to", str(to))
    assert done.code == 0, done.err
    assert f"python3 {to / 'verify.py'}" in done.err
    assert verify(to).returncode == 0
    assert shell(tmp_path, line_of(to, "signature")).returncode == 0
    manifest = json.loads((to / "manifest.json").read_text())
    assert manifest["about"] == f"operation {OPERATION}"
    assert len((to / "rows" / "operations.jsonl").read_text().splitlines()) == 1
    assert "PRIVATE" not in "".join(
        file.read_text(errors="replace") for file in to.rglob("*") if file.is_file()
    )
    assert command(capsys, flow.config, "evidence", "nobody", "--to", str(tmp_path / "no")).code == 2
