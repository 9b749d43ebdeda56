"""What a line says in a broker's place, frame by frame: requests that it does not know, refuses, or takes in part.

The broker is asked all the same, where that changes nothing, so that answers come in the order of requests; what it
answers is revised on the way back.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from kafka.errors import InvalidConfigurationError, PolicyViolationError
from kafka.protocol import admin, consumer, metadata, producer
from kafka.protocol.api_message import ApiMessage

from ledger.kafka.batches import read_unsigned, unsigned

_MODULES: tuple[ModuleType, ...] = (admin, consumer, metadata, producer)
_API_VERSIONS = 18
_FLEXIBLE_API_VERSIONS = 3
_CREATE_TOPICS, _INCREMENTAL_ALTER_CONFIGS = 19, 44
_ENTRY_BYTES = 6
_UNNAMED = "Topic settings violate the policy of this service"
Revise = Callable[[bytes], bytes]
"""An answer, without its length, as it is passed on."""


def _messages(kind: str) -> Mapping[int, Any]:
    found: list[Any] = [
        one for module in _MODULES for name, one in vars(module).items() if name.endswith(kind)
    ]
    return {one.API_KEY: one for one in found if issubclass(one, ApiMessage)}


_REQUESTS, _RESPONSES = _messages("Request"), _messages("Response")


@dataclass(frozen=True, slots=True)
class Refusals:
    """What a broker answers otherwise than Kafka: by key of a request.

    `newest`: the newest versions that it speaks; `unspoken`: what it does not know; `errors`: the error code that all
    of an answer has; `settings`: those that topics may be given, None: any; `names_settings`: whether it says which
    setting it was.
    """

    newest: Mapping[int, int] = field(default_factory=dict)
    unspoken: frozenset[int] = frozenset()
    errors: Mapping[int, int] = field(default_factory=dict)
    settings: frozenset[str] | None = None
    names_settings: bool = True

    def __bool__(self) -> bool:
        return bool(self.newest or self.unspoken or self.errors or self.settings is not None)

    def asked(self, frame: bytes) -> tuple[bytes, Revise | None]:
        """What the broker is asked, and how its answer is revised."""
        key, version = _short(frame, 0), _short(frame, 2)
        if key == _API_VERSIONS:
            return frame, lambda answer: self._less(answer, version)
        if (code := self.errors.get(key)) is not None:
            return _harmless(frame, key, version), lambda answer: _with_error(answer, key, version, code)
        if self.settings is not None and key in (_CREATE_TOPICS, _INCREMENTAL_ALTER_CONFIGS):
            return self._with_settings(frame, key, version)
        return frame, None

    def _less(self, answer: bytes, version: int) -> bytes:
        """An answer to ApiVersions; what lies behind its entries, and tags of each, stay as they are."""
        start = 4 + 2  # correlation id, error
        is_flexible = version >= _FLEXIBLE_API_VERSIONS
        if is_flexible:
            count, position = read_unsigned(answer, start)
            count -= 1
        else:
            count, position = int.from_bytes(answer[start : start + 4], "big"), start + 4
        kept = []
        for _ in range(count):
            entry = answer[position : position + _ENTRY_BYTES]
            position += _ENTRY_BYTES + is_flexible  # no tags: one byte
            if (api := _short(entry, 0)) not in self.unspoken:
                newest = min(_short(entry, 4), self.newest.get(api, _short(entry, 4)))
                kept.append(entry[:4] + newest.to_bytes(2, "big", signed=True) + bytes(is_flexible))
        length = unsigned(len(kept) + 1) if is_flexible else len(kept).to_bytes(4, "big")
        return answer[:start] + length + b"".join(kept) + answer[position:]

    def _with_settings(self, frame: bytes, key: int, version: int) -> tuple[bytes, Revise | None]:
        """A topic with a setting that is none of these is refused as a whole, and the broker not asked about it."""
        request = _REQUESTS[key].decode(frame, version=version, header=True)
        is_creation = key == _CREATE_TOPICS
        asked = request.topics if is_creation else request.resources
        judged = [(one, self._refused({of.name for of in one.configs})) for one in asked]
        left = [one for one, reason in judged if reason is None]
        if len(left) == len(asked):
            return frame, None
        if is_creation:
            request.topics = left
        else:
            request.resources = left
        code = (InvalidConfigurationError if self.names_settings else PolicyViolationError).errno

        def revise(answer: bytes) -> bytes:
            response = _RESPONSES[key].decode(answer, version=version, header=True)
            for one, reason in judged:
                if reason is None:
                    continue
                said = {"version": version, "error_code": code, "error_message": reason}
                if is_creation:
                    response.topics.append(response.CreatableTopicResult(name=one.name, **said))
                else:
                    said |= {"resource_type": one.resource_type, "resource_name": one.resource_name}
                    response.responses.append(response.AlterConfigsResourceResponse(**said))
            return bytes(response.encode(header=True))

        return bytes(request.encode(header=True)), revise

    def _refused(self, names: Collection[str]) -> str | None:
        assert self.settings is not None
        if not (others := sorted(set(names) - self.settings)):
            return None
        return f"Unknown topic config name: {others[0]}" if self.names_settings else _UNNAMED


def _short(frame: bytes, at: int) -> int:
    return int.from_bytes(frame[at : at + 2], "big", signed=True)


def _harmless(frame: bytes, key: int, version: int) -> bytes:
    """The request so that it changes nothing, where it can be asked so."""
    if key not in _REQUESTS or "validate_only" not in _REQUESTS[key].fields:
        return frame
    request = _REQUESTS[key].decode(frame, version=version, header=True)
    request.validate_only = True
    return bytes(request.encode(header=True))


def _with_error(answer: bytes, key: int, version: int, code: int) -> bytes:
    response = _RESPONSES[key].decode(answer, version=version, header=True)
    for part in _parts(response):
        if "error_code" in part.fields:
            part.error_code = code
    return bytes(response.encode(header=True))


def _parts(message: Any) -> Iterator[Any]:
    yield message
    for name in message.fields:
        value = getattr(message, name)
        for one in value if isinstance(value, list) else ():
            if hasattr(one, "fields"):
                yield from _parts(one)


class Conversation:
    """The frames of one connection, both ways; `refused` are keys of requests that something else was answered to."""

    def __init__(self, refusals: Refusals, refused: set[int]) -> None:
        self._refusals = refusals
        self._refused = refused
        self._revised: dict[bytes, Revise] = {}

    async def asked(self, reader: asyncio.StreamReader) -> bytes:
        """The next request with its length, as it is passed on; empty at the end."""
        if not (frame := await _frame(reader)):
            return frame
        frame, revise = self._refusals.asked(frame)
        if revise is not None:
            self._revised[frame[4:8]] = revise
            self._refused.add(_short(frame, 0))
        return len(frame).to_bytes(4, "big") + frame

    async def answered(self, reader: asyncio.StreamReader) -> bytes:
        """The next answer; empty at the end."""
        if not (frame := await _frame(reader)):
            return frame
        if (revise := self._revised.pop(frame[:4], None)) is not None:
            frame = revise(frame)
        return len(frame).to_bytes(4, "big") + frame


async def _frame(reader: asyncio.StreamReader) -> bytes:
    try:
        size = await reader.readexactly(4)
        return await reader.readexactly(int.from_bytes(size, "big"))
    except asyncio.IncompleteReadError:
        return b""
