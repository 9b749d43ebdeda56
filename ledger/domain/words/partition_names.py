"""Many partitions in few words: numbers as ranges, partitions by topic."""

from collections import defaultdict
from collections.abc import Iterable, Sequence


def number_ranges(numbers: Iterable[int]) -> str:
    """Numbers in order, neighbours together: `0-3, 7`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def of_topic(topic: str, numbers: Sequence[int]) -> str:
    """Partitions of one topic: `orders partition 1`, `orders partitions 0-3, 7`."""
    return f"{topic} partition{'s' if len(set(numbers)) > 1 else ''} {number_ranges(numbers)}"


def by_topic(partitions: Iterable[tuple[str, int]]) -> str:
    """Partitions of several topics: `events partition 0; orders partitions 0-3, 7`."""
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        numbers[topic].append(partition)
    return "; ".join(of_topic(topic, numbers[topic]) for topic in sorted(numbers))
