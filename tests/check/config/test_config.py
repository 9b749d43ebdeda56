"""Configuration files: what is accepted, and that every problem is reported with its file and key."""

import os
import pickle
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ledger.config.file import CONFIG_VARIABLE, find_config, load_config
from ledger.config.values import (
    SECURITY_PROPERTIES,
    STORE_OPTIONS,
    TUNING_PROPERTIES,
    Policy,
    SecretReference,
    TargetMode,
)
from ledger.errors import ConfigurationError, UsageError
from ledger.topics.following import ConfigurationFollow
from ledger.topics.naming import NamingKind, RecordFilter, SelectionRefusal
from tests.support.checkout import CHECKOUT
from tests.support.config_files import BASE, FLOW_TEXT, load, problems

EXAMPLE = CHECKOUT / "conf" / "example.toml"


def test_example_loads_and_its_commented_keys_are_the_defaults(tmp_path: Path) -> None:
    example = load_config(EXAMPLE)
    lines = EXAMPLE.read_text().splitlines()
    uncommented = [
        line.removeprefix("# ")
        for line in lines
        if line.startswith("# ") and " = " in line and ": " not in line
    ]
    described = {line.split(" = ")[0] for line in uncommented}
    flow = example.flow("east-to-west")
    assert described >= (type(example.ledger).model_fields.keys() - {"path", "store"}) | STORE_OPTIONS
    assert described >= type(flow).model_fields.keys() - {"name", "source", "target", "topics"}
    optional = (
        *("# prefix", "# rename", "# replication_factor"),
        *("# configuration_exclude", "# configuration_follow", "# on_tail_lost", "# opposite"),
        *("# dead_letters", "# byte_rate", "# topics_first", "# client.rack"),
        *("# operator", '# key = """', "# token", "# aws_", "# sasl.", '# "ssl.', '# "https.'),
    )
    spelled_out = [line.removeprefix("# ") if not line.startswith(optional) else line for line in lines]
    kept = [line for line, raw in zip(spelled_out, lines, strict=True) if line == raw or line in uncommented]
    spelled = load(tmp_path, "\n".join(kept))
    assert spelled.flow("east-to-west") == flow
    assert spelled.ledger.keep_superseded_hours == example.ledger.keep_superseded_hours
    assert (spelled.serve, example.metrics.listen) == (example.serve, None)
    assert described >= type(example.serve).model_fields.keys()


@pytest.mark.parametrize("given_as", ["absolute", "relative"])
def test_a_relative_ledger_begins_at_the_files_folder_from_wherever_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_as: str
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "some" / "where").mkdir(parents=True)
    file = tmp_path / "conf" / "mirror.toml"
    file.write_text(BASE.replace('"ledger"', '"../facts/of-east"') + FLOW_TEXT)
    monkeypatch.chdir(tmp_path / "some" / "where")
    config = load_config(file if given_as == "absolute" else Path("../../conf/mirror.toml"))
    assert config.ledger.path == str(tmp_path / "facts" / "of-east")


@pytest.mark.parametrize(
    "path", ["/srv/facts", "s3a://bucket/facts", "file:///srv/facts", "dbfs:/facts", "hdfs://name:8020/facts"]
)
def test_an_absolute_ledger_and_a_uri_stay_as_they_are(tmp_path: Path, path: str) -> None:
    assert load(tmp_path, BASE.replace('"ledger"', f'"{path}"') + FLOW_TEXT).ledger.path == path


STORE = """
[ledger.store]
aws_endpoint_url = "http://127.0.0.1:9000"
aws_allow_http = true
aws_secret_access_key = { env = "OF_THE_STORE" }
aws_session_token = { file = "token" }
"""


def test_a_store_is_known_to_libraries_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "of somebody else")
    monkeypatch.setenv("OF_THE_STORE", "a secret")
    (tmp_path / "token").write_text("a token\n")
    text = BASE.replace("[clusters.east]", f"{STORE}[clusters.east]", 1) + FLOW_TEXT
    config = load(tmp_path, text)
    assert "a secret" not in repr(config)
    assert (os.environ["AWS_ENDPOINT_URL"], os.environ["AWS_ALLOW_HTTP"]) == ("http://127.0.0.1:9000", "true")
    assert (os.environ["AWS_SECRET_ACCESS_KEY"], os.environ["AWS_SESSION_TOKEN"]) == ("a secret", "a token")
    monkeypatch.delenv("OF_THE_STORE")
    with pytest.raises(UsageError, match="OF_THE_STORE, which is not set"):
        load(tmp_path, text)


