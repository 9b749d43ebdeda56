"""How tasks hand rounds over to their driver while they copy: a connection of each task to the driver.

Spark brings results when a task ends, and not before. So the driver listens where its executors reach it anyway
(`spark.driver.host`). Both ends prove that they know the token of the job, which travels with its tasks, before
anything of the other is read.

Anybody else may reach that port as well. Who has proved nothing yet has little time, and is cut off when many have come
since; so it takes few files and threads of the driver, and a task, which proves itself at once, comes through.
"""

import secrets
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

from ledger.mirror.assignment import Assignment
from ledger.mirror.continuing import JobRounds, Last, Results, Turn

_CONNECT_TIMEOUT_S = 3.0
_READ_EVERY_S = 0.02
_READ_WITHIN_S = 5.0
_PROVE_WITHIN_S = 10
_MOST_UNPROVED = 32
_ACCEPT_PAUSE_S = 0.1
_LOST = (OSError, EOFError, AuthenticationError)


# A task's end -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DriverAddress:
    """Where the tasks of a job find their driver; picklable."""

    host: str
    port: int
    token: bytes = field(repr=False)

    @contextmanager
    def contact(self, index: int) -> Iterator["TaskContact | None"]:
        """For an attempt of a share; None where the driver cannot be reached."""
        try:
            connection = self._connect()
        except _LOST:
            yield None
            return
        with connection:
            try:
                connection.send(index)
                contact = TaskContact(connection, connection.recv())
                _limit(connection, 0)
            except _LOST:
                contact = None
            yield contact

    def _connect(self) -> "Connection[object, object]":
        opened = socket.create_connection((self.host, self.port), timeout=_CONNECT_TIMEOUT_S)
        opened.settimeout(None)
        connection = _over(opened)
        try:
            answer_challenge(connection, self.token)
            deliver_challenge(connection, self.token)
        except BaseException:
            connection.close()
            raise
        return connection


class TaskContact:
    """Implements `Contact`. `turn`: what the attempt is to copy."""

    def __init__(self, connection: "Connection[object, object]", turn: object) -> None:
        assert isinstance(turn, Turn)
        self.turn = turn
        self.handed_over = turn.handed_over
        self._connection = connection
        self._recorded = 0
        self._is_to_end = False
        self._read_at = float("-inf")

    def is_to_end(self) -> bool:
        """Asked in each turn of a task's loop, so the connection is not read each time."""
        now = time.monotonic()
        if now >= self._read_at + _READ_EVERY_S:
            self._read_at = now
            self._read()
        return self._is_to_end

    def hand_over(self, results: Results) -> bool:
        self._read()
        if self._is_to_end or self._recorded < self.handed_over:
            return False
        try:
            self._connection.send(results)
        except OSError:
            self._is_to_end = True
            return False
        self.handed_over += 1
        return True

    def _read(self) -> None:
        """The driver says how many rounds are recorded, and None when the task is to end."""
        try:
            while not self._is_to_end and self._connection.poll(0):
                said = self._connection.recv()
                self._is_to_end = said is None
                self._recorded = said if isinstance(said, int) else self._recorded
        except (OSError, EOFError):
            self._is_to_end = True


# The driver's end -----------------------------------------------------------------------------------


