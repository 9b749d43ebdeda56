"""How tests are shared out among xdist's workers.

Each worker has a broker pair and a Spark session of its own. Tests that share a dearer fixture (a cluster of
three brokers, a guarded one, a workload that was mirrored) stay together, so that it is made once. Tests without
brokers stay with those of their file: what a file keeps for its tests (`functools.cache`) is computed once. Long
ones of them are spread over those on brokers, which leave the cores idle while they wait.
"""

from itertools import groupby
from typing import Any

import pytest

from tests.support.checkout import CHECKOUT

SQL = "sql_on_spark"
"""Tests of `real` that have Spark and no broker: the first queries of a session take as long as a dozen later ones."""
PER_WORKER = {"broker_pair", "broker_pair_sandbox", "spark", "home"}
LONGEST_FIRST = {
    "check": ("changeover", "cli", "queries", "store", "offsets", "simulation", "answers", "repository"),
    "real": ("queries", "changeover", "end_to_end", "repository", "jobs", "faults"),
}
"""Folders of a tier whose tests take longest: what begins last is to be short, so that workers end together."""
SPREAD = 0.8
"""Of a run's tests on brokers, the part over which the others are spread, for the same reason."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_turn)
    items[:] = _spread(items)
    for item in items:
        if group := _shared_fixture(item):
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End what a worker's tests of one group shared: an idle broker takes a twentieth of a core from all others."""
    if not isinstance(item, pytest.Function) or nextitem is None or _place(item)[0] == "check":
        return
    request: Any = item._request  # pytest hands a fixture's own one, for the same hooks
    if _shared_fixture(item) != _shared_fixture(nextitem):
        for definition in _dear_fixtures(item).values():
            if definition.scope == "session":
                definition.finish(request)


def _turn(item: pytest.Item) -> tuple[bool, int]:
    """On real clusters groups come first: one lasts as long as all its tests, that of queries on Spark for minutes."""
    tier, folder = _place(item)
    first = LONGEST_FIRST.get(tier, ())
    is_alone = tier == "real" and _shared_fixture(item) is None
    return is_alone, first.index(folder) if folder in first else len(first)


def _spread(items: list[pytest.Item]) -> list[pytest.Item]:
    """In their order, but those of `check` evenly among the others, where a run has both."""
    of_check, others = list[list[pytest.Item]](), list[list[pytest.Item]]()
    for _, together in groupby(items, key=lambda item: _shared_fixture(item) or item.nodeid):
        tests = list(together)
        (of_check if _place(tests[0])[0] == "check" else others).append(tests)
    at = [(number / len(others), tests) for number, tests in enumerate(others)]
    at += [(SPREAD * number / len(of_check), tests) for number, tests in enumerate(of_check)]
    return [item for _, tests in sorted(at, key=lambda one: one[0]) for item in tests]


def _place(item: pytest.Item) -> tuple[str, str]:
    """The tier and the folder of a test."""
    tier, folder, *_ = item.path.relative_to(CHECKOUT / "tests").parts
    return tier, folder


def _shared_fixture(item: pytest.Item) -> str | None:
    """The dearest fixture of a test that others use too; None when it has only what each worker has.

    One that all files share, a cluster, goes before one of its file: else each file would start a cluster of its own.
    """
    if not isinstance(item, pytest.Function):
        return None
    if _place(item)[0] == "check":
        return str(item.path)
    names = {definition.scope: name for name, definition in reversed(_dear_fixtures(item).items())}
    if "session" in names:
        return names["session"]
    wanted = {"spark", "broker_pair"} & item._fixtureinfo.name2fixturedefs.keys()
    if _place(item)[0] == "real" and wanted == {"spark"}:
        return SQL
    return f"{item.path.stem}.{names['module']}" if "module" in names else None


def _dear_fixtures(item: pytest.Function) -> dict[str, pytest.FixtureDef[object]]:
    found = {name: definitions[-1] for name, definitions in item._fixtureinfo.name2fixturedefs.items()}
    return {
        name: definition
        for name, definition in found.items()
        if name not in PER_WORKER and definition.func.__module__.startswith("tests.")
    }