def test_problems_of_a_store(tmp_path: Path) -> None:
    lines = '[ledger.store]\naws_secret_access_key = "x"\naws_region = ["a"]\nregion = "a"\n'
    assert problems(tmp_path, BASE.replace("[clusters.east]", f"{lines}[clusters.east]", 1) + FLOW_TEXT) == [
        'ledger.store.aws_secret_access_key: a secret is written as a reference, { env = "VARIABLE" } or '
        '{ file = "PATH" }',
        "ledger.store.aws_region: is text, a number or true/false, got list",
        "ledger.store.region: unknown key; known are aws_access_key_id, aws_allow_http, aws_ca_bundle, "
        "aws_endpoint_url, aws_profile, aws_region, aws_secret_access_key, aws_session_token",
    ]


def test_defaults(tmp_path: Path) -> None:
    flow = load(tmp_path, BASE + FLOW_TEXT).flow("east-to-west")
    assert flow.topic_naming is NamingKind.PREFIX
    assert flow.naming.target_name("orders") == "east.orders"
    assert (flow.on_loss, flow.target_mode, flow.relay) == (Policy.STOP, TargetMode.EXCLUSIVE, False)
    assert (flow.round_seconds, flow.tasks, flow.full_sweep_seconds) == (5.0, 1, 300.0)
    assert flow.group_patterns.matches("any-group")


def test_client_properties_quoted_and_nested_mean_the_same(tmp_path: Path) -> None:
    nested = 'sasl.mechanism = "PLAIN"\nsocket.keepalive.enable = true\nsocket.timeout.ms = 4000\n'
    quoted = '"sasl.mechanism" = "PLAIN"\n"socket.keepalive.enable" = true\n"socket.timeout.ms" = 4000\n'
    found = [load(tmp_path, BASE + text + FLOW_TEXT).cluster("west").properties for text in (nested, quoted)]
    assert (
        found[0]
        == found[1]
        == {
            "sasl.mechanism": "PLAIN",
            "socket.keepalive.enable": "true",
            "socket.timeout.ms": "4000",
        }
    )


def test_secrets_are_looked_up_late_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("pa55\n")
    text = BASE + 'sasl.password = { env = "WEST" }\n"ssl.key.password" = { file = "key" }\n' + FLOW_TEXT
    cluster = load(tmp_path, text).cluster("west")
    password, key = cluster.properties["sasl.password"], cluster.properties["ssl.key.password"]
    assert isinstance(password, SecretReference)
    assert isinstance(key, SecretReference)
    assert password.resolve({"WEST": "s3cret"}) == "s3cret"
    assert key.resolve({}) == "pa55"
    assert load(tmp_path, text).secrets({"WEST": "s3cret"}) == {"s3cret", "pa55"}
    assert load(tmp_path, text).secrets({}) == {"pa55"}, "what is not found here nobody prints"
    assert "pa55" not in repr(cluster)
    assert b"pa55" not in pickle.dumps(cluster)


def test_credentials_of_an_administrator_go_before_the_mirrors(tmp_path: Path) -> None:
    own = 'mirror_principal = "User:mirror"\nsasl.username = "mirror"\n"client.dns.lookup" = "use_all_dns_ips"\n'
    admin = '[clusters.west.admin]\nsasl.username = "admin"\nsasl.password = { file = "key" }\n'
    cluster = load(tmp_path, BASE + own + admin + FLOW_TEXT).cluster("west")
    known = {"sasl.username": "mirror", "client.dns.lookup": "use_all_dns_ips"}
    assert (cluster.mirror_principal, cluster.properties) == ("User:mirror", known)
    assert cluster.without_effect == ["client.dns.lookup"]
    changing = dict(cluster.for_administration.properties)
    secret = changing.pop("sasl.password")
    assert secret == SecretReference(file=str(tmp_path / "key"))
    assert changing == {**known, "sasl.username": "admin"}
    assert load(tmp_path, BASE + FLOW_TEXT).cluster("west").for_administration.properties == {}


