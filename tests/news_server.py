"""A news server for tests: INN from the system's packages, with one group, on a port of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mail_server import authority, free_port

PROGRAMS = Path("/usr/lib/news/bin")
GROUP = "comp.lang.sql"


class NewsServer:
    """A running server. Whoever connects from this machine may offer articles, and read."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        for each in ("db", "etc", "run", "log", "tmp", "http", "spool/articles", "spool/overview", "spool/incoming"):
            (folder / each).mkdir(parents=True)
        for name, text in _FILES.items():
            (folder / name).write_text(text.format(folder=folder, port=self.port))
        certificate = authority().issue_cert("127.0.0.1")
        certificate.private_key_pem.write_to_path(folder / "etc/key.pem")
        certificate.cert_chain_pems[0].write_to_path(folder / "etc/cert.pem")
        (folder / "etc/key.pem").chmod(0o600)  # INN refuses a key that others may read
        # Debian's INN runs only in the group news.
        self._user = "news" if os.geteuid() == 0 else None
        if self._user is not None:
            subprocess.run(["chown", "-R", "news:news", str(folder)], check=True)
        subprocess.run(self._command("makedbz", "-i", "-o"), check=True, env=self._environment(), timeout=60)
        self.start()

    def _command(self, program: str, *options: str) -> list[str]:
        as_news = ["setpriv", "--reuid=news", "--regid=news", "--clear-groups"] if self._user else []
        return [*as_news, str(PROGRAMS / program), *options]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "INNCONF": str(self.folder / "etc/inn.conf")}

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        log = (self.folder / "out").open("w")
        command = self._command("innd", "-f", "-P", str(self.port))
        self._process = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment())
        until = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return
            except OSError:
                assert time.monotonic() < until and self._process.poll() is None, (self.folder / "out").read_text()
                time.sleep(0.1)

    def stop(self) -> None:
        """Stop the server."""
        self._process.kill()
        self._process.wait(20)

    def uri(self, group: str = GROUP) -> str:
        """Return the URI of a group."""
        return f"nntp://127.0.0.1:{self.port}/{group}?tls=off"

    def offer(self, msgid: str, article: bytes) -> None:
        """Offer an article (with LF line ends) as another server does. It is readable when the method returns."""
        text = article.replace(b"\n", b"\r\n")
        stuffed = b"".join(b"." + line if line.startswith(b".") else line for line in text.splitlines(keepends=True))
        with socket.create_connection(("127.0.0.1", self.port), 20) as connection:
            stream = connection.makefile("rwb")
            assert stream.readline().startswith(b"200")
            for sent, code in ((f"IHAVE {msgid}\r\n".encode(), b"335"), (stuffed + b".\r\n", b"235")):
                stream.write(sent)
                stream.flush()
                reply = stream.readline()
                assert reply.startswith(code), reply


_FILES = {
    "etc/inn.conf": """
pathhost: news.example.com
domain: example.com
fromhost: example.com
organization: test
complaints: news@example.com
server: 127.0.0.1
mta: "/bin/true %s"
pathnews: /usr/lib/news
pathbin: /usr/lib/news/bin
pathdb: {folder}/db
pathetc: {folder}/etc
pathfilter: {folder}/etc
pathrun: {folder}/run
pathlog: {folder}/log
pathhttp: {folder}/http
pathtmp: {folder}/tmp
pathspool: {folder}/spool
patharticles: {folder}/spool/articles
pathoverview: {folder}/spool/overview
pathincoming: {folder}/spool/incoming
pathoutgoing: {folder}/spool
ovmethod: tradindexed
hismethod: hisv6
enableoverview: true
port: {port}
bindaddress: 127.0.0.1
artcutoff: 0
pgpverify: false
nnrpdloadlimit: 0
tlscertfile: {folder}/etc/cert.pem
tlskeyfile: {folder}/etc/key.pem
""",
    "etc/storage.conf": "method tradspool {{\n    newsgroups: *\n    class: 0\n}}\n",
    "etc/newsfeeds": "ME:*::\n",
    "etc/incoming.conf": 'streaming: true\nmax-connections: 50\npeer ME {{\n    hostname: "127.0.0.1"\n}}\n',
    "etc/readers.conf": """
auth "local" {{
    hosts: "127.0.0.1"
    default: "<localhost>"
}}
access "all" {{
    users: "<localhost>"
    newsgroups: "*"
    access: "RPA"
}}
""",
    "etc/expire.ctl": "/remember/:11\n*:A:1:10:never\n",
    "etc/moderators": "",
    "etc/distrib.pats": "",
    "etc/nnrpd.track": "",
    "db/active": "".join(
        f"{name} 0000000000 0000000001 {mode}\n"
        for name, mode in (("control", "n"), ("control.cancel", "n"), ("junk", "n"), (GROUP, "y"))
    ),
    "db/active.times": "",
    "db/newsgroups": f"{GROUP}\tSQL\n",
    "db/history": "",
}


@contextmanager
def news_server() -> Iterator[NewsServer]:
    """Run a server. If INN is not installed, or may not run here, the test is skipped with a message."""
    if not (PROGRAMS / "innd").exists():
        pytest.skip("NOT TRIED ON A NEWS SERVER: INN is not installed (Debian: apt install inn2)")
    if os.geteuid() != 0 and pwd.getpwuid(os.geteuid()).pw_name != "news":
        pytest.skip("NOT TRIED ON A NEWS SERVER: Debian's INN runs only as the user news")
    folder = Path(tempfile.mkdtemp(prefix="weft-news-"))
    folder.chmod(0o755)
    server = NewsServer(folder)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
