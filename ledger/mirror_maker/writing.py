"""The text of a configuration: every choice with its reason, ready to be read by `ledger.config`."""

import json
from collections.abc import Iterable, Iterator
from textwrap import wrap

from ledger.config.values import SecretReference
from ledger.mirror_maker.choices import Choice, Translation, Value
from ledger.mirror_maker.keys import Verdict

_WIDTH = 116
_PLAIN_KEYS = ("bootstrap_servers",)


def configuration_text(translation: Translation, files: Iterable[str]) -> str:
    """A whole file; where something has to be written by hand a comment stands in its place."""
    clusters = "-and-".join(cluster.name for cluster in translation.clusters)
    parts = [
        "\n".join(
            [
                *_comment(f"Imported from MirrorMaker 2: {', '.join(files)}."),
                *_comment("`mirror-ledger doctor` says whether all that it needs is there."),
                "",
                "[ledger]",
                *_comment(
                    "Where the ledger lies; MirrorMaker has none. Choose a place that outlives the source."
                ),
                f"path = {_text(f'ledger-of-{clusters}')}",
            ]
        )
    ]
    for cluster in translation.clusters:
        parts.append(
            "\n".join([f"[clusters.{_key(cluster.name)}]", *_lines(cluster.choices, of_client=True)])
        )
    for flow in translation.flows:
        parts.append("\n".join([f"[flows.{_key(flow.name)}]", *_lines(flow.choices, of_client=False)]))
    return "\n\n".join(parts) + "\n"


def _lines(choices: Iterable[Choice], *, of_client: bool) -> Iterator[str]:
    for choice in choices:
        if not choice.is_shown:
            continue
        origin = ", ".join(dict.fromkeys(f"{entry.key} ({entry.where})" for entry in choice.entries))
        said = " - ".join(filter(None, (origin, choice.remark)))
        if choice.verdict is Verdict.NOT_YET:
            said = f"NOT YET: {said}"
        yield from _comment(said)
        key = choice.key if not of_client or choice.key in _PLAIN_KEYS else _text(choice.key)
        yield f"# {key} = ..." if choice.value is None else f"{key} = {_value(choice.value)}"


def _comment(text: str) -> list[str]:
    return (
        [f"# {line}" for line in wrap(" ".join(text.split()), _WIDTH, break_long_words=False)] if text else []
    )


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _text(name)


def _value(value: Value) -> str:
    if isinstance(value, SecretReference):
        return (
            f"{{ env = {_text(value.env)} }}"
            if value.env is not None
            else f"{{ file = {_text(str(value.file))} }}"
        )
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return str(value)
    return f"[{', '.join(_element(element) for element in value)}]"


def _element(element: str | tuple[str, str]) -> str:
    if isinstance(element, str):
        return _text(element)
    return f"{{ match = {_text(element[0])}, to = {_text(element[1])} }}"


def _text(text: str) -> str:
    """A string of TOML; without escapes where it has backslashes, as expressions do."""
    if "\\" in text and "'" not in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
