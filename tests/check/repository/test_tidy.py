"""The repository tested as data: what may lie where, and what may stand in it.

Forbidden texts are put together from halves, so that this file does not contain what it looks for.
"""

import ast
import hashlib
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hatchling.build import build_wheel

from ledger import errors
from tests.support import documents
from tests.support.checkout import CHECKOUT
from tests.support.documents import TOP_LEVEL, of_type, parsed, relative, tracked

MAXIMUM_JOB_LINES = 80
SUITES = ("check", "real", "soak")
TEST_MODULE = re.compile(r"(^|\.)test_")
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
QUERY_HEADER = ("name", "answers", "grain", "reads", "params", "columns")
JOB_SECTIONS = ("Reads", "Appends", "Retry", "Exit")
APACHE_LICENSE_SHA256 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"

HALVES = (
    # places of one machine
    *(("/wor", "k/"), ("/far", "m/"), ("/ro", "ot/"), ("/ho", "me/")),
    # hosts of package registries
    *(("pypi", ".org"), ("python", "hosted"), ("repo1.", "maven"), ("maven.", "apache.org"), ("/mav", "en2")),
    # whoever wrote it
    *(("sub", "agent"), ("clau", "de"), ("anthro", "pic"), ("chat", "gpt"), ("assis", "tant")),
    # unfinished work
    *(("TO", "DO"), ("FIX", "ME"), ("not implemen", "ted"), ("NotImplemen", "tedError")),
)
FORBIDDEN = re.compile("|".join(re.escape("".join(pair)) for pair in HALVES), re.IGNORECASE)


def test_the_listing_sees_files() -> None:
    """Every test below passes on an empty list; this one does not."""
    assert CHECKOUT / "ledger" / "errors.py" in of_type(".py", "ledger")
    assert Path(__file__) in of_type(".py", "tests")


def test_top_level_is_what_is_allowed() -> None:
    tops = {path.relative_to(CHECKOUT).parts[0] for path in tracked()}
    assert {top for top in tops if not top.startswith(".")} <= TOP_LEVEL


def test_no_forbidden_text() -> None:
    found = [hit for path in tracked() for hit in forbidden_lines(path)]
    assert found == []


def forbidden_lines(path: Path) -> Iterator[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:  # recorded bytes
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if hit := FORBIDDEN.search(line):
            yield f"{relative(path)}:{number}: {hit.group()}"


@pytest.mark.parametrize("pair", HALVES, ids=lambda pair: "-".join(pair))
def test_forbidden_text_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: tuple[str, str]
) -> None:
    monkeypatch.setattr(documents, "CHECKOUT", tmp_path)
    sample = tmp_path / "sample"
    sample.write_text(f"fine\nnot {''.join(pair)} fine\n")
    assert list(forbidden_lines(sample)) == [f"sample:2: {''.join(pair)}"]


def test_modules_have_telling_names() -> None:
    modules = [path.relative_to(CHECKOUT) for path in of_type(".py")]
    assert [str(path) for path in modules if VAGUE_NAMES & {*path.parent.parts, path.stem}] == []


def test_modules_say_what_they_are_for() -> None:
    without = [
        relative(path)
        for path in of_type(".py")
        if path.read_text().strip() and ast.get_docstring(parsed(path)) is None
    ]
    assert without == []


def test_jobs_are_thin_and_described() -> None:
    problems = [problem for path in of_type(".py", "jobs") for problem in job_problems(path)]
    assert problems == []


def job_problems(path: Path) -> Iterator[str]:
    text = path.read_text()
    if (lines := len(text.splitlines())) >= MAXIMUM_JOB_LINES:
        yield f"{relative(path)}: {lines} lines"
    description = ast.get_docstring(ast.parse(text)) or ""
    for section in JOB_SECTIONS:
        if not re.search(rf"^\s*{section}\b", description, re.MULTILINE):
            yield f"{relative(path)}: no {section} in the docstring"


def test_queries_have_their_header() -> None:
    problems = [problem for path in of_type(".sql", "queries") for problem in query_problems(path)]
    assert problems == []


def query_problems(path: Path) -> Iterator[str]:
    header = dict(re.findall(r"^-- (\w+): *(.*)$", path.read_text(), re.MULTILINE))
    for key in QUERY_HEADER:
        if not header.get(key):
            yield f"{relative(path)}: no {key} in the header"
    if header.get("name") != path.stem:
        yield f"{relative(path)}: named {header.get('name')} in its header"


