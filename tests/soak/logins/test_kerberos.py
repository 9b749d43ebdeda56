"""Kerberos by a keytab: the copy, administration and doctor, at a broker and a KDC that the test starts."""

import importlib.util
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from ledger.clock import SystemClock
from ledger.doctor.checks import Check, Verdict
from ledger.errors import MirrorLedgerError, Trouble
from ledger.kafka.admin import KafkaAdmin
from ledger.sandbox import ListenerSecurity, Sandbox, state
from tests.support.copies import Pair, config_of
from tests.support.guarded import Login, lines_of
from tests.support.kerberos_servers import REALM, Kdc, kdc, missing
from tests.support.mirrors import Mirror

_ABSENT = "the extra [kerberos]" if importlib.util.find_spec("gssapi") is None else missing()
pytestmark = pytest.mark.skipif(_ABSENT is not None, reason=f"not installed: {_ABSENT}")


@dataclass(frozen=True)
class Realm:
    """A broker that takes tickets, and who gives them. `open`: where everybody may do everything."""

    kdc: Kdc
    servers: str
    open: str

    def login(self, principal: str, keytab: Path) -> Login:
        return {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.kerberos.principal": f"{principal}@{REALM}",
            "sasl.kerberos.keytab": str(keytab),
        }


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    folder = tmp_path_factory.mktemp("realm")
    with ExitStack() as stack:
        giving = stack.enter_context(kdc(folder))
        environment = stack.enter_context(pytest.MonkeyPatch.context())
        environment.setenv("KRB5_CONFIG", str(giving.settings))
        environment.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={giving.settings}")
        keytab = giving.keytab("kafka/127.0.0.1")
        login = (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{keytab}" principal="kafka/127.0.0.1@{REALM}";'
        )
        security = ListenerSecurity(
            "SASL_PLAINTEXT",
            {
                "listener.name.client.sasl.enabled.mechanisms": "GSSAPI",
                "listener.name.client.gssapi.sasl.jaas.config": login,
                "listener.name.client.sasl.kerberos.service.name": "kafka",
                "listener.name.client.connections.max.reauth.ms": "2000",
            },
        )
        sandbox = Sandbox(folder / "sandbox")
        stack.callback(sandbox.down)
        cluster = sandbox.up(["solo"], 1, security={"solo": security})["solo"]
        records = state.load(sandbox.root)
        assert records is not None
        yield Realm(giving, cluster.bootstrap_servers, f"127.0.0.1:{records['solo'].nodes[0].ports.internal}")


def test_a_keytab_lets_the_mirror_in_for_longer_than_a_login_lasts(realm: Realm, tmp_path: Path) -> None:
    login = realm.login("mirror", realm.kdc.keytab("mirror"))
    sides = ("source", "target")
    with (
        Pair(dict.fromkeys(sides, realm.open), dict.fromkeys(sides, realm.servers), login=login) as pair,
        closing(KafkaAdmin("solo", config_of("solo", realm.servers, login), SystemClock())) as admin,
    ):
        pair.produce(300)
        (result,) = pair.run(seconds=5, to_the_end=False)
        assert result.stop is None
        assert pair.topics["source"] in admin.topics()
        pair.produce(100, start=300)
        pair.run()
        assert pair.assert_same() == 400
        assert not any(sync.recovered for sync in pair.syncs)
    servers = {"east": realm.servers, "west": realm.servers}
    mirror = Mirror.of(tmp_path, servers, "orders", properties=lines_of(login))
    rows = {row.check: row for row in mirror.examined()}
    assert rows[Check.BOOTSTRAP_ADDRESS].verdict is Verdict.OK


def test_each_trouble_is_one_cause(realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(login: Login) -> Trouble | None:
        admin = KafkaAdmin("solo", config_of("solo", realm.servers, login), SystemClock(), timeout_s=5)
        with closing(admin), pytest.raises(MirrorLedgerError) as refused:
            admin.topics()
        assert "\n" not in str(refused.value)
        return refused.value.trouble

    old = realm.kdc.keytab("former")
    realm.kdc.keytab("former")
    assert told(realm.login("former", old)) is Trouble.KERBEROS
    assert told(realm.login("somebody", old)) is Trouble.KERBEROS
    assert told(realm.login("former", tmp_path / "absent.keytab")) is Trouble.KERBEROS
    good = realm.login("mirror", realm.kdc.keytab("mirror"))
    assert told({**good, "sasl.kerberos.service.name": "other"}) is Trouble.KERBEROS
    away = tmp_path / "krb5.conf"
    text = realm.kdc.settings.read_text()
    away.write_text("\n".join("kdc = 127.0.0.1:1" if "kdc =" in line else line for line in text.splitlines()))
    monkeypatch.setenv("KRB5_CONFIG", str(away))
    assert told(realm.login("late", realm.kdc.keytab("late"))) is Trouble.KDC
