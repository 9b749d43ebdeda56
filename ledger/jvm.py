"""The JVM artifacts that pip does not bring: Delta's jars, and any other set that is named.

They are fetched once, through the Ivy jar inside PySpark, into folders of this project's own. Ivy gets
its own settings and cache as well, so that a half-filled Maven or Ivy folder of the user never matters.

A set of jars is complete or absent: it is fetched into a temporary folder, checked (Ivy can fetch
nothing and still exit 0) and renamed. A lock per set keeps two processes from fetching it at once.

`MIRROR_LEDGER_MAVEN` names another Maven repository to fetch from, for machines without the public one.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from ledger.errors import SetupError

MINIMUM_JAVA = 17
FETCH_TIMEOUT_S = 900
VERSION_TIMEOUT_S = 60
# What Ivy says of a failure, causes first: "not found" also follows a refused connection.
TELLING_LINES = (
    re.compile(r"server access error|download failed", re.IGNORECASE),
    re.compile(r"not found", re.IGNORECASE),
    re.compile(r"error|exception|failed", re.IGNORECASE),
)


@dataclass(frozen=True, slots=True)
class Artifact:
    """One artifact that a set asks for by name; the rest follows from its POM."""

    organisation: str
    name: str
    revision: str

    @property
    def jar(self) -> str:
        """The file name that Ivy's retrieve pattern gives it."""
        return f"{self.name}-{self.revision}.jar"

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.revision}"


@dataclass(frozen=True, slots=True)
class JarSet:
    """Artifacts that are fetched together and used on one class path."""

    name: str
    artifacts: tuple[Artifact, ...]
    minimum_jars: int  # fewer means that Ivy left dependencies out
    excludes: tuple[tuple[str, str], ...] = ()  # (organisation, module); `*` is any module


DELTA_EXCLUDES = (
    # What PySpark ships already; without these excludes the set is six times as large.
    ("org.apache.hadoop", "*"),
    ("org.apache.parquet", "*"),
    ("org.apache.logging.log4j", "*"),
    ("org.slf4j", "*"),
    ("com.fasterxml.jackson.core", "*"),
    ("com.github.luben", "zstd-jni"),
    ("io.airlift", "aircompressor"),
    ("org.xerial.snappy", "snappy-java"),
    ("org.roaringbitmap", "*"),
    ("commons-logging", "*"),
)


def delta() -> JarSet:
    """The jars of the delta-spark and for the PySpark that are installed.

    delta-spark's own `configure_spark_with_delta_pip` names the same artifact, and has each session fetch it into
    a folder of the user's.
    """
    spark, delta_spark = version("pyspark"), version("delta-spark")
    name = f"delta-spark_{'.'.join(spark.split('.')[:2])}_2.13"
    return JarSet(
        name=f"delta-{delta_spark}",
        artifacts=(Artifact("io.delta", name, delta_spark),),
        minimum_jars=3,
        excludes=DELTA_EXCLUDES,
    )


def home() -> Path:
    """Where this project keeps what it fetches; the Makefile sets it to a folder in the checkout."""
    named = os.environ.get("MIRROR_LEDGER_HOME")
    return Path(named).absolute() if named else Path.home() / ".cache" / "mirror-ledger"


def delta_jars() -> list[Path]:
    """Delta's jars for Spark, without what PySpark ships; fetched at the first call on a machine."""
    return fetched(delta())


def is_fetched(jar_set: JarSet) -> bool:
    """Whether the set is on this machine."""
    return _folder(jar_set).is_dir()


def fetched(jar_set: JarSet) -> list[Path]:
    """The jars of a set, in a fixed order."""
    folder = _folder(jar_set)
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with folder.with_name(f"{jar_set.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                _fetch(jar_set, folder)
    jars = sorted(folder.resolve().glob("*.jar"))  # one name each: archives of classes go by it
    _check_complete(jar_set, folder, jars, f"delete {folder} and run again")
    return jars


def check_java() -> Path:
    """The `java` to use, through JAVA_HOME or PATH; refuses what is too old for Spark and Kafka."""
    return _java()[0]


@cache
def _java() -> tuple[Path, str]:
    """The same, and what it says of its version."""
    java = _java_command()
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"Java {MINIMUM_JAVA} or later is needed; {java} does not run: {error}") from error
    said = answer.stdout + answer.stderr
    major = java_major(said)
    if major is None or major < MINIMUM_JAVA:
        found = "prints no version" if major is None else f"is version {major}"
        raise SetupError(f"Java {MINIMUM_JAVA} or later is needed; {java} {found}")
    return Path(java), said


