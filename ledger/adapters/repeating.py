"""Something that is done again and again beside something else, in a thread of its own."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ledger.errors import MirrorLedgerError


@contextmanager
def repeated(act: Callable[[], None], *, every_s: float, failed: Callable[[str], None]) -> Iterator[None]:
    """Do it again and again for as long as the body takes, first after `every_s`.

    What it fails with is said at once (`failed`), and ends it: whoever does the same next fails by it too.
    """
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(every_s):
            try:
                act()
            except MirrorLedgerError as error:
                failed(str(error))
                return

    thread = threading.Thread(target=work, name="shown_alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
