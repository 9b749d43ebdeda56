"""How far the times of records may be from the broker's: two settings of a topic since Kafka 3.6, one before.

Everybody else knows the two. A broker that has only the one is found out by what it answers, not by its version; its
one bound is read as both, and both are written as the one.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar
from weakref import WeakKeyDictionary

from kafka.net.manager import KafkaConnectionManager

_BEFORE, _AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
_BOTH_WAYS = "message.timestamp.difference.max.ms"
_one_bound: WeakKeyDictionary[KafkaConnectionManager, bool] = WeakKeyDictionary()
Value = TypeVar("Value", str, str | None)


def has_one_bound(manager: KafkaConnectionManager) -> bool | None:
    """Whether the cluster behind these connections has only the one; None: not known yet."""
    return _one_bound.get(manager)


def note_bounds(manager: KafkaConnectionManager, *, one: bool) -> None:
    """What the cluster has answered; new connections ask again, for brokers are upgraded."""
    _one_bound[manager] = one


def has_bounds(settings: Iterable[str]) -> bool:
    """Whether one of the two is among these names."""
    return any(name in (_BEFORE, _AFTER) for name in settings)


def is_of_one_bound(names: Iterable[str]) -> bool:
    """Whether all settings of a topic, by these names, are those of a broker that has only the one."""
    return _is_of_one_bound(set(names))


def _is_of_one_bound(names: Collection[str]) -> bool:
    return _BOTH_WAYS in names and _BEFORE not in names


def in_two_bounds(settings: Mapping[str, str], *, among: Collection[str]) -> dict[str, str]:
    """Settings that were read, some of all of the topic that are `among`."""
    found = dict(settings)
    if _is_of_one_bound(among) and (value := found.pop(_BOTH_WAYS, None)) is not None:
        found |= {_BEFORE: value, _AFTER: value}
    return found


def in_one_bound(settings: Mapping[str, Value]) -> dict[str, Value]:
    """Settings to be written, None: removed. Of two different bounds the narrower one."""
    found = {name: value for name, value in settings.items() if name not in (_BEFORE, _AFTER)}
    bounds = [settings[name] for name in (_BEFORE, _AFTER) if name in settings]
    if bounds:
        found[_BOTH_WAYS] = min(bounds, key=lambda value: float("inf") if value is None else int(value))
    return found
