"""What a channel hands to its socket."""

import socket
from dataclasses import dataclass, field
from typing import cast

from ledger.kafka.channel import Channel
from ledger.kafka.connection import Address, BrokerConnection


@dataclass
class CountedSocket:
    """The calls of a real one."""

    socket: socket.socket
    sent: list[int] = field(default_factory=list)

    def setblocking(self, flag: bool) -> None:
        self.socket.setblocking(flag)

    def send(self, data: memoryview) -> int:
        self.sent.append(self.socket.send(data))
        return self.sent[-1]


@dataclass(frozen=True)
class Connected:
    socket: CountedSocket
    address: Address


def test_small_parts_of_a_request_are_sent_together_and_large_ones_as_they_lie() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        counted = CountedSocket(ours)
        channel = Channel(cast("BrokerConnection", Connected(counted, Address("127.0.0.1", 9092))))
        small = [b"%03d" % number for number in range(500)]
        large = memoryview(b"x" * 40_000)
        channel.send([*small, large, b"", *small])
        assert not channel.has_outgoing
        assert counted.sent == [1_500, 40_000, 1_500]
        theirs.settimeout(1.0)
        arrived = b""
        while len(arrived) < 43_000:
            arrived += theirs.recv(65_536)
    assert arrived == b"".join(small) + bytes(large) + b"".join(small)