class ListeningJob:
    """Implements `CopyJob`. `collected`: what the tasks came to last, once all have ended.

    A task that ends has all others end: what comes next is another job's.
    """

    def __init__(self, rounds: JobRounds, *, host: str, bind: str, seconds: float) -> None:
        self.seconds = seconds
        self._rounds = rounds
        self._token = secrets.token_bytes(32)
        self._listener = socket.create_server((bind, 0))
        self.address = DriverAddress(host, self._listener.getsockname()[1], self._token)
        self._changed = threading.Condition()
        self._connections: dict[int, Connection[object, object]] = {}
        """By share, of its last attempt."""
        self._unproved: deque[Connection[object, object]] = deque()
        """In the order in which they came."""
        self._over: Future[list[Last]] = Future()
        self._is_over = False
        threading.Thread(target=self._listen, name="copy-job", daemon=True).start()

    def begin(self, collect: Callable[[], list[Last]]) -> None:
        """Run the tasks, on a thread of its own."""
        threading.Thread(target=self._collect, args=(collect,), name="copy-tasks", daemon=True).start()

    def _collect(self, collect: Callable[[], list[Last]]) -> None:
        try:
            self._over.set_result(collect())
        except BaseException as error:  # noqa: BLE001  raised where the job is waited for
            self._over.set_exception(error)
        with suppress(OSError):
            self._listener.shutdown(
                socket.SHUT_RDWR
            )  # who waits for connections hears of it, other than of a close
        self._listener.close()
        with self._changed:
            self._changed.notify_all()

    # -- what the driver asks ----------------------------------------------------------------------

    @property
    def shares(self) -> list[list[Assignment]]:
        return self._rounds.shares

    @property
    def is_over(self) -> bool:
        return self._is_over

    def next_round(self) -> Results:
        with self._changed:
            self._changed.wait_for(lambda: self._rounds.is_complete or self._over.done())
            if (
                not self._rounds.is_complete
            ):  # what tasks that have ended said before that is still being read
                self._changed.wait_for(lambda: not self._connections, _READ_WITHIN_S)
        if self._rounds.is_complete or (not self._over.exception() and self._rounds.are_waiting):
            return self._rounds.next()
        self._is_over = True
        return self._rounds.last(self._over.result())

    def recorded(self) -> None:
        self._rounds.recorded = self._rounds.taken
        self._say(self._rounds.recorded)

    def end(self) -> None:
        self._rounds.is_to_end = True
        self._say(None)

    def abandon(self) -> None:
        self.end()
        self._over.exception()
        self._is_over = True

    def _say(self, word: int | None) -> None:
        with self._changed:
            for connection in self._connections.values():
                with suppress(OSError):
                    connection.send(word)

    # -- what tasks say ----------------------------------------------------------------------------

    def _listen(self) -> None:
        while not self._over.done():
            try:
                opened, _ = self._listener.accept()
                connection = _over(opened)
                with self._changed:
                    self._unproved.append(connection)
                    if len(self._unproved) > _MOST_UNPROVED:
                        _cut(self._unproved.popleft())
                threading.Thread(
                    target=self._serve, args=(connection,), name="copy-task", daemon=True
                ).start()
            except (OSError, RuntimeError):  # closed, or no file or thread is left at present
                time.sleep(_ACCEPT_PAUSE_S)

    def _serve(self, connection: "Connection[object, object]") -> None:
        """One attempt, to its end."""
        with connection, suppress(*_LOST):
            index = self._proved(connection)
            turn = self._greet(index, connection)
            with suppress(*_LOST):
                while self._rounds.take(turn, connection.recv()):  # type: ignore[arg-type]
                    with self._changed:
                        self._changed.notify_all()
            with self._changed:
                if self._rounds.is_current(turn):
                    del self._connections[index]
                    self.end()
                self._changed.notify_all()

    def _proved(self, connection: "Connection[object, object]") -> int:
        """Which share it is for, once both ends know of each other."""
        try:
            deliver_challenge(connection, self._token)
            answer_challenge(connection, self._token)
            index = connection.recv()
            _limit(connection, 0)
        finally:
            with self._changed, suppress(ValueError):
                self._unproved.remove(connection)
        assert isinstance(index, int)
        return index

    def _greet(self, index: int, connection: "Connection[object, object]") -> Turn:
        with self._changed:
            former = self._connections.get(index)
            turn = self._rounds.begin(index)
            connection.send(turn)
            if self._rounds.recorded:
                connection.send(self._rounds.recorded)
            if self._rounds.is_to_end:
                connection.send(None)
            self._connections[index] = connection
        if former is not None:
            _cut(former)
        return turn


def _over(opened: socket.socket) -> "Connection[object, object]":
    """Messages, each of which is sent at once; until more is known, none is waited for without end."""
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection: Connection[object, object] = Connection(opened.detach())
    _limit(connection, _PROVE_WITHIN_S)
    return connection


@contextmanager
def _line(connection: "Connection[object, object]") -> Iterator[socket.socket]:
    """What it goes over, which stays open."""
    line = socket.socket(fileno=connection.fileno())
    try:
        yield line
    finally:
        line.detach()


def _limit(connection: "Connection[object, object]", seconds: int) -> None:
    """To read and to write takes at most so long; 0: as long as it takes."""
    with _line(connection) as line:
        for one in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            line.setsockopt(socket.SOL_SOCKET, one, struct.pack("ll", seconds, 0))


def _cut(connection: "Connection[object, object]") -> None:
    """Both ends read its end; whoever reads from it closes it."""
    with suppress(OSError), _line(connection) as line:
        line.shutdown(socket.SHUT_RDWR)
