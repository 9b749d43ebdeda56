"""What tests cost, as seconds of a processor: the dearest files and tests are named at the end of a run."""

import gc
import resource
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

SHOWN = 12
_BEGAN = pytest.StashKey[float]()
_COST = "processor_seconds"


def pytest_collection_finish() -> None:
    """Thousands of tests are there until the end: no collection of garbage looks at them again."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    item.stash[_BEGAN] = _used_s()
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """The last report of a test carries it to the process that prints the summary."""
    if call.when == "teardown":
        item.user_properties.append((_COST, _used_s() - item.stash[_BEGAN]))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    costs = Counter[str]()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "teardown":
                costs[report.nodeid] += dict(report.user_properties).get(_COST, 0.0)
    if len(costs) < SHOWN:
        return
    of_files = Counter[str]()
    for test, cost in costs.items():
        of_files[test.partition("::")[0]] += cost
    terminalreporter.section(f"seconds of a processor: {costs.total():.0f}")
    for name, cost in (*of_files.most_common(SHOWN), *costs.most_common(SHOWN)):
        terminalreporter.write_line(f"{cost:6.1f} {name}")


def _used_s() -> float:
    """Of this process, and of those that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