@pytest.mark.parametrize("environ", [{}, {"WEST": ""}])
def test_a_secret_that_is_not_set_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="WEST, which is not set"):
        SecretReference(env="WEST").resolve(environ)


def test_a_secret_file_that_is_missing_or_empty_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(UsageError, match="gone: No such file"):
        SecretReference(file=str(tmp_path / "gone")).resolve({})
    with pytest.raises(UsageError, match="empty, which is empty"):
        SecretReference(file=str(tmp_path / "empty")).resolve({})


CLUSTER_PROBLEMS = {
    'sasl.password = "hunter2"': ("sasl.password", "written as a reference"),
    '"ssl.truststore.password" = "hunter2"': ("ssl.truststore.password", "written as a reference"),
    '"sasl.oauthbearer.client.secret" = "x"': ("sasl.oauthbearer.client.secret", "written as a reference"),
    '"ssl.key.pem" = "hunter2"': ("ssl.key.pem", "cannot be used: write ssl.key.location"),
    '"ssl.keystore.password" = "hunter2"': ("ssl.keystore.password", "written as a reference"),
    '"ssl.keystore.key" = { env = "A" }': ("ssl.keystore.key", "write ssl.keystore.location"),
    '"ssl.truststore.certificates" = "x"': ("ssl.truststore.certificates", "write ssl.truststore.location"),
    '"ssl.enabled.protocols" = "TLSv1.3"': ("ssl.enabled.protocols", "as the TLS library of this machine"),
    'sasl.jaas.config = { env = "A" }': ("sasl.jaas.config", "as properties: sasl.username"),
    '"sasl.oauthbearer.jwks.endpoint.url" = "x"': (
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.token.endpoint.url",
    ),
    '"sasl.login.class" = "x"': ("sasl.login.class", "SCRAM-SHA-512, OAUTHBEARER, GSSAPI"),
    '"client.id" = "x"': ("client.id", "set by the mirror itself"),
    'group.id = "x"': ("group.id", "set by the mirror itself"),
    '"bootstrap.servers" = "x:1"': ("bootstrap.servers", "is written bootstrap_servers"),
    '"debug" = ["all"]': ("debug", "got list"),
    'sasl.password = { env = "A", file = "B" }': ("sasl.password", "either env or file"),
    'sasl.mechanism = "A"\n"sasl.mechanism" = "B"': ("sasl.mechanism", "given twice"),
    '"securty.protocol" = "SASL_SSL"': (
        "securty.protocol",
        "no such client property; is security.protocol meant?",
    ),
    'ssl.ca.locaton = "x"': ("ssl.ca.locaton", "no such client property; is ssl.ca.location meant?"),
    'bootstrap_server = "x:1"': ("bootstrap_server", "no such client property; is bootstrap_servers meant?"),
    'colour = "blue"': ("colour", "librdkafka has no such client property"),
    'admin.sasl.usrname = "x"': ("admin.sasl.usrname", "no such client property; is sasl.username meant?"),
    'mirror_principal = "mirror"': ("mirror_principal", "User:NAME"),
    'admin = "x"': ("admin", "is a table of client properties"),
    'admin.sasl.password = "hunter2"': ("admin.sasl.password", "written as a reference"),
    'admin.bootstrap_servers = "x:1"': ("admin.bootstrap_servers", "in the table of the cluster"),
}


@pytest.mark.parametrize("line", CLUSTER_PROBLEMS)
def test_client_properties_that_are_refused(tmp_path: Path, line: str) -> None:
    key, rule = CLUSTER_PROBLEMS[line]
    [problem] = problems(tmp_path, BASE + line + FLOW_TEXT)
    assert problem.startswith(f"clusters.west.{key}: ")
    assert rule in problem
    assert "hunter2" not in problem


def test_known_client_properties_are_those_of_librdkafka() -> None:
    """Or Java's of stores, or our own: it refuses the value of each; of a name that it does not have, the name."""
    names = SECURITY_PROPERTIES | TUNING_PROPERTIES
    trust_store = {"ssl.truststore.password", "ssl.truststore.type"}  # for the location it has a sentence
    of_others = {*trust_store, "ssl.keystore.type", "ssl.verification.strict"}
    assert {name for name in (*names, "socket.timeout.s") if not is_of_librdkafka(name)} == {
        "socket.timeout.s",
        *of_others,
    }


