"""Tokens that AWS's library signs: a broker that the test starts verifies the signature as AWS documents it.

No broker of AWS is asked: `IamVerifier.java` is the broker's side, and knows one pair of keys.
"""

import importlib.util
import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from ledger import jvm
from ledger.clock import SystemClock
from ledger.doctor.checks import Check, Verdict
from ledger.errors import MirrorLedgerError, Trouble
from ledger.kafka import tokens
from ledger.kafka.admin import KafkaAdmin
from ledger.sandbox import ListenerSecurity, Sandbox, state
from ledger.sandbox.brokers import kafka_jars
from tests.support.checkout import CHECKOUT
from tests.support.copies import Pair, config_of
from tests.support.guarded import Login, lines_of
from tests.support.mirrors import Mirror

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("aws_msk_iam_sasl_signer") is None, reason="not installed: the extra [iam]"
)
LOGIN: Login = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "AWS_MSK_IAM"}
_BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def verifier(folder: Path) -> Path:
    """An archive that a broker finds as an agent of its JVM."""
    bin_, classes = jvm.check_java().parent, folder / "classes"
    jars = os.pathsep.join(map(str, kafka_jars()))
    source = CHECKOUT / "tests" / "support" / "IamVerifier.java"
    compiled = [str(bin_ / "javac"), "-cp", jars, "-d", str(classes), str(source)]
    subprocess.run(compiled, check=True, capture_output=True)
    (folder / "manifest").write_text("Premain-Class: IamVerifier\n")
    jar = folder / "verifier.jar"
    packed = [str(bin_ / "jar"), "cfm", str(jar), str(folder / "manifest"), "-C", str(classes), "."]
    subprocess.run(packed, check=True, capture_output=True)
    return jar


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Where tokens are asked for, and where nobody is asked anything."""
    folder, secret = tmp_path_factory.mktemp("iam"), uuid.uuid4().hex
    here = "listener.name.client."
    with ExitStack() as stack:
        environment = stack.enter_context(pytest.MonkeyPatch.context())
        agent = f"-javaagent:{verifier(folder)} -Diam.keys=AKIATEST={secret}"
        environment.setenv("JAVA_TOOL_OPTIONS", agent)
        keys = {
            "AWS_ACCESS_KEY_ID": "AKIATEST",
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_REGION": "eu-central-1",
        }
        for name, value in {**keys, "AWS_EC2_METADATA_DISABLED": "true"}.items():
            environment.setenv(name, value)
        security = ListenerSecurity(
            "SASL_PLAINTEXT",
            {
                f"{here}sasl.enabled.mechanisms": "OAUTHBEARER",
                f"{here}oauthbearer.sasl.jaas.config": f"{_BEARER} required;",
                f"{here}oauthbearer.sasl.server.callback.handler.class": "IamVerifier",
            },
        )
        sandbox = Sandbox(folder / "sandbox")
        stack.callback(sandbox.down)
        cluster = sandbox.up(["solo"], 1, security={"solo": security})["solo"]
        records = state.load(sandbox.root)
        assert records is not None
        yield cluster.bootstrap_servers, f"127.0.0.1:{records['solo'].nodes[0].ports.internal}"


def test_tokens_that_aws_library_signs_let_the_mirror_in(brokers: tuple[str, str], tmp_path: Path) -> None:
    servers, open_ = brokers
    sides = ("source", "target")
    with Pair(dict.fromkeys(sides, open_), dict.fromkeys(sides, servers), login=LOGIN) as pair:
        pair.produce(300)
        pair.run()
        assert pair.assert_same() == 300
        with closing(KafkaAdmin("solo", config_of("solo", servers, LOGIN), SystemClock())) as admin:
            assert pair.topics["source"] in admin.topics()
    mirror = Mirror.of(tmp_path, {"east": servers, "west": servers}, "orders", properties=lines_of(LOGIN))
    rows = {row.check: row for row in mirror.examined()}
    assert rows[Check.BOOTSTRAP_ADDRESS].verdict is Verdict.OK


def test_wrong_keys_and_none_are_one_cause_each(
    brokers: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> Trouble | None:
        tokens._region_tokens.cache_clear()
        admin = KafkaAdmin("solo", config_of("solo", brokers[0], LOGIN), SystemClock(), timeout_s=5)
        with closing(admin), pytest.raises(MirrorLedgerError) as refused:
            admin.topics()
        return refused.value.trouble

    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    assert told() is Trouble.TOKEN
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    assert told() is Trouble.AWS
    tokens._region_tokens.cache_clear()
