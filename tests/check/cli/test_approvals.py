"""Plans that more than one person stands behind: who approves, what does not count, and what is refused without."""

import json
import os
import pwd
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from ledger.changeover.plans import Plan
from ledger.config.file import load_config
from ledger.context import Context
from ledger.facts.changeovers import PlanRecorded
from ledger.facts.operations import Why
from ledger.store.snapshots import DeltaLedger
from tests.support.changeovers import plan
from tests.support.forecasts import forecast
from tests.support.operated import Operated

_PEM = serialization.Encoding.PEM
_KEYS: dict[str, ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey] = {
    "ana": ed25519.Ed25519PrivateKey.generate(),
    "bob": ec.generate_private_key(ec.SECP256R1()),
    "cleo": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "eve": ed25519.Ed25519PrivateKey.generate(),
}
PLANNER = "somebody"
"""The account by which plans are recorded here."""


def public_of(name: str) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return _KEYS[name].public_key().public_bytes(_PEM, form).decode()


def section(people: dict[str, str | None], asked: int) -> str:
    """`[approvals]` with people, and their accounts where these are not their names."""
    lines = ["", "[approvals]", f"plan = {asked}"]
    for name, operator in people.items():
        lines += [f"[approvals.people.{name}]", f'key = """{public_of(name)}"""']
        lines += [f'operator = "{operator}"'] if operator else []
    return "\n".join([*lines, ""])


@dataclass
class Plans:
    """A ledger whose plans ask for people; what is typed, and by whom."""

    of: Operated
    folder: Path
    before: str

    def ask_for(self, people: dict[str, str | None], asked: int = 2) -> None:
        Path(self.of.config.file).write_text(self.before + section(people, asked))

    def content(self, one: Plan, *, under: str | None = None) -> PlanRecorded:
        return PlanRecorded(
            plan_id=under or one.plan_id, plan=one.content(), blockers=(), cut="c", forecast=forecast()
        )

    def record(self, one: Plan | None = None, *, under: str | None = None) -> str:
        content = self.content(one or plan(), under=under)
        self.of.operation("plan", content.content())
        return content.plan_id

    def approve(self, plan_id: str, by: str) -> tuple[int, str]:
        file = self.folder / f"{by}.pem"
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        file.write_bytes(_KEYS[by].private_bytes(_PEM, *form))
        done = self.of.command("plan", "approve", plan_id, "--key", str(file), "--reason", "read")
        return done.code, done.err

    def rows(self) -> list[dict[str, str]]:
        kinds = [row for row in self.of.operations() if row["kind"] == "plan_approved"]
        return [json.loads(row["content"]) for row in kinds]

    def refusal(self, plan_id: str) -> str | None:
        """What `apply` says for want of people; None: it does not."""
        done = self.of.command("apply", plan_id, "--yes", "--reason", "a drill")
        assert done.code != 0, "no cluster answers here"
        if f"plan {plan_id} asks for" not in done.err:
            return None
        assert done.code == 4
        return done.err


@pytest.fixture
def plans(idle: Operated, tmp_path: Path) -> Plans:
    made = Plans(idle, tmp_path, Path(idle.config.file).read_text())
    made.ask_for({"ana": PLANNER, "bob": None, "cleo": None})
    return made


def test_another_person_approves_what_one_has_planned(plans: Plans) -> None:
    plan_id = plans.record()
    asked = plans.refusal(plan_id)
    assert asked is not None
    assert "asks for 2 people, and ana stands behind it; nothing was done. 1 more: " in asked
    assert f"mirror-ledger plan approve {plan_id} --key FILE, by another person" in asked
    shown = plans.of.command("plan", "show", plan_id).out
    assert "one more person approves it first" in shown
    assert plans.approve(plan_id, "bob") == (
        0,
        f"bob stands behind plan {plan_id}; people that are lacking: 0\n",
    )
    assert plans.refusal(plan_id) is None
    assert "approve" not in plans.of.command("plan", "show", plan_id).out
    assert [row["person"] for row in plans.rows()] == ["bob"]
    code, said = plans.approve(plan_id, "bob")
    assert (code, "approved plan" in said, len(plans.rows())) == (0, True, 1)


