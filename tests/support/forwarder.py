"""A bad line on loopback: forwards TCP to one broker, slowly, or not any more, or only one way.

One forwarder stands for one broker's far listener. What it does to the bytes can be changed while
connections are open; the methods may be called from any thread.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from ledger.sandbox import FarPorts
from tests.support.refusing import Conversation, Refusals
from tests.support.shops import beside

_CHUNK_BYTES = 16 * 1024
_BUFFER_BYTES = 64 * 1024  # small, so that a slow line is felt by whoever sends
_TICK_S = 0.01
Pieces = Callable[[], Awaitable[bytes]]
"""What is to be carried next; empty at the end."""


@dataclass
class Direction:
    """What happens to bytes that go one way; `carried` counts what was passed on."""

    delay_s: float = 0.0
    bytes_per_s: float | None = None
    discards: bool = False
    carried: int = 0
    _free_at: float = 0.0

    def due(self, size: int) -> float:
        """When a piece that came in now leaves: the line carries one piece after another."""
        now = time.monotonic()
        self._free_at = max(self._free_at, now) + (size / self.bytes_per_s if self.bytes_per_s else 0.0)
        return self._free_at + self.delay_s


@dataclass
class Forwarder:
    """Listens on `ports.advertised` and passes on to `ports.listens`; made and ended by `forwarding`."""

    ports: FarPorts
    up: Direction = field(default_factory=Direction)
    down: Direction = field(default_factory=Direction)
    accepted: int = 0
    refusals: Refusals = field(default_factory=Refusals)
    """As what other broker the one behind it seems to be, on connections that are made from then on."""
    refused: set[int] = field(default_factory=set)
    """Keys of requests that it answered in the broker's place."""
    _is_frozen: bool = False
    _lose_after: int | None = None
    _lose_for_s: float = 0.0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.ports.advertised}"

    def slow(self, *, round_trip_s: float = 0.0, bytes_per_s: float | None = None) -> None:
        """From now on, each way: half the round trip late, and no faster than this."""
        for way in (self.up, self.down):
            way.delay_s, way.bytes_per_s = round_trip_s / 2, bytes_per_s

    def freeze(self) -> None:
        """Half-open: connections stay, nothing is carried any more, new ones are accepted and ignored."""
        self._is_frozen = True

    def thaw(self) -> None:
        self._is_frozen = False

    def cut(self) -> None:
        """Close all connections."""
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(5)

    def refuse(self) -> None:
        """Close all connections, and listen no more: new ones are refused."""
        asyncio.run_coroutine_threadsafe(self._refuse(), self._loop).result(5)

    def accept(self) -> None:
        """Listen again."""
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(5)

    def lose_answers(self, *, after_bytes: int, for_s: float) -> None:
        """Once so many more bytes went to the broker: throw its answers away for a while, then cut."""
        self._lose_for_s = for_s
        self._lose_after = self.up.carried + after_bytes

    @property
    def has_lost_answers(self) -> bool:
        """Whether what `lose_answers` asked for has happened."""
        return self._lose_after is None and not self.down.discards

    async def _cut(self) -> None:
        for writer in list(self._writers):
            with suppress(OSError):
                writer.transport.abort()
        self._writers.clear()

    async def _serve(self, started: threading.Event, ended: asyncio.Event) -> None:
        await self._listen()
        started.set()
        await ended.wait()
        await self._refuse()
        await asyncio.sleep(_TICK_S)

    async def _listen(self) -> None:
        listener = socket.create_server(("127.0.0.1", self.ports.advertised))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        self._server = await asyncio.start_server(self._connected, sock=listener)

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._cut()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.add(writer)
        await self._thawed()
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.ports.listens)
        except OSError:
            writer.transport.abort()
            return
        self._writers.add(far_writer)
        try:
            asked, answered = self._pieces(reader, far_reader)
            await asyncio.gather(
                self._pump(asked, far_writer, self.up), self._pump(answered, writer, self.down)
            )
        except (OSError, asyncio.IncompleteReadError):
            pass
        for end in (writer, far_writer):
            end.transport.abort()
            self._writers.discard(end)

    def _pieces(
        self, reader: asyncio.StreamReader, far_reader: asyncio.StreamReader
    ) -> tuple[Pieces, Pieces]:
        """What is carried to the broker and back: bytes as they come, or frames where it seems to be another one."""
        if not self.refusals:
            return lambda: reader.read(_CHUNK_BYTES), lambda: far_reader.read(_CHUNK_BYTES)
        conversation = Conversation(self.refusals, self.refused)
        return lambda: conversation.asked(reader), lambda: conversation.answered(far_reader)

    async def _pump(self, pieces: Pieces, writer: asyncio.StreamWriter, way: Direction) -> None:
        """Read and write apart from each other, so that what is delayed does not hold up what follows."""
        on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=self._room(way))

        async def take_in() -> None:
            while piece := await pieces():
                await on_the_way.put((way.due(len(piece)), piece))
            await on_the_way.put((0.0, b""))

        async def hand_out() -> None:
            while True:
                due, piece = await on_the_way.get()
                if (early := due - time.monotonic()) > 0:
                    await asyncio.sleep(early)
                await self._thawed()
                if not piece:
                    raise ConnectionResetError
                if not way.discards:
                    writer.write(piece)
                    await writer.drain()
                way.carried += len(piece)
                self._lose_when_due()

        await asyncio.gather(take_in(), hand_out())

    def _room(self, way: Direction) -> int:
        """Pieces under way: a long line holds much, a narrow one little."""
        return 4 if way.bytes_per_s else 1_024

    async def _thawed(self) -> None:
        while self._is_frozen:
            await asyncio.sleep(_TICK_S)

    def _lose_when_due(self) -> None:
        if self._lose_after is None or self.up.carried < self._lose_after:
            return
        self._lose_after, self.down.discards = None, True
        self._loop.call_later(self._lose_for_s, lambda: self._loop.create_task(self._end_loss()))

    async def _end_loss(self) -> None:
        await self._cut()
        self.down.discards = False


async def _end_tasks() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


@contextmanager
def forwarding(ports: FarPorts) -> Iterator[Forwarder]:
    """A forwarder on a thread of its own; leaving ends it and its connections."""
    forwarder = Forwarder(ports)
    loop = forwarder._loop
    started, ended = threading.Event(), asyncio.Event()

    def work() -> None:
        try:
            loop.run_until_complete(forwarder._serve(started, ended))
            loop.run_until_complete(_end_tasks())
        finally:
            loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    assert started.wait(5)
    try:
        yield forwarder
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(10)


@contextmanager
def cut_every(forwarder: Forwarder, seconds: float) -> Iterator[None]:
    """Cut the line again and again while the body runs."""

    def work(ended: threading.Event) -> None:
        while not ended.wait(seconds):
            forwarder.cut()

    with beside(work):
        yield