def is_of_librdkafka(name: str) -> bool:
    try:
        AdminClient({"bootstrap.servers": "localhost:1", "log_level": 0, name: "\x01"})
    except KafkaException as error:
        return "No such configuration property" not in str(error)
    return True


FLOW_PROBLEMS = {
    'sauce = "x"': ("sauce", "unknown key"),
    'exclude = ["("]': ("exclude[0]", "is not a regular expression"),
    'on_loss = "shrug"': ("on_loss", "'stop' or 'continue'"),
    'target_mode = "mine"': ("target_mode", "'exclusive' or 'shared'"),
    "round_seconds = 0.2": ("round_seconds", "greater than 0.2"),
    "tasks = 0": ("tasks", "greater than or equal to 1"),
    "tasks = 65": ("tasks", "less than or equal to 64"),
    'tasks = "2"': ("tasks", "integer"),
    'relay = "yes"': ("relay", "boolean"),
    "checkpoint_seconds = 0": ("checkpoint_seconds", "greater than 0"),
    "replication_factor = 0": ("replication_factor", "is 1 to 32767 replicas, or -1 for the default"),
    'prefix = "a b"': ("prefix", "match pattern"),
    'topic_naming = "identity"\nprefix = "x"': ("prefix", "no meaning"),
    'name = "x"': ("name", "unknown key"),
}


@pytest.mark.parametrize("line", FLOW_PROBLEMS)
def test_flow_keys_that_are_refused(tmp_path: Path, line: str) -> None:
    key, rule = FLOW_PROBLEMS[line]
    [problem] = problems(tmp_path, BASE + FLOW_TEXT + line)
    assert problem.startswith(f"flows.east-to-west.{key}: ")
    assert rule in problem


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = """
    extra = 1
    [ledger]
    [clusters."a b"]
    [clusters.east]
    bootstrap_servers = "east"
    sasl.password = "x"
    [flows.f]
    source = "east"
    target = "nowhere"
    topics = []
    """
    assert [problem.split(": ")[0] for problem in problems(tmp_path, text)] == [
        "extra",
        "ledger",
        "clusters.a b",
        "clusters.a b.bootstrap_servers",
        "clusters.east.bootstrap_servers",
        "clusters.east.sasl.password",
        "flows.f.topics",
        "flows.f.target",
    ]


def test_identity_on_one_cluster_is_refused(tmp_path: Path) -> None:
    text = BASE + FLOW_TEXT.replace('"west"', '"east"')
    assert load(tmp_path, text).flow("east-to-west").naming.target_name("a") == "east.a"
    [problem] = problems(tmp_path, text + 'topic_naming = "identity"')
    assert "onto itself" in problem


REVERSE = FLOW_TEXT.replace("east-to-west", "back").replace('source = "east"', 'source = "west"')
REVERSE = REVERSE.replace('target = "west"', 'target = "east"')


def test_relaying_flows_that_form_a_ring_are_refused(tmp_path: Path) -> None:
    assert len(problems(tmp_path, BASE + FLOW_TEXT + "relay = true" + REVERSE + "relay = true")) == 2
    load(tmp_path, BASE + FLOW_TEXT + "relay = true" + REVERSE)


SAME = 'topic_naming = "identity"\n'
SHARED = 'target_mode = "shared"\n'


def test_flows_that_keep_names_in_both_directions_share_their_targets(tmp_path: Path) -> None:
    both = problems(tmp_path, BASE + FLOW_TEXT + SAME + REVERSE + SAME)
    assert ["target_mode" in problem and '"shared"' in problem for problem in both] == [True, True]
    [problem] = problems(tmp_path, BASE + FLOW_TEXT + SAME + REVERSE + SAME + SHARED)
    assert problem.startswith("flows.east-to-west.target_mode: ")
    load(tmp_path, BASE + FLOW_TEXT + SAME + SHARED + REVERSE + SAME + SHARED)


def test_opposite_flows_keep_names_in_both_directions_and_share_nothing(tmp_path: Path) -> None:
    flows = FLOW_TEXT + SAME + 'opposite = "back"\n' + REVERSE + SAME
    assert load(tmp_path, BASE + flows + 'opposite = "east-to-west"').flow("back").opposite == "east-to-west"
    [problem] = [one for one in problems(tmp_path, BASE + flows) if "opposite" in one]
    assert problem.startswith("flows.east-to-west.opposite: flows.back does not say opposite")