@pytest.mark.parametrize("variable", ["LOGNAME", "USER", "LNAME", "USERNAME"])
def test_nobody_plans_as_another_person_by_saying_so(
    plans: Plans, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, PLANNER)
    recorded = plans.of.operations()
    content = plans.content(plan())
    Context(load_config(Path(plans.of.config.file)), Why("a drill")).record(content)
    [row] = [one for one in plans.of.operations() if one not in recorded]
    assert row["operator"] == pwd.getpwuid(os.getuid()).pw_name
    plans.approve(content.plan_id, "bob")
    assert "and bob stands behind it; nothing was done. 1 more" in str(plans.refusal(content.plan_id))


def test_as_many_sign_as_are_asked_for_where_the_account_of_the_planner_is_nobodys(plans: Plans) -> None:
    plans.ask_for({"ana": None, "bob": None, "cleo": None})
    plan_id = plans.record()
    assert "and nobody stands behind it; nothing was done. 2 more" in str(plans.refusal(plan_id))
    plans.approve(plan_id, "cleo")
    assert "and cleo stands behind it; nothing was done. 1 more" in str(plans.refusal(plan_id))
    plans.approve(plan_id, "ana")
    assert plans.refusal(plan_id) is None


@pytest.mark.parametrize(
    ("by", "code", "words"),
    [
        ("ana", 5, "ana has made plan"),
        ("eve", 2, "the key is of nobody whom [approvals.people] names (ana, bob, cleo)"),
    ],
)
def test_who_may_not_approve_learns_it_and_nothing_is_recorded(
    plans: Plans, by: str, code: int, words: str
) -> None:
    plan_id = plans.record()
    done = plans.approve(plan_id, by)
    assert (done[0], words in done[1], "nothing was recorded" in done[1]) == (code, True, True), done
    assert plans.rows() == []


def test_no_key_is_an_error_that_does_not_show_it(plans: Plans, tmp_path: Path) -> None:
    plan_id = plans.record()
    (tmp_path / "no.pem").write_text("hunter2")
    done = plans.of.command("plan", "approve", plan_id, "--key", str(tmp_path / "no.pem"), "--reason", "read")
    assert (done.code, "hunter2" in done.err, "is no private key as PEM" in done.err) == (2, False, True)


def test_an_approval_is_of_one_recording_of_one_plan(plans: Plans) -> None:
    plan_id = plans.record()
    plans.approve(plan_id, "bob")
    other = plans.record(replace(plan(), to_cluster="west", from_cluster="east", topics=()))
    assert other != plan_id
    assert plans.refusal(other) is not None
    assert plans.record() == plan_id, "it is planned again"
    said = plans.refusal(plan_id)
    assert said is not None
    assert "does not count" not in said, "what somebody approved before is no forgery"


def test_what_somebody_forged_does_not_count_and_is_named(plans: Plans) -> None:
    plan_id = plans.record()
    plans.approve(plan_id, "bob")
    [real] = plans.rows()
    plans.record()  # the approval is of the recording before
    newest = [row for row in rows_of_plans(plans) if row["kind"] == "plan"][-1]["operation_id"]
    forged = {
        "bob": {**real, "planned_by": newest},
        "cleo": {**real, "planned_by": newest, "person": "cleo", "key": public_of("eve")},
        "dora": {**real, "planned_by": newest, "person": "dora"},
        "ana": {**real, "planned_by": newest, "person": "ana", "key": public_of("ana"), "signature": "?"},
        "no key": {**real, "planned_by": newest, "person": "cleo", "key": "-----BEGIN PUBLIC KEY-----"},
    }
    for content in forged.values():
        plans.of.operation("plan_approved", content)
    said = str(plans.refusal(plan_id))
    assert "the approval of bob does not count: its signature is not of this plan" in said
    assert "the approval of cleo does not count: it is by another key than [approvals] has" in said
    assert "the approval of dora does not count: [approvals] names nobody of that name" in said
    assert "the approval of ana does not count: its signature is not of this plan" in said


