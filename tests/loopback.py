"""Ports of this machine, and a server that handles each connection in a separate thread."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

_LOOK_SECONDS = 0.05
_JOIN_SECONDS = 5.0


@contextlib.contextmanager
def talking(talk: Callable[[socket.socket], None], over: threading.Event, seconds: float) -> Iterator[int]:
    """Yield a port on which ``talk`` handles every connection, until ``over`` is set at the end of the block.

    If the other side sends nothing for ``seconds``, the connection ends with TimeoutError.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_LOOK_SECONDS)
        threads = []

        def accept() -> None:
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    line, _ = listener.accept()
                    line.settimeout(seconds)
                    threads.append(threading.Thread(target=talk, args=(line,), daemon=True))
                    threads[-1].start()

        acceptor = threading.Thread(target=accept, daemon=True)
        acceptor.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            over.set()
            acceptor.join()
            for each in threads:
                each.join(_JOIN_SECONDS)


def free_ports(count: int) -> list[int]:
    """Return ports that no program uses at the moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in sockets]