def test_other_names_or_other_topics_need_no_sharing(tmp_path: Path) -> None:
    load(tmp_path, BASE + FLOW_TEXT + SAME + REVERSE)
    load(tmp_path, BASE + FLOW_TEXT + SAME + REVERSE.replace('"orders"', '"payments"') + SAME)
    problems(tmp_path, BASE + FLOW_TEXT + SAME + REVERSE.replace('"orders"', '"ord.*"') + SAME)


def test_a_longer_ring_of_flows_that_keep_names_needs_sharing_too(tmp_path: Path) -> None:
    cluster = '[clusters.south]\nbootstrap_servers = "south:9092"\n'
    ring = "".join(
        f'[flows.{a}-{b}]\nsource = "{a}"\ntarget = "{b}"\ntopics = ["orders"]\n{SAME}'
        for a, b in (("east", "west"), ("west", "south"), ("south", "east"))
    )
    assert len(problems(tmp_path, BASE + cluster + ring)) == 3
    load(tmp_path, BASE + cluster + ring.replace(SAME, SAME + SHARED))
    load(tmp_path, BASE + cluster + ring.split("[flows.south-east]")[0])


def test_relaying_in_a_ring_of_the_same_names_is_refused(tmp_path: Path) -> None:
    flows = FLOW_TEXT + SAME + SHARED + REVERSE + SAME + SHARED
    [problem] = problems(tmp_path, BASE + flows + "relay = true")
    assert problem.startswith("flows.back.relay: would bring records back")


FILTER = """
[flows.east-to-west.filter]
include_keys = ["order-.*", "line-.*"]
exclude_keys = ["order-test.*"]
exclude_headers = { origin = "probe", trace = "load-.*" }
from_time = 2026-01-31T18:00:00+01:00
until_time = 2026-02-01T00:00:00.250Z
"""


def test_a_filter_has_patterns_and_times_with_an_offset(tmp_path: Path) -> None:
    flow = load(tmp_path, BASE + FLOW_TEXT + FILTER).flow("east-to-west")
    assert flow.filter.record_filter == RecordFilter(
        include_keys=("order-.*", "line-.*"),
        exclude_keys=("order-test.*",),
        exclude_headers=(("origin", "probe"), ("trace", "load-.*")),
        from_ms=1_769_878_800_000,
        until_ms=1_769_904_000_250,
    )
    assert load(tmp_path, BASE + FLOW_TEXT).flow("east-to-west").filter.record_filter.keeps_all


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('exclude_keys = ["("]', "filter.exclude_keys[0]: '(' is not a regular expression"),
        ('exclude_headers = { origin = "[" }', "filter.exclude_headers.origin: '['"),
        ("from_time = 2026-01-31T18:00:00", "filter.from_time: "),
        ('until_time = "yesterday"', "filter.until_time: "),
        ("from_time = 2026-01-02T00:00:00Z\nuntil_time = 2026-01-02T00:00:00Z", "is not before until_time"),
        ("exclude_values = []", "filter.exclude_values: unknown key"),
    ],
)
def test_a_filter_that_is_wrong_says_where(tmp_path: Path, line: str, told: str) -> None:
    [problem] = problems(tmp_path, BASE + FLOW_TEXT + f"[flows.east-to-west.filter]\n{line}\n")
    assert problem.startswith("flows.east-to-west.filter")
    assert told in problem


def test_topics_that_came_from_the_target_are_not_selected(tmp_path: Path) -> None:
    text = BASE + FLOW_TEXT.replace('"orders"', '".*"') + REVERSE + 'prefix = "w"'
    selection = load(tmp_path, text).topic_selection("east-to-west")
    assert selection.selects("orders")
    assert selection.refusal("w.orders") is SelectionRefusal.MIRRORED_BACK
    assert selection.refusal("west.orders") is SelectionRefusal.MIRRORED_BACK


def test_text_that_is_not_toml_is_reported_with_its_line(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, BASE + "\nbroken\n[x]")
    assert "is not TOML" in problem
    assert "line 9" in problem


def test_a_missing_file_is_a_problem_of_that_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"gone\.toml: cannot be read: No such file"):
        load_config(tmp_path / "gone.toml")


