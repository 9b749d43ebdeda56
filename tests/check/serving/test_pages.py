"""Pages of a ledger: what they say is what `status` says, of now or said to be old, and names are only names."""

import html
import re
import shutil
import threading
import time
from dataclasses import replace

import pytest

from ledger.serving.reader import LedgerReader, Subject
from ledger.serving.web import Subjects
from tests.support.asked_pages import Served, raised, seen
from tests.support.hostile_names import HOSTILE, UNWRITABLE
from tests.support.operated import FLOW, Operated, mark_of_a_gone_process
from tests.support.served_changes import row
from tests.support.waiting import eventually

pytestmark = pytest.mark.long

MARKUP = (
    *("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "{% raw %}"),
    *("</style>", "&lt;b&gt;"),
)


def flow_path(served: Served, name: str = FLOW) -> str:
    """As the overview links it."""
    link = rf'<a href="(/flows/\w+)">{re.escape(name)}</a></h3>\s*<div class="arrow'
    [found] = re.findall(link, served.page("/").text)
    return str(found)


def test_the_overview_has_flows_with_lag_and_state(flow: Operated) -> None:
    page = seen(Served.of(flow.config).page("/"))
    assert "Nothing needs attention." in page.words
    assert re.search(r"east 30 records, at most \d.* mirroring west", page.words)
    assert "30 records, about 300 bytes, for at most" in page.words
    assert page.words.count("Lag in records : last 30 records") == 1


def test_what_needs_attention_comes_first_with_the_command_to_type(flow: Operated) -> None:
    flow.stopped("orders", 0, "lost")
    page = seen(Served.of(flow.config).page("/"))
    [told] = [one for one in flow.command("status", FLOW).out.splitlines() if "mirror-ledger resume" in one]
    assert "1 partition stopped since" in page.words
    assert told.strip() in page.words
    assert page.words.index("stopped since") < page.words.index("Flows")


def test_a_fence_that_is_broken_says_on_the_overview_what_to_do(flow: Operated) -> None:
    late = {"finding": "late_write", "topic": "orders", "cluster": "east"}
    said = {**late, "message": "a record was written", "next": "fence it again"}
    raised = (row("finding_raised", {**said, "partition": number}, f"late-{number}") for number in range(12))
    flow.append("operations", *({**one, "writer": "recorder:east"} for one in raised))
    words = seen(Served.of(flow.config).page("/")).words
    assert words.index("Next: fence it again") < words.index("Flows")
    assert words.count("Next: fence it again") == 10
    assert "2 lines more on the page of the flow" in words


def test_a_dead_driver_and_an_unknown_lag_are_said(idle: Operated) -> None:
    idle.writer("claimed", mark_of_a_gone_process())
    page = seen(Served.of(idle.config).page("/"))
    assert "its driver is dead" in page.words
    assert "east lag unknown driver dead west" in page.words
    assert "caught up" not in page.words


def test_a_flow_has_its_partitions_and_what_status_says(flow: Operated) -> None:
    flow.stopped("orders", 0, "lost")
    flow.lost("payments", 0, 7, 17)
    served = Served.of(flow.config)
    page = seen(served.page(flow_path(served)))
    assert re.search(
        r"orders 0 stopped: lost 30, at most \S+ s \S+ s? ?\w* ?ago 100 east\.orders", page.words
    )
    assert "lost, retention: 10 source offsets" in page.words
    assert "mirror-ledger resume" in page.words


def test_a_flow_that_nobody_has_is_not_found(flow: Operated) -> None:
    served = Served.of(flow.config)
    assert served.page("/flows/000000000000").status == 404
    assert served.page(f"/flows/{FLOW}").status == 404, "names are in no address"


def test_addresses_say_nothing_of_what_is_recorded(flow: Operated) -> None:
    served = Served.of(flow.config)
    links = {link for path in ("/", flow_path(served)) for link in seen(served.page(path)).links}
    assert not [link for link in links for name in (FLOW, "east", "orders") if name in link]


def test_names_are_text_whatever_they_say(idle: Operated) -> None:
    """Kafka has no such topics; rows may say so, and reasons may say anything."""
    names = (*HOSTILE, *UNWRITABLE, *MARKUP)
    idle.writer("claimed", mark_of_a_gone_process())
    idle.copied({(name, 0): 3 for name in names})
    for name in names:
        idle.stopped(name, 0, "lost")
        idle.operation("finding_raised", {"finding": "sequence_unusual", "topic": name, "message": name})
    served = Served.of(idle.config)
    for path in ("/", flow_path(served)):
        answer = served.page(path)
        page = seen(answer)
        assert {"script", "img", "iframe", "object", "form", "style"} & set(page.tags) == set()
        assert [key for key, _ in page.attributes if key.startswith("on")] == []
        assert not [one for one in answer.text if not (one.isprintable() or one == "\n")]
    words = seen(served.page(flow_path(served))).words
    printable = [name for name in names if name.isprintable() and name.strip()]
    assert [name for name in printable if " ".join(name.split()) not in words] == []
    assert len(printable) > 20
    assert served.samples() != {}, "names are text there as well"


def test_an_old_page_says_that_it_is_old(flow: Operated, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served.of(flow.config)
    assert "Not of now" not in seen(served.page("/")).words
    assert re.search(r"Ledger: as of \S+ \S+Z, \d+ s ago", seen(served.page("/")).words)
    shutil.move(flow.path, f"{flow.path}-elsewhere")
    monkeypatch.setattr(served.reader.clock, "monotonic", lambda: time.monotonic() + 3_600)
    served.reader.read_due()
    now_ms = served.reader.clock.now_ms()
    monkeypatch.setattr(served.reader.clock, "now_ms", lambda: now_ms + 600_000)
    words = seen(served.page("/")).words
    assert "Not of now. Ledger: as of" in words
    assert "10 min" in words
    assert "it cannot be read" in words
    assert served.page("/health").status == 503


def test_that_there_is_none_is_said_of_then_where_the_page_is_not_of_now(
    flow: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, late = Served.of(flow.config), 'class="age warn"'
    none = {"/": "Nothing needs attention.", "/changes": "No change of direction was planned yet."}
    for path, words in none.items():
        assert f"As of then: {words}" not in seen(served.page(path)).words
        assert late not in served.page(path).text
    now_ms = served.reader.clock.now_ms()
    monkeypatch.setattr(served.reader.clock, "now_ms", lambda: now_ms + 31_000)
    for path, words in none.items():
        assert f"As of then: {words}" in seen(served.page(path)).words
    assert late in served.page("/groups").text


def test_before_the_first_read_a_page_says_so(flow: Operated) -> None:
    served = Served(flow.config)
    assert "the ledger has not been read" in seen(served.page("/")).words
    assert "Clusters" not in seen(served.page("/")).words
    assert "Nothing needs attention" not in seen(served.page("/")).words
    assert served.page("/health").status == 503


def test_updates_can_be_stopped(flow: Operated) -> None:
    served = Served.of(flow.config)
    assert 'http-equiv="refresh"' in served.page("/").text
    still = served.page("/?still")
    assert 'http-equiv="refresh"' not in still.text
    assert html.unescape(still.text).count('href="/"') >= 1


def test_what_takes_long_to_read_keeps_nobody_waiting_for_the_rest(flow: Operated) -> None:
    """Where flows stand is read by a thread of its own."""
    let_go, fast_reads = threading.Event(), []
    subjects = {
        "slow": Subject("slow", lambda _ledger: let_go.wait(60), pause_s=0.0),
        "fast": Subject("fast", lambda ledger: fast_reads.append(ledger), pause_s=0.01, is_prompt=True),
    }
    reader = LedgerReader(flow.config, subjects, crashed=raised)
    reader.start()
    try:
        eventually(lambda: len(fast_reads) > 2, "it is read again and again")
        assert reader.of(subjects["slow"]).at_ms is None
        assert not reader.stop(timeout_s=0.05), "it is read still, and who serves knows it"
    finally:
        let_go.set()
        assert reader.stop()


def test_no_other_subject_keeps_changes_of_direction_waiting(flow: Operated) -> None:
    """Whoever carries one out looks at them when the machine is at its busiest."""
    let_go, subjects = threading.Event(), Subjects.every(0.01)
    slow = {
        name: replace(one, read=lambda _ledger: let_go.wait(60)) for name, one in subjects.by_name.items()
    }
    reader = LedgerReader(flow.config, {**slow, subjects.changes.name: subjects.changes}, crashed=raised)
    reader.start()
    try:
        eventually(lambda: reader.of(subjects.changes).value is not None, "they are read")
        assert reader.of(subjects.status).at_ms is None
    finally:
        let_go.set()
        assert reader.stop()
