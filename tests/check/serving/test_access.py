"""Who may read what is served, and what a page may load and do: nothing that is not its own."""

import base64
import re
from pathlib import Path

import pytest

from ledger.config.file import load_config
from ledger.errors import ConfigurationError
from tests.support.asked_pages import Served, asked, seen
from tests.support.commands import command
from tests.support.operated import Operated

TOKEN = "a-token-of-32-characters-or-so-ok"
PATHS = ("/", "/metrics", "/health", "/style.css", "/flows/none", "/nowhere")


def basic(password: str, user: str = "anybody") -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    "shown",
    [
        None,
        "",
        "Bearer",
        "Bearer wrong",
        f"Bearer {TOKEN}x",
        basic("wrong"),
        basic("", TOKEN),
        "Basic !!",
        TOKEN,
    ],
)
def test_nothing_is_answered_without_the_token(flow: Operated, shown: str | None) -> None:
    served = Served(flow.config, token=TOKEN)
    given = {} if shown is None else {"authorization": shown}
    for path in PATHS:
        answer = served.page(path, **given)
        assert (answer.status, answer.text) == (401, "a token is needed\n"), path
        assert answer.headers["www-authenticate"].startswith("Basic ")


@pytest.mark.parametrize("shown", [f"Bearer {TOKEN}", f"bearer {TOKEN}", basic(TOKEN), basic(TOKEN, "")])
def test_the_token_lets_in(flow: Operated, shown: str) -> None:
    served = Served(flow.config, token=TOKEN)
    assert served.page("/", authorization=shown).status == 200
    assert served.page("/nowhere", authorization=shown).status == 404


def test_every_answer_forbids_what_is_not_its_own(flow: Operated) -> None:
    served = Served.of(flow.config)
    for path in PATHS:
        headers = served.page(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "script-src" not in policy
        assert "unsafe" not in policy
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store"), path


def test_a_page_needs_nothing_from_elsewhere(flow: Operated) -> None:
    served = Served.of(flow.config)
    for path in ("/", *(link for link in seen(served.page("/")).links if link.startswith("/flows/"))):
        page = seen(served.page(path))
        assert "script" not in page.tags
        assert [name for name, _ in page.attributes if name.startswith("on") or name == "style"] == []
        assert not re.search(r"https?:|//", " ".join(page.links)), page.links


def test_another_name_is_refused(flow: Operated) -> None:
    served = Served(flow.config)
    for host in ("evil.example", "evil.example:8480", "127.0.0.1.evil.example", ""):
        assert served.page("/", host=host).status == 400, host


def test_own_names_and_those_of_a_proxy_are_answered(flow: Operated) -> None:
    served = Served(flow.config, hosts=("mirror.example.com",))
    for host in ("127.0.0.1:8480", "localhost:8480", "[::1]:8480", "mirror.example.com"):
        assert served.page("/", host=host).status == 200, host


def test_of_all_addresses_any_name_may_be_asked_with_the_token(flow: Operated) -> None:
    served = Served(flow.config, token=TOKEN, listen="0.0.0.0:8480")
    assert served.page("/", host="node-7:8480", authorization=f"Bearer {TOKEN}").status == 200


@pytest.mark.parametrize("section", ["metrics", "serve"])
@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('listen = "0.0.0.0:8480"', "other machines can reach 0.0.0.0:8480, so a token is needed"),
        ('listen = "[::]:8480"', "other machines can reach [::]:8480"),
        ('listen = "mirror.example.com:8480"', "other machines can reach"),
        ('listen = "8480"', "listen: is HOST:PORT, got '8480'"),
        ('listen = "127.0.0.1:99999"', "listen: is HOST:PORT"),
        ('token = "open"', "token: a secret is written as a reference"),
        ("color = 1", "color: unknown key"),
    ],
)
def test_a_configuration_that_lets_everybody_read_is_refused(
    flow: Operated, section: str, lines: str, problem: str
) -> None:
    file = Path(flow.config.file)
    file.write_text(f"{file.read_text(encoding='utf-8')}[{section}]\n{lines}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=re.escape(problem)):
        load_config(file)


@pytest.mark.parametrize("address", ["0.0.0.0:0", "somewhere", "192.0.2.1:8480"])
def test_the_command_refuses_addresses_that_others_reach(flow: Operated, address: str) -> None:
    done = command(flow.capture, flow.config, "serve", "--listen", address)
    assert (done.code, done.out) == (2, "")
    assert "nothing was served" in done.err


def test_a_token_that_is_not_there_is_an_error(flow: Operated) -> None:
    file = Path(flow.config.file)
    token = '[serve]\nlisten = "0.0.0.0:0"\ntoken = { file = "no-such-file" }\n'
    file.write_text(file.read_text(encoding="utf-8") + token, encoding="utf-8")
    done = command(flow.capture, flow.config, "serve")
    assert done.code == 2
    assert "no-such-file" in done.err


def test_other_methods_are_refused(flow: Operated) -> None:
    """Nothing can be changed here, so nothing is taken."""
    served = Served.of(flow.config)

    async def posted(scope: dict[str, object], receive: object, send: object) -> None:
        await served.application({**scope, "method": "POST"}, receive, send)

    for path in PATHS[:4]:
        assert asked(posted, path).status == 405