def java_major(text: str) -> int | None:
    """The major version in the output of `java -version` (8 for the old form 1.8), or None."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def _java_command() -> str:
    java_home = os.environ.get("JAVA_HOME")
    if java_home:
        return str(Path(java_home) / "bin" / "java")
    found = shutil.which("java")
    if found is None:
        raise SetupError(f"Java {MINIMUM_JAVA} or later is needed; no java on PATH, and JAVA_HOME is not set")
    return found


def _folder(jar_set: JarSet) -> Path:
    return home() / "jars" / jar_set.name


def _fetch(jar_set: JarSet, folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=f"{jar_set.name}.", dir=folder.parent) as scratch:
        work = Path(scratch)
        said = _run_ivy(jar_set, work)
        jars = sorted((work / "libs").glob("*.jar"))
        _check_complete(jar_set, folder, jars, said)
        for jar in jars:
            if not zipfile.is_zipfile(jar):
                raise SetupError(_refusal(jar_set, jar_set.artifacts, f"{jar.name} is not a jar"))
        (work / "libs").rename(folder)


def _run_ivy(jar_set: JarSet, work: Path) -> str:
    """The line of its output that tells most, and the file that has all of it."""
    (work / "ivysettings.xml").write_text(ivy_settings(os.environ.get("MIRROR_LEDGER_MAVEN")))
    (work / "ivy.xml").write_text(ivy_module(jar_set))
    command = [
        *(str(check_java()), "-cp", str(_ivy_jar()), "org.apache.ivy.Main"),
        *("-settings", str(work / "ivysettings.xml"), "-ivy", str(work / "ivy.xml")),
        # One cache per set: Ivy does not lock its cache, and two sets may be fetched at once.
        *("-cache", str(home() / "ivy" / jar_set.name), "-confs", "default"),
        *("-retrieve", str(work / "libs" / "[artifact]-[revision](-[classifier]).[ext]")),
    ]
    log = home() / "ivy" / f"{jar_set.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with log.open("w") as output:
            run = subprocess.run(
                command, stdout=output, stderr=subprocess.STDOUT, timeout=FETCH_TIMEOUT_S, check=False
            )
    except subprocess.TimeoutExpired as error:
        reason = f"no end after {FETCH_TIMEOUT_S} s"
        raise SetupError(_refusal(jar_set, jar_set.artifacts, reason)) from error
    said = f"{telling_line(log.read_text(errors='replace'))} (all that Ivy printed: {log})"
    if run.returncode != 0:
        raise SetupError(_refusal(jar_set, jar_set.artifacts, said))
    return said


def ivy_settings(repository: str | None) -> str:
    """Settings with one resolver: the public Maven repository, or the one that is named."""
    root = f" root={quoteattr(repository)}" if repository else ""
    return (
        '<ivysettings><settings defaultResolver="maven"/><resolvers>'
        f'<ibiblio name="maven" m2compatible="true"{root}/>'
        "</resolvers></ivysettings>\n"
    )


def ivy_module(jar_set: JarSet) -> str:
    """The module descriptor that asks Ivy for a set."""
    dependencies = "".join(
        f"<dependency org={quoteattr(artifact.organisation)} name={quoteattr(artifact.name)}"
        f' rev={quoteattr(artifact.revision)} conf="default->default(*)"/>'
        for artifact in jar_set.artifacts
    )
    excludes = "".join(
        f"<exclude org={quoteattr(organisation)} module={quoteattr(module)}/>"
        for organisation, module in jar_set.excludes
    )
    return (
        f'<ivy-module version="2.0"><info organisation="mirror-ledger" module={quoteattr(jar_set.name)}/>'
        f'<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}{excludes}</dependencies></ivy-module>\n"
    )


def telling_line(output: str) -> str:
    """The line of Ivy's output that says most about a failure."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = (line for pattern in TELLING_LINES for line in lines if pattern.search(line))
    return next(telling, lines[-1] if lines else "Ivy printed nothing")


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")
    places = spec.submodule_search_locations if spec else None
    jars = sorted(Path(places[0]).glob("jars/ivy-*.jar")) if places else []
    if not jars:
        raise SetupError("PySpark's Ivy jar is missing and no JVM artifact can be fetched; reinstall pyspark")
    return jars[-1]


def _check_complete(jar_set: JarSet, folder: Path, jars: Sequence[Path], reason: str) -> None:
    names = {jar.name for jar in jars}
    absent = [artifact for artifact in jar_set.artifacts if artifact.jar not in names]
    if absent:
        raise SetupError(_refusal(jar_set, absent, reason))
    if len(jars) < jar_set.minimum_jars:
        counted = f"{len(jars)} jars, at least {jar_set.minimum_jars} expected in {folder}"
        raise SetupError(_refusal(jar_set, jar_set.artifacts, f"{counted}; {reason}"))


def _refusal(jar_set: JarSet, artifacts: Sequence[Artifact], reason: str) -> str:
    names = ", ".join(str(artifact) for artifact in artifacts)
    return f"cannot get {names} ({jar_set.name}): {reason}; nothing was installed"


# Class archive ------------------------------------------------------------------------------------
# Archives of loaded classes (Java's class data sharing): a JVM that maps one starts in half the time.
#
# An archive fits one Java and one class path: its file is named after both. A JVM that has none, or one
# that does not fit, starts as without.


_SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")  # what is not archived is nobody's concern
_written: dict[str, Path] = {}


def options(name: str, jars: Sequence[Path]) -> tuple[str, ...]:
    """What a JVM with these jars on its class path is started with; none when there is no archive for it."""
    if name in _written:
        return (f"-XX:ArchiveClassesAtExit={_written[name]}", *_SILENT)
    return archived(name, jars)


def archived(name: str, jars: Sequence[Path]) -> tuple[str, ...]:
    """The same for a JVM that writes no archive itself, whatever is written just now."""
    archive = archive_file(name, jars)
    return (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *_SILENT) if archive.is_file() else ()


@contextmanager
def written(name: str, jars: Sequence[Path]) -> Iterator[None]:
    """JVMs of this name that start in the body write the archive when they end; it is there after the body."""
    archive = archive_file(name, jars)
    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_suffix(f".{os.getpid()}")
    _written[name] = unfinished
    try:
        yield
        if unfinished.is_file():
            unfinished.rename(archive)
            # Those of another Java or other jars; a JVM that has mapped one keeps it.
            for former in archive.parent.glob(f"{name}-*.jsa"):
                if former != archive:
                    former.unlink(missing_ok=True)
    finally:
        del _written[name]
        unfinished.unlink(missing_ok=True)


def archive_file(name: str, jars: Sequence[Path]) -> Path:
    """Where the archive for this Java and these jars is, or would be."""
    fits = hashlib.sha256(_java()[1].encode())
    for jar in jars:
        status = jar.stat()
        fits.update(f"{jar}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return home() / "classes" / f"{name}-{fits.hexdigest()[:16]}.jsa"