def test_the_option_comes_before_the_environment() -> None:
    assert find_config("a.toml", {CONFIG_VARIABLE: "b.toml"}) == Path("a.toml")
    assert find_config(None, {CONFIG_VARIABLE: "b.toml"}) == Path("b.toml")
    with pytest.raises(UsageError, match=f"--config FILE or set {CONFIG_VARIABLE}"):
        find_config(None, {})


def test_unknown_names_list_the_known_ones(tmp_path: Path) -> None:
    config = load(tmp_path, BASE + FLOW_TEXT)
    with pytest.raises(UsageError, match="no flow 'x'; it has east-to-west"):
        config.flow("x")
    with pytest.raises(UsageError, match="no cluster 'x'; it has east, west"):
        config.cluster("x")


RENAME = "topic_naming = \"rename\"\nrename = [{ match = '(.*)_REPLICA', to = '\\1' }]\n"


def test_topics_are_renamed_by_rules_also_on_one_cluster(tmp_path: Path) -> None:
    config = load(tmp_path, BASE + FLOW_TEXT.replace('target = "west"', 'target = "east"') + RENAME)
    [flow] = config.flows.values()
    assert flow.naming.target_name("orders_REPLICA") == "orders"
    selection = config.topic_selection(flow.name)
    assert selection.refusal("orders") is SelectionRefusal.NOT_NAMED
    assert selection.selects("orders_REPLICA") is False


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ('topic_naming = "rename"', 'rename: topic_naming = "rename" needs at least one rule'),
        ("rename = [{ match = 'a', to = 'b' }]", 'rename: has a meaning with topic_naming = "rename" only'),
        (RENAME + 'prefix = "x"', 'prefix: has no meaning with topic_naming = "rename"'),
        (RENAME.replace(r"\1", r"\2"), "rename[0]: '(.*)_REPLICA' cannot be renamed to"),
        (RENAME.replace("(.*)", "("), "rename[0].match: '(_REPLICA' is not a regular expression"),
        ('delete_topics = true\ntarget_mode = "shared"', "delete_topics: a shared target topic holds what"),
        ('configuration_follow = "all"', "configuration_follow: Input should be"),
        ('on_tail_lost = "continue"', "on_tail_lost: Input should be"),
        ('configuration_include = ["("]', "configuration_include[0]: '(' is not a regular expression"),
    ],
)
def test_wrong_following_is_refused(tmp_path: Path, keys: str, problem: str) -> None:
    [found] = problems(tmp_path, BASE + FLOW_TEXT + keys)
    assert found.startswith(f"flows.east-to-west.{problem}")


@pytest.mark.parametrize(
    ("keys", "follow"),
    [
        ("", ConfigurationFollow.INCREMENTAL),
        ('target_mode = "shared"', ConfigurationFollow.CREATE),
        ('target_mode = "shared"\nconfiguration_follow = "whole"', ConfigurationFollow.WHOLE),
    ],
)
def test_settings_follow_where_one_flow_has_its_way(
    tmp_path: Path, keys: str, follow: ConfigurationFollow
) -> None:
    assert load(tmp_path, BASE + FLOW_TEXT + keys).flow("east-to-west").settings_following.follow is follow


def test_readers_of_a_topic_leave_out_what_mirrors_wrote(tmp_path: Path) -> None:
    flows = {
        "back": ("west", "east", "orders", False),
        "on": ("west", "south", "orders.*", False),
        "other": ("west", "east", "payments", False),
        "relaying": ("west", "south", "orders", True),
        "forth": ("east", "west", "orders", False),
    }
    clusters = "".join(
        f'[clusters.{name}]\nbootstrap_servers = "h:1"\n' for name in ("east", "west", "south")
    )
    sections = "".join(
        f'[flows.{name}]\nsource = "{source}"\ntarget = "{target}"\ntopics = ["{topic}"]\n'
        f'topic_naming = "prefix"\nprefix = "{name}"\nrelay = {str(relay).lower()}\n'
        for name, (source, target, topic, relay) in flows.items()
    )
    file = tmp_path / "mirror.toml"
    file.write_text(f'[ledger]\npath = "{tmp_path}"\n{clusters}{sections}')
    config = load_config(file)
    assert [flow.name for flow in config.readers_of("west", ["orders"])] == ["back", "on"]
    assert [flow.name for flow in config.readers_of("west", ["orders-eu"])] == ["on"]
    assert config.readers_of("south", ["orders"]) == []


