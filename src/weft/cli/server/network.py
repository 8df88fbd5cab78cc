"""Run commands on the server that WEFT_URL names, with the token in WEFT_TOKEN.

The server prints with the same code as a local command.  A file with a query or with rows travels as stdin.
"""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ssl import SSLCertVerificationError
from typing import Final
from urllib.parse import SplitResult, urlsplit

from weft.cli.server import address
from weft.cli.server.client import STDIN, OutputFailed, print_refusal, printed, terminal_fields
from weft.errors import Refused, WeftError

URL: Final = "WEFT_URL"
TOKEN: Final = "WEFT_TOKEN"
_CONNECT_SECONDS: Final = 20.0
_UNKNOWN_AUTHORITY: Final = range(18, 22)
"""The codes of OpenSSL for certificates that no known authority has signed."""


class ServerFailed(WeftError):
    """The server of WEFT_URL cannot be reached, or refuses the request."""


def run_over_network(arguments: Sequence[str]) -> int | None:
    """Run the command on the server of WEFT_URL, and return its exit code.

    Return None without WEFT_URL, and for a command that needs no home.
    """
    if not os.environ.get(URL) or address.wants_help(arguments) or arguments[0] in address.NO_HOME:
        return None
    try:
        return _run(arguments)
    except WeftError as error:
        return print_refusal(arguments, error)
    except OutputFailed as error:
        from weft.cli.troubles import print_unexpected

        return print_unexpected(error.reason)


def _run(arguments: Sequence[str]) -> int:
    if not address.runs_on_server(arguments, elsewhere=True):
        raise Refused(
            f"`weft {arguments[0]}` works on the machine of a home, but {URL} is set",
            hint=f"Run the command there, or unset {URL}.",
        )
    words, stdin = with_file_as_stdin(arguments)
    code = _sent(words, stdin)
    if code == STDIN:
        from weft.cli.terminal import own_stdin

        code = _sent(words, own_stdin())
    if not isinstance(code, int):
        raise Refused("the server does not run this command for clients", hint="Run it on the machine of the home.")
    return code


def with_file_as_stdin(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """Replace the value of ``--file`` by ``-``, and return the content of the file.  Raise Refused for a bad file.

    >>> with_file_as_stdin(["try", "-f", "-"])
    (['try', '-f', '-'], None)
    """
    words, content = list(arguments), None
    for number, word in enumerate(arguments):
        if word == "--":
            break
        option, equals, value = word.partition("=")
        if word in ("-f", "--file") and number + 1 < len(words):
            value, words[number + 1] = words[number + 1], "-"
        elif option == "--file" and equals:
            words[number] = "--file=-"
        elif word.startswith("-f") and len(word) > 2:
            value, words[number] = word[2:], "-f-"
        else:
            continue
        content = None if value == "-" else _content(value)
    return words, content


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except OSError as error:
        raise Refused(f"the file cannot be read: {error.strerror}", where=path, hint="Name a file.") from None
    except UnicodeDecodeError:
        raise Refused("the file is not UTF-8 text", where=path) from None


def _sent(arguments: Sequence[str], stdin: str | None) -> object:
    there = urlsplit(os.environ[URL])
    connection = _connection(there)
    body = json.dumps({**terminal_fields(), "arguments": list(arguments), "stdin": stdin})
    token = os.environ.get(TOKEN)
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    begun = False
    try:
        connection.request("POST", f"{there.path.rstrip('/')}/api/v1/commands", body, headers)
        response = connection.getresponse()
        if response.status != 200:
            raise _refusal(response)
        if connection.sock is not None:
            connection.sock.settimeout(None)
        begun = True
        return printed(response)
    except SSLCertVerificationError as error:
        hint = f"Check the name of the server in {URL}, and the certificate there."
        if error.verify_code in _UNKNOWN_AUTHORITY:
            hint = "Name a file with the certificate of its authority in SSL_CERT_FILE, in PEM format."
        message = f"the certificate of the server is not valid: {error.verify_message}"
        raise ServerFailed(message, where=os.environ[URL], hint=hint) from None
    except (OSError, HTTPException, ValueError) as error:
        what = "the server ended during this command" if begun else "the server cannot be reached"
        hint = f"Check {URL}, and whether `weft serve --http` runs there."
        raise ServerFailed(f"{what}: {error}", where=os.environ[URL], hint=hint) from None
    finally:
        connection.close()


def _connection(there: SplitResult) -> HTTPConnection:
    """Return a connection.  Raise Refused for an address over which a token would travel in the open."""
    if there.scheme not in ("http", "https") or not there.hostname:
        raise Refused(f"{URL} is not the address of a server", where=there.geturl(), hint="Write https://HOST[:PORT].")
    try:
        port = there.port
    except ValueError:
        raise Refused(f"{URL} has no valid port", where=there.geturl(), hint="Write https://HOST[:PORT].") from None
    if there.scheme == "https":
        return HTTPSConnection(there.hostname, port, timeout=_CONNECT_SECONDS)
    if not _is_local(there.hostname):
        raise Refused(
            f"{URL} begins with http://, so others could read your token", where=there.geturl(), hint="Use https://."
        )
    return HTTPConnection(there.hostname, port, timeout=_CONNECT_SECONDS)


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refusal(response: HTTPResponse) -> WeftError:
    """Return the error in a problem document."""
    try:
        said = json.loads(response.read())
        message, hint = str(said["detail"]), said.get("hint")
    except (ValueError, KeyError, TypeError, AttributeError):
        return ServerFailed(
            f"this is not the address of a Weft server: status {response.status}", where=os.environ[URL]
        )
    if response.status == 401:
        token = f"Set {TOKEN} to a token from `weft token create`."
        return Refused(message, hint=f"{token} A home without users takes the key in its file page.key instead.")
    return (Refused if response.status < 500 else ServerFailed)(message, hint=hint)
