"""Fork processes for the tests that kill a process, from a process that has already imported Weft.

In a new process, the import of Weft takes longer than the test. ``run`` replaces ``subprocess.run``: it forks a process
without open files and threads, sets the environment, and returns the exit code and the output. Use ``subprocess`` for a
process that must start like a user's process, or that needs a separate JVM.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import pkgutil
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PACKAGES = (
    "weft.api",
    "weft.catalog",
    "weft.cli",
    "weft.delivery",
    "weft.execution",
    "weft.extraction",
    "weft.storage",
)
OTHERS = ("deltalake", "duckdb", "pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet", "sqlalchemy.dialects.sqlite")


def run(command: Sequence[str], point: str | None = None, *, text: bool = False) -> subprocess.CompletedProcess[Any]:
    """Run ``[sys.executable, "-c" or "-m", …]`` in a forked process, killed at the failpoint; return its exit code.

    The result has the process's output, too, as ``subprocess.run`` returns it.
    """
    env = dict(os.environ) if point is None else {**os.environ, "WEFT_FAILPOINT": point}
    assert command[0] == sys.executable and command[1] in ("-c", "-m")
    with TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ("stdout", "stderr")]
        request = {"command": [*command[1:]], "env": env, "folder": os.getcwd(), "files": files}
        server = _server()
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        printed = [Path(file).read_bytes() for file in files]
    return subprocess.CompletedProcess(command, code, *(each.decode() if text else each for each in printed))


@functools.cache
def _server() -> subprocess.Popen[str]:
    program = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import forked; forked.serve()"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(_end, process)
    return process


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait()


def serve() -> None:
    """Fork a process for each request on the standard input and print its exit code."""
    for name in (*PACKAGES, *OTHERS):
        importlib.import_module(name)
    for name in PACKAGES:
        for each in pkgutil.walk_packages(sys.modules[name].__path__, f"{name}."):
            importlib.import_module(each.name)
    import pyarrow

    pyarrow.scalar(False)  # imports pandas, which takes as long as all else that a process imports
    while line := sys.stdin.readline():
        request = json.loads(line)
        child = os.fork()
        if not child:
            _work(**request)
            return
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _work(command: Sequence[str], env: Mapping[str, str], folder: str, files: Sequence[str]) -> None:
    """Run the command in this process."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_CREAT | os.O_WRONLY), number)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    kind, what, *arguments = command
    if kind == "-m":
        sys.argv = [what, *arguments]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.argv = ["-c", *arguments]
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