def twin(first: str, second: str, *, west: str = "west") -> str:
    """Two flows from east with these lines each."""
    return BASE.split("[flows")[0] + (
        f'[flows.one]\nsource = "east"\ntarget = "west"\n{first}\n'
        f'[flows.two]\nsource = "east"\ntarget = "{west}"\n{second}\n'
    )


IDENTITY = 'topic_naming = "identity"\n'


@pytest.mark.parametrize(
    ("first", "second", "common"),
    [
        ('topics = ["orders"]', 'topics = ["orders", "payments"]', "orders"),
        ('topics = ["a\\\\.b"]', 'topics = ["a[.].*"]', "a.b"),
        ('topics = [".*"]', 'topics = [".*"]', ".*"),
        (IDENTITY + 'topics = [".*"]', 'prefix = "p"\ntopics = ["orders"]', None),
        ('topics = ["orders"]', 'topics = [".*"]\nexclude = ["orders"]', None),
        ('topics = ["orders"]', 'topics = ["payments"]', None),
        ('topics = [".*"]', 'topics = [".*"]\nexclude = ["orders"]', None),  # its driver tells
        (
            IDENTITY + 'topics = ["p.orders"]',
            'prefix = "p"\ntopics = ["orders", "p.orders"]',
            None,
        ),
    ],
)
def test_two_flows_that_copy_one_topic_to_one_name_are_refused(
    tmp_path: Path, first: str, second: str, common: str | None
) -> None:
    if common is None:
        load(tmp_path, twin(first, second))
        return
    [problem] = problems(tmp_path, twin(first, second))
    assert problem == (
        f"flows.two.topics: flow one copies {common!r} from east to west under the same name, so every record would "
        "be there twice; leave it out of one of them"
    )


def test_another_pair_of_clusters_may_have_the_same_topics(tmp_path: Path) -> None:
    cluster = '[clusters.south]\nbootstrap_servers = "south:9092"\n'
    load(tmp_path, cluster + twin('topics = ["orders"]', 'topics = ["orders"]', west="south"))


def test_what_patterns_do_not_tell_is_asked_by_topic(tmp_path: Path) -> None:
    config = load(tmp_path, twin('topics = ["a.*"]', 'topics = [".*b"]'))
    assert config.also_copied_by("one")("ab") == {"two"}
    assert config.also_copied_by("two")("ab") == {"one"}
    assert config.also_copied_by("one")("ac") == frozenset()


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("SASL_SSL://h:9093, SASL_SSL://i:9093,", "h:9093,i:9093"),
        (" h:9093 ,i:9093", "h:9093,i:9093"),
        ("sasl_ssl://[::1]:9093", "[::1]:9093"),
    ],
)
def test_addresses_with_a_scheme_and_a_comma_at_the_end(tmp_path: Path, given: str, taken: str) -> None:
    text = BASE.replace('"east:9092"', f'"{given}"\n"security.protocol" = "SASL_SSL"') + FLOW_TEXT
    assert load(tmp_path, text).cluster("east").bootstrap_servers == taken


@pytest.mark.parametrize(
    "given", ["SSL://h:9093", "://h:9093", "h:9093,,i:9093", ",", "SASL_SSL://h", "x://y://h:1"]
)
def test_addresses_that_are_refused(tmp_path: Path, given: str) -> None:
    text = BASE.replace('"east:9092"', f'"{given}"\n"security.protocol" = "SASL_SSL"') + FLOW_TEXT
    assert all(line.startswith("clusters.east.bootstrap_servers: ") for line in problems(tmp_path, text))


def test_a_scheme_that_speaks_of_another_protocol_is_refused(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, BASE.replace('"east:9092"', '"SSL://east:9092"') + FLOW_TEXT)
    assert "speaks of SSL, and security.protocol is PLAINTEXT" in problem


def test_the_default_of_the_targets_brokers_as_replication_factor(tmp_path: Path) -> None:
    flow = load(tmp_path, BASE + FLOW_TEXT + "replication_factor = -1").flow("east-to-west")
    assert flow.replication_factor == -1
