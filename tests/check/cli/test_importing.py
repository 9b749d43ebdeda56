"""`import` as a user types it."""

import json
import time
from pathlib import Path

import pytest

from ledger.config.file import load_config
from ledger.errors import ConfigurationError
from tests.support.commands import dead_port, mirror_ledger
from tests.support.maker_files import BASE, FOLDER


def written(folder: Path, text: str) -> str:
    file = folder / "mm2.properties"
    file.write_text(text)
    return str(file)


def test_the_configuration_is_on_stdout_and_the_table_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = mirror_ledger(capsys, "import", written(tmp_path, BASE + "max.tasks = 3\n"))
    assert done.code == 0
    target = tmp_path / "mirror.toml"
    target.write_text(done.out)
    assert list(load_config(target).flows) == ["a-to-b"]
    assert "verdict" in done.err
    assert "is tasks.max meant?" in " ".join(done.err.split())


def test_tables_of_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, BASE)
    rows = json.loads(mirror_ledger(capsys, "import", file, "-o", "json").out)
    assert rows[0] == {
        "where": "line 1",
        "key": "clusters",
        "value": "a, b",
        "verdict": "taken",
        "taken_as": None,
        "remark": "a table for each cluster",
    }
    csv = mirror_ledger(capsys, "import", file, "-o", "csv").out.splitlines()
    assert csv[0] == "where,key,value,verdict,taken_as,remark"
    assert len(csv) == len(rows) + 1
    assert "line 1" in mirror_ledger(capsys, "import", file, "-o", "table", "--wide").out


RESOURCE = "apiVersion: kafka.strimzi.io/v1\nkind: KafkaMirrorMaker2\nspec:\n"
TENFOLD = "".join(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
BOMBS = {
    "aliases.yaml": f"{RESOURCE}  a0: &a0 [x]\n{TENFOLD}",
    "long.yaml": f"{RESOURCE}  a: &a {'x' * 100_000}\n  b: [{', '.join(['*a'] * 20_000)}]\n",
    "deep.yaml": RESOURCE + "  a: " + "[" * 700 + "]" * 700 + "\n",
    "deep.json": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "flat.json": '{"a":' * 900 + "1" + "}" * 900,
    "number.json": f'{{"a": {"1" * 10_000}}}',
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_would_take_for_ever_ends_in_a_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    file.write_text(BOMBS[name])
    began_s = time.process_time()
    done = mirror_ledger(capsys, "import", str(file))
    assert time.process_time() - began_s < 5.0
    assert (done.code, done.out) == (ConfigurationError.exit_code, "")
    assert done.err.startswith(f"error: {file}: ")
    assert done.err.endswith("; nothing was imported\n")
    assert done.err.count("\n") == 1


def test_what_could_not_be_expressed_is_exit_code_4(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    managed = (FOLDER / "managed.properties").read_text()
    handler = "cloud.sasl.client.callback.handler.class = org.example.Handler"
    strange = managed.replace(
        "cloud.sasl.mechanism = PLAIN", f"cloud.sasl.mechanism = OAUTHBEARER\n{handler}"
    )
    done = mirror_ledger(capsys, "import", written(tmp_path, strange))
    assert done.code == 4
    assert "3 keys of" in done.err
    assert "[flows.house-to-cloud]" in done.out
    assert "not-a-secret" not in done.out + done.err


@pytest.mark.parametrize(
    ("text", "words"),
    [("a = b", "no key `clusters`"), ("clusters = a", "mirrors nothing"), ("clusters = \\uxyz", "line 1")],
)
def test_what_is_no_file_of_mirror_maker_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    done = mirror_ledger(capsys, "import", written(tmp_path, text))
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert done.err.count("\n") == 1
    assert "nothing was imported" in done.err


def test_two_files_of_the_dedicated_process_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, BASE)
    done = mirror_ledger(capsys, "import", file, file)
    assert (done.code, "one file at a time" in done.err) == (2, True)


def test_check_without_clusters_names_the_one_that_does_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = f"127.0.0.1:{dead_port()}"
    text = BASE.replace("a1:9092", nobody).replace("b1:9092", nobody)
    done = mirror_ledger(capsys, "import", written(tmp_path, text), "--check")
    assert (done.code, done.out) == (1, "")
    assert "cluster a at" in done.err


def test_check_prints_a_table_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = mirror_ledger(capsys, "import", written(tmp_path, BASE), "--check", "-o", "toml")
    assert (done.code, "nothing was compared" in done.err) == (2, True)
