"""An IMAP server for tests: Dovecot from the system's packages, over a Maildir, on ports of its own."""

from __future__ import annotations

import imaplib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from getpass import getuser
from pathlib import Path

import pytest

from mail_server import authority, free_port

PASSWORD = "a päss word"
"""Not ASCII, so that the log-in must be by AUTHENTICATE."""


class ImapServer:
    """A running server with one user, ``ana``. ``port`` has STARTTLS, and ``tls_port`` is encrypted from the start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.tls_port = free_port(), free_port()
        # Dovecot gives no mail to root.
        self._user = "nobody" if os.geteuid() == 0 else getuser()
        group = subprocess.run(["id", "-gn", self._user], check=True, capture_output=True, text=True)
        self._group = group.stdout.strip()
        certificate = authority().issue_cert("127.0.0.1")
        certificate.private_key_pem.write_to_path(folder / "key.pem")
        certificate.cert_chain_pems[0].write_to_path(folder / "cert.pem")
        (folder / "dovecot.conf").write_text(_CONFIGURATION.format(**self._values()))
        (folder / "users").write_text(f"ana:{{PLAIN}}{PASSWORD}\n", encoding="utf-8")
        for each in (folder, *folder.iterdir()):
            if os.geteuid() == 0:
                shutil.chown(each, self._user, self._group)
        self.start()

    def _values(self) -> dict[str, object]:
        names = {"user": self._user, "group": self._group}
        return {"folder": self.folder, "port": self.port, "tls_port": self.tls_port, **names}

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        command = [_program(), "-F", "-c", str(self.folder / "dovecot.conf")]
        log = (self.folder / "out").open("w")
        if os.geteuid() == 0:
            command = ["setpriv", f"--reuid={self._user}", f"--regid={self._group}", "--clear-groups", *command]
        self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until = time.monotonic() + 20
        while True:
            try:
                imaplib.IMAP4("127.0.0.1", self.port, timeout=5).shutdown()
                return
            except OSError:
                assert time.monotonic() < until and self._process.poll() is None, self.log()
                time.sleep(0.1)

    def stop(self) -> None:
        """Stop the server."""
        self._process.terminate()
        self._process.wait(20)

    def log(self) -> str:
        """Return what the server wrote."""
        return "".join((self.folder / each).read_text() for each in ("out", "log") if (self.folder / each).exists())

    def uri(self, name: str = "INBOX", *, tls: bool = False) -> str:
        """Return the URI of a folder."""
        if tls:
            return f"imaps://ana@127.0.0.1:{self.tls_port}/{name}?password_env=ANA_PASSWORD"
        return f"imap://ana@127.0.0.1:{self.port}/{name}?password_env=ANA_PASSWORD&tls=off"

    @contextmanager
    def session(self) -> Iterator[imaplib.IMAP4]:
        """Yield a session of the user."""
        with imaplib.IMAP4("127.0.0.1", self.port, timeout=20) as client:
            client.authenticate("PLAIN", lambda _: b"\0ana\0" + PASSWORD.encode())
            yield client

    def append(self, *letters: bytes, name: str = "INBOX") -> None:
        """Append letters to a folder."""
        with self.session() as client:
            for each in letters:
                status, reply = client.append(name, "", "", each)
                assert status == "OK", reply


_CONFIGURATION = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols = imap
listen = 127.0.0.1
ssl = yes
ssl_cert = <{folder}/cert.pem
ssl_key = <{folder}/key.pem
disable_plaintext_auth = no
mail_location = maildir:{folder}/mail
default_internal_user = {user}
default_internal_group = {group}
default_login_user = {user}
first_valid_uid = 1
first_valid_gid = 1
passdb {{
  driver = passwd-file
  args = scheme=PLAIN username_format=%u {folder}/users
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={folder}
}}
service anvil {{
  chroot =
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
    ssl = yes
  }}
}}
"""


def _program() -> str:
    found = shutil.which("dovecot", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip("NOT TRIED ON AN IMAP SERVER: Dovecot is not installed (Debian: apt install dovecot-imapd)")
    return found


@contextmanager
def imap_server() -> Iterator[ImapServer]:
    """Run a server. If Dovecot is not installed, the test is skipped with a message."""
    _program()
    folder = Path(tempfile.mkdtemp(prefix="weft-imap-"))
    folder.chmod(0o755)
    server = ImapServer(folder)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
