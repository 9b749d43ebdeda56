"""How clusters are reached: what is taken over, what is not yet, and that no secret appears anywhere."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import InvalidValueError
from ledger.mirror_maker.keys import Verdict
from ledger.mirror_maker.logins import jaas_options
from tests.support.maker_files import BASE, Imported, imported, of_lines

SECRET = "correct-horse-battery"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
LOGIN = ("a.security.protocol = SASL_SSL", "a.sasl.mechanism = SCRAM-SHA-512")


def table(found: Imported, name: str = "a") -> Mapping[str, Any]:
    return tomllib.loads(found.text)["clusters"][name]  # type: ignore[no-any-return]


def verdicts(found: Imported) -> Mapping[str, Verdict]:
    return {row.key: row.verdict for row in found.all_rows if row.where != "default"}


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("h:1", "h:1"),
        (" h:1 , i:2 ,", "h:1,i:2"),
        ("SASL_SSL://h.example:9093", "h.example:9093"),
        ("10.0.0.1:9092,[::1]:9092", "10.0.0.1:9092,[::1]:9092"),
    ],
)
def test_addresses(given: str, taken: str) -> None:
    found = imported(BASE.replace("a1:9092", given))
    assert table(found)["bootstrap_servers"] == taken
    assert found.config.cluster("a").bootstrap_servers == taken


@pytest.mark.parametrize("given", ["", "h", "h:port", "${NOBODY_SETS_THIS}"])
def test_an_address_that_is_none_has_to_be_written(given: str) -> None:
    found = imported(BASE.replace("a1:9092", given))
    assert "bootstrap_servers" not in table(found)
    assert found.rows["a.bootstrap.servers"].verdict is Verdict.NOT_YET


PLACEHOLDERS = (
    "${GIVEN}",
    "$GIVEN",
    "${env:GIVEN}",
    "${dir:FOLDER:given}",
    "${file:FOLDER/x.properties:given}",
)


@pytest.mark.parametrize("placeholder", PLACEHOLDERS)
def test_nothing_that_placeholders_stand_for_is_looked_up(
    placeholder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIVEN", SECRET)
    (tmp_path / "given").write_text(SECRET)
    (tmp_path / "x.properties").write_text(f"given = {SECRET}\n")
    given = placeholder.replace("FOLDER", str(tmp_path))
    provider = "org.apache.kafka.common.config.provider"
    lines = (
        BASE.replace("a1:9092", f"{given}.example:9092"),
        f"a.client.rack = {given}",
        f"a.ssl.truststore.location = {given}/trust",
        f"a->b.topics = {given}",
        f"config.providers.env.class = {provider}.EnvVarConfigProvider",
        f"config.providers.dir.class = {provider}.DirectoryConfigProvider",
        f"config.providers.file.class = {provider}.FileConfigProvider",
        "a.security.protocol = SSL",
    )
    found = imported("\n".join(lines))
    assert_hidden(found)
    keys = ("a.bootstrap.servers", "a.client.rack", "a.ssl.truststore.location")
    assert [found.rows[key].verdict for key in keys] == [Verdict.NOT_YET] * 3
    assert set(table(found)) == {"security.protocol"}
    for key in ("security.protocol", "sasl.mechanism"):
        found = of_lines(*LOGIN, f"a.{key} = {given}")
        assert (found.rows[f"a.{key}"].verdict, key in table(found)) == (Verdict.NOT_YET, False)


def test_the_rack_whose_replicas_the_source_consumer_reads() -> None:
    for key in ("a.client.rack", "a.consumer.client.rack"):
        found = of_lines(f"{key} = zone-1")
        assert (table(found)["client.rack"], found.rows[key].verdict) == ("zone-1", Verdict.TAKEN), key
        assert "client.rack" not in table(found, "b")
    found = of_lines("a.client.rack = zone-1", "a.consumer.client.rack = zone-2")
    assert table(found)["client.rack"] == "zone-2", "the consumer's own counts"
    found = of_lines("a.client.rack = ${NOBODY_SETS_THIS}")
    assert "client.rack" not in table(found)
    assert found.rows["a.client.rack"].verdict is Verdict.NOT_YET


def test_a_login_by_password() -> None:
    found = of_lines(
        *LOGIN,
        f'a.sasl.jaas.config = {SCRAM} required \\\n  username="mirror" \\\n  password="{SECRET}";',
    )
    assert dict(table(found)) == {
        "bootstrap_servers": "a1:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "mirror",
        "sasl.password": {"env": "A_SASL_PASSWORD"},
    }
    assert found.config.cluster("a").properties["sasl.username"] == "mirror"
    assert_hidden(found)


def assert_hidden(found: Imported) -> None:
    rows = json.dumps([[row.key, row.value, row.remark, row.taken_as] for row in found.all_rows])
    assert SECRET not in found.text + rows


@pytest.mark.parametrize(
    ("placeholder", "reference"),
    [
        ("${env:PASSWORD}", {"env": "PASSWORD"}),
        ("${PASSWORD}", {"env": "PASSWORD"}),
        ("${dir:/run/secrets:password}", {"file": "/run/secrets/password"}),
        ("${file:/etc/mirror/x.properties:password}", {"env": "A_SASL_PASSWORD"}),
        ("${vault:secret/x:password}", {"env": "A_SASL_PASSWORD"}),
    ],
)
def test_placeholders_of_secrets_become_references(placeholder: str, reference: Mapping[str, str]) -> None:
    providers = "org.apache.kafka.common.config.provider"
    found = of_lines(
        *LOGIN,
        f'a.sasl.jaas.config = {SCRAM} required username="u" password="{placeholder}";',
        "config.providers = env,dir,file",
        f"config.providers.env.class = {providers}.EnvVarConfigProvider",
        f"config.providers.dir.class = {providers}.DirectoryConfigProvider",
        f"config.providers.file.class = {providers}.FileConfigProvider",
    )
    assert table(found)["sasl.password"] == reference


SECRETS = (
    f"a.ssl.truststore.password = {SECRET}",
    f"a.ssl.keystore.password = {SECRET}",
    f"a.ssl.key.password = {SECRET} # change it",
    f"a.ssl.keystore.key = {SECRET}",
    f'a.sasl.jaas.config = {SCRAM} required username="u" password="{SECRET}"',
    f"a.sasl.jaas.config = {SCRAM} password={SECRET};",
    f"a.sasl.jas.config = {SCRAM} required username=u password={SECRET};",
    f'a.sasl.jaas.config = {SCRAM} required\n  username="u"\n  password="{SECRET}";',
    f"a.sasl.jaas.config = {SCRAM} required username=u \\\npassword=\n{SECRET};",
    f"a.sasl.oauthbearer.client.credentials.client.secret = {SECRET}",
    f"a.ssl.trustore.pasword = {SECRET}",
    f"password = {SECRET}",
    f"{SECRET}",
    f"{SECRET}:",
    f"status-{SECRET}",
    f"x.secret={SECRET}",
    f"a.producer.sasl.jaas.config = {SCRAM} required username=u password={SECRET};",
    f"tasks.max = password={SECRET}",
)


@pytest.mark.parametrize("line", SECRETS)
@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_SSL"])
def test_no_secret_is_printed(line: str, protocol: str) -> None:
    found = of_lines(f"a.security.protocol = {protocol}", "a.sasl.mechanism = SCRAM-SHA-256", line)
    assert_hidden(found)
    assert found.config


@pytest.mark.parametrize("kind", ["PEM", "JKS", "PKCS12"])
def test_stores_are_taken_as_they_are(kind: str) -> None:
    found = of_lines(
        "a.security.protocol = SSL",
        f"a.ssl.truststore.type = {kind}",
        "a.ssl.truststore.location = /etc/trust",
        f"a.ssl.truststore.password = {SECRET}",
        "a.ssl.keystore.location = /etc/key",
        f"a.ssl.keystore.password = {SECRET}",
        f"a.ssl.key.password = {SECRET}",
        "a.ssl.endpoint.identification.algorithm =",
    )
    assert {key: value for key, value in table(found).items() if key.startswith("ssl.")} == {
        "ssl.truststore.type": kind,
        "ssl.truststore.location": "/etc/trust",
        "ssl.truststore.password": {"env": "A_SSL_TRUSTSTORE_PASSWORD"},
        "ssl.keystore.location": "/etc/key",
        "ssl.keystore.password": {"env": "A_SSL_KEYSTORE_PASSWORD"},
        "ssl.key.password": {"env": "A_SSL_KEY_PASSWORD"},
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert set(verdicts(found).values()) == {Verdict.TAKEN}
    assert_hidden(found)


ENDPOINT = "https://login.example/token"
OAUTH = "org.apache.kafka.common.security.oauthbearer"
MODULE = f"{OAUTH}.OAuthBearerLoginModule required"
TOKENS = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": ENDPOINT,
    "sasl.oauthbearer.client.id": "mirror",
    "sasl.oauthbearer.client.secret": {"env": "A_SASL_OAUTHBEARER_CLIENT_SECRET"},
    "sasl.oauthbearer.scope": "kafka",
}


@pytest.mark.parametrize(
    ("lines", "taken"),
    [
        (
            (
                "a.sasl.mechanism = OAUTHBEARER",
                f"a.sasl.login.callback.handler.class = {OAUTH}.OAuthBearerLoginCallbackHandler",
                f"a.sasl.oauthbearer.token.endpoint.url = {ENDPOINT}",
                f'a.sasl.jaas.config = {MODULE} clientId="mirror" clientSecret="{SECRET}" scope="kafka";',
            ),
            TOKENS,
        ),
        (
            (
                "a.sasl.mechanism = OAUTHBEARER",
                f"a.sasl.oauthbearer.token.endpoint.url = {ENDPOINT}",
                "a.sasl.oauthbearer.client.credentials.client.id = mirror",
                f"a.sasl.oauthbearer.client.credentials.client.secret = {SECRET}",
                "a.sasl.oauthbearer.scope = kafka",
                f"a.sasl.jaas.config = {MODULE};",
            ),
            TOKENS,
        ),
        (
            (
                "a.sasl.mechanism = OAUTHBEARER",
                "a.sasl.login.callback.handler.class = "
                "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler",
                f'a.sasl.jaas.config = {MODULE} oauth.client.id="mirror" oauth.client.secret="{SECRET}" '
                f'oauth.token.endpoint.uri="{ENDPOINT}" oauth.scope="kafka";',
            ),
            TOKENS,
        ),
        (
            ("a.sasl.mechanism = OAUTHBEARER", "a.sasl.oauthbearer.token.endpoint.url = file:///run/token"),
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": "file:///run/token",
            },
        ),
        (
            (
                "a.sasl.jaas.config = com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
                'storeKey=true keyTab="/etc/mirror.keytab" principal="mirror@EXAMPLE.COM";',
                "a.sasl.kerberos.service.name = kafka",
            ),
            {
                "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
                "sasl.kerberos.principal": "mirror@EXAMPLE.COM",
                "sasl.kerberos.keytab": "/etc/mirror.keytab",
            },
        ),
        (
            (
                "a.sasl.mechanism = AWS_MSK_IAM",
                "a.sasl.client.callback.handler.class = software.amazon.msk.auth.iam.IAMClientCallbackHandler",
                "a.sasl.jaas.config = software.amazon.msk.auth.iam.IAMLoginModule required;",
            ),
            {"sasl.mechanism": "AWS_MSK_IAM"},
        ),
        (
            (
                "a.sasl.mechanism = OAUTHBEARER",
                "a.sasl.login.callback.handler.class = "
                "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
                f'a.sasl.jaas.config = {MODULE} awsProfileName="mirror";',
            ),
            {"sasl.mechanism": "AWS_MSK_IAM"},
        ),
    ],
    ids=["client", "client-of-4", "strimzi", "token-file", "kerberos", "aws", "aws-tokens"],
)
def test_other_logins_are_taken(lines: tuple[str, ...], taken: Mapping[str, object]) -> None:
    found = of_lines("a.security.protocol = SASL_SSL", *lines)
    assert {key: value for key, value in table(found).items() if key.startswith("sasl.")} == taken
    assert Verdict.NOT_YET not in verdicts(found).values()
    assert found.config.cluster("a").properties.keys() >= taken.keys()
    assert_hidden(found)


def test_a_profile_of_aws_is_named_and_a_role_has_to_be_written() -> None:
    module = "software.amazon.msk.auth.iam.IAMLoginModule required"
    found = of_lines(
        "a.security.protocol = SASL_SSL",
        "a.sasl.mechanism = AWS_MSK_IAM",
        f'a.sasl.jaas.config = {module} awsProfileName="of mirror" awsRoleArn="arn:aws:iam::1:role/mirror";',
    )
    row = found.rows["a.sasl.jaas.config"]
    assert row.verdict is Verdict.NOT_YET
    assert "AWS_PROFILE='of mirror'" in str(row.remark)
    assert "role_arn" in str(row.remark)


def test_tokens_from_nowhere_have_to_be_written() -> None:
    found = of_lines(
        "a.security.protocol = SASL_SSL", "a.sasl.mechanism = OAUTHBEARER", f"a.sasl.jaas.config = {MODULE};"
    )
    assert verdicts(found)["a.sasl.jaas.config"] is Verdict.NOT_YET
    assert "endpoint" in str(found.rows["a.sasl.jaas.config"].remark)


@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM", "DIGEST-MD5"])
def test_logins_that_the_mirror_cannot_make_are_left_out_and_said(mechanism: str) -> None:
    found = of_lines(
        "a.security.protocol = SASL_PLAINTEXT",
        f"a.sasl.mechanism = {mechanism}",
        "a.sasl.client.callback.handler.class = org.example.Handler",
        "a.sasl.jaas.config = org.example.LoginModule required;",
    )
    of_login = {key: verdict for key, verdict in verdicts(found).items() if ".sasl." in key}
    assert set(of_login.values()) == {Verdict.NOT_YET}
    assert len(of_login) == 3
    assert found.config


def test_what_no_protocol_uses_is_said() -> None:
    found = of_lines("a.sasl.mechanism = PLAIN", "a.ssl.truststore.location = /t.jks")
    assert verdicts(found)["a.sasl.mechanism"] is Verdict.IGNORED
    assert "security.protocol is PLAINTEXT" in str(found.rows["a.sasl.mechanism"].remark)


def test_properties_at_the_top_are_of_all_clusters() -> None:
    found = of_lines("security.protocol = SSL", "b.security.protocol = PLAINTEXT")
    assert (table(found)["security.protocol"], table(found, "b")["security.protocol"]) == ("SSL", "PLAINTEXT")


def test_a_login_of_the_consumer_alone_is_taken() -> None:
    found = of_lines("a.consumer.security.protocol = SSL", "a.producer.security.protocol = SSL")
    assert table(found)["security.protocol"] == "SSL"
    assert verdicts(found)["a.consumer.security.protocol"] is Verdict.TAKEN
    assert verdicts(found)["a.producer.security.protocol"] is Verdict.DIFFERS


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('x.Module required username="u" password="p";', {"username": "u", "password": "p"}),
        (
            'x.Module  required\n username=\'u v\'\n password="p\\"q" ;',
            {"username": "u v", "password": 'p"q'},
        ),
        ("x.Module required;", {}),
        ("x.Module REQUIRED a=b;", {"a": "b"}),
    ],
)
def test_options_of_jaas(text: str, options: Mapping[str, str]) -> None:
    assert jaas_options(text) == options


@pytest.mark.parametrize(
    "text", ["", "x.Module", f"x.Module required password={SECRET}", f"required {SECRET};"]
)
def test_a_broken_jaas_text_is_never_quoted(text: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        jaas_options(text)
    assert SECRET not in str(caught.value)