def test_every_test_lies_in_a_suite() -> None:
    """What lies elsewhere is not run."""
    suites = tuple(f"tests/{suite}/" for suite in SUITES)
    tests = [relative(path) for path in of_type(".py") if path.name.startswith("test_")]
    assert [name for name in tests if not name.startswith(suites)] == []


def test_nothing_is_imported_from_a_test() -> None:
    """What tests share lies in `tests/support`: a test can be moved or removed without a look at others."""
    found = [(relative(path), name) for path in of_type(".py", "tests") for name in imports_of_tests(path)]
    assert found == []


def imports_of_tests(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        match node:
            case ast.Import(names=names):
                modules = [name.name for name in names]
            case ast.ImportFrom(module=module, names=names):
                modules = [f"{module or ''}.{name.name}" for name in names]
            case _:
                continue
        yield from (module for module in modules if TEST_MODULE.search(module))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "from tests.check.facts.test_cuts import NAMES",
            ["tests.check.facts.test_cuts.NAMES"],
        ),
        ("import tests.check.facts.test_cuts as cuts", ["tests.check.facts.test_cuts"]),
        ("from tests.check.facts import samples, test_cuts", ["tests.check.facts.test_cuts"]),
        ("from . import test_cuts", [".test_cuts"]),
        ("from tests.support.copy_tasks import SOURCE", []),
    ],
)
def test_an_import_from_a_test_is_found(tmp_path: Path, line: str, found: list[str]) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(f"def later() -> None:\n    {line}\n")
    assert list(imports_of_tests(sample)) == found


def test_the_package_imports_no_test() -> None:
    """It is installed without them."""
    found = [
        (relative(path), node.module)
        for path in [*of_type(".py", "ledger"), *of_type(".py", "jobs")]
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tests"
    ]
    assert found == []


def test_license_is_apache_2() -> None:
    assert hashlib.sha256((CHECKOUT / "LICENSE").read_bytes()).hexdigest() == APACHE_LICENSE_SHA256


def test_the_wheel_has_every_file_of_the_package_and_starts_without_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CHECKOUT)
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(tmp_path / build_wheel(str(tmp_path))) as wheel:
        wheel.extractall(unpacked)
    shipped = {str(path.relative_to(unpacked)): path for path in unpacked.rglob("*") if path.is_file()}
    of_queries = {path for path in tracked() if path.parent == CHECKOUT / "queries"}
    of_package = {path for path in tracked() if relative(path).startswith("ledger/")}
    expected = {relative(path): path for path in of_package}
    expected |= {f"ledger/{relative(path)}": path for path in of_queries}
    assert {Path(name).suffix for name in expected} >= {".py", ".md", ".sql", ".json", ".properties", ".sh"}
    of_wheel = {name: path for name, path in shipped.items() if ".dist-info/" not in name}
    assert set(of_wheel) == set(expected)
    assert [name for name, path in of_wheel.items() if path.read_bytes() != expected[name].read_bytes()] == []

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env={"PYTHONPATH": str(unpacked), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )

    assert run("-c", "import ledger; print(*ledger.__path__)").stdout.strip() == str(unpacked / "ledger")
    listed = run("-m", "ledger.cli.main", "query", "--list")
    assert (listed.returncode, "offset_translation" in listed.stdout) == (0, True), listed.stderr
    (tmp_path / "mirror.toml").write_text('[ledger]\npath = "ledger"\n')
    refused = run("-m", "ledger.cli.main", "--config", "mirror.toml", "status")
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False), refused.stderr


def test_a_message_of_several_lines_is_given_line_by_line() -> None:
    """What is printed of one line has no line feed: names of others may have some."""
    found = [
        f"{relative(module)}:{call.lineno}"
        for module in of_type(".py", "ledger")
        for call in ast.walk(parsed(module))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func).rpartition(".")[2] in ("say", "put_operation", *_ERRORS)
        and any("\n" in text for argument in call.args for text in _texts(argument))
    ]
    assert found == []


_ERRORS = {
    name for name, found in vars(errors).items() if isinstance(found, type) and issubclass(found, Exception)
}


def _texts(argument: ast.expr) -> Iterator[str]:
    for part in ast.walk(argument):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