def test_a_key_in_the_configuration_that_is_none_is_named(plans: Plans) -> None:
    plan_id = plans.record()
    plans.approve(plan_id, "bob")
    broken = section({"ana": None, "bob": None}, 2).replace(public_of("bob"), "-----BEGIN PUBLIC KEY-----")
    Path(plans.of.config.file).write_text(plans.before + broken)
    done = plans.of.command("apply", plan_id, "--yes", "--reason", "a drill")
    assert (done.code, "approvals.people.bob.key: it is no public key as PEM" in done.err) == (2, True)


def test_who_is_no_longer_named_counts_no_longer(plans: Plans) -> None:
    plan_id = plans.record()
    plans.approve(plan_id, "bob")
    plans.ask_for({"ana": PLANNER, "cleo": None})
    assert "the approval of bob does not count" in str(plans.refusal(plan_id))


def test_an_altered_plan_is_refused_as_it_was(plans: Plans) -> None:
    plan_id = plans.record()
    plans.approve(plan_id, "bob")
    plans.record(replace(plan(), topics=()), under=plan_id)
    done = plans.of.command("apply", plan_id, "--yes", "--reason", "a drill")
    assert (done.code, "is another plan" in done.err) == (5, True)


def test_a_bundle_of_evidence_has_what_openssl_checks_approvals_by(plans: Plans, tmp_path: Path) -> None:
    plans.ask_for({"ana": None, "bob": None, "cleo": None}, 3)
    plan_id = plans.record()
    for person in ("ana", "bob", "cleo"):
        plans.approve(plan_id, person)
    bundle = tmp_path / "bundle"
    assert plans.of.command("evidence", "--to", str(bundle)).code == 0
    done = subprocess.run([sys.executable, bundle / "verify.py"], text=True, capture_output=True)
    assert done.returncode == 3, "the bundle itself is not signed"
    said = done.stdout.splitlines()
    lines = [said[number + 1] for number, line in enumerate(said) if line.startswith("# approval in ")]
    assert len(lines) == 3
    for line in lines:
        assert subprocess.run(line, shell=True, capture_output=True).returncode == 0, line
    texts = sorted((bundle / "approvals").glob("*.txt"))
    assert {one.read_text().splitlines()[-1] for one in texts} == {"person ana", "person bob", "person cleo"}
    for text in texts:
        text.write_text(text.read_text().replace("person ", "person not "))
    assert all(subprocess.run(line, shell=True, capture_output=True).returncode != 0 for line in lines)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[approvals]\nplan = 2\n", "asks for 2 people to a plan, and people names 0"),
        ("[approvals]\nplan = 0\n", "approvals.plan"),
        ('[approvals.people.ana]\nkey = "ana.pem"\n', "approvals.people.ana.key"),
        (section({"ana": "kafka", "bob": "kafka"}, 2), "two people plan by one account"),
        (section({"ana": None, "bob": "ana"}, 2), "two people plan by one account"),
        ("[approvals]\npeople = 3\n", "approvals.people"),
    ],
    ids=["too few", "none", "no key", "one account", "the account of another", "no people"],
)
def test_people_who_cannot_be_asked_are_no_configuration(plans: Plans, text: str, words: str) -> None:
    Path(plans.of.config.file).write_text(plans.before + "\n" + text)
    done = plans.of.command("plan", "list")
    assert (done.code, words in done.err) == (2, True), done.err


def test_nobody_is_asked_by_default(plans: Plans) -> None:
    Path(plans.of.config.file).write_text(plans.before)
    assert load_config(Path(plans.of.config.file)).approvals.plan == 1
    assert plans.refusal(plans.record()) is None


def rows_of_plans(plans: Plans) -> list[dict[str, str]]:
    return DeltaLedger(plans.of.path).now().rows("operations", [("kind", "=", "plan")])
