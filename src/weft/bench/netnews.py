"""A NetNews of any size, the same for the same seed: 3,800 messages a day, the paper's table (section 6.2.1).

Six of ten messages are replies, most of them to something recent; a group in fifty is comp.databases; the age of a
message is its number, so that "four weeks old" moves through the table at the pace at which it grows.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import STRING, TIMESTAMP, DataType

PER_DAY: Final = 3_800
DAY: Final = 86_400_000_000
BEGIN: Final = 733_968_000_000_000  # 1993-04-05 00:00 UTC
COLUMNS: Final[tuple[tuple[str, DataType], ...]] = (
    ("msgid", STRING),
    ("sender", STRING),
    ("subject", STRING),
    ("date", TIMESTAMP),
    ("newsgroup", STRING),
    ("inreplyto", STRING),
    ("body", STRING),
)
GROUPS: Final = (
    "comp.databases",
    "comp.sys.ibm.pc.hardware",
    "comp.sys.mac.hardware",
    "comp.sys.sun.admin",
    *(f"misc.group{number:02d}" for number in range(46)),
)


def arrival(number: int) -> int:
    """The ts of message ``number``, microseconds UTC."""
    return BEGIN + number * DAY // PER_DAY


def messages(first: int, count: int, seed: int = 1992) -> pa.Table:
    """Messages ``first`` to ``first + count - 1``: the columns of the table, with _own_time and _seq."""
    random = np.random.default_rng((seed, first))
    numbers = np.arange(first, first + count, dtype=np.int64)
    instants = BEGIN + numbers * DAY // PER_DAY
    parents = numbers - 1 - random.exponential(2_000, count).astype(np.int64)
    is_reply = (random.random(count) < 0.6) & (parents >= 0)
    groups = pa.array(GROUPS).take(pa.array(random.integers(0, len(GROUPS), count)))
    words = pa.array([f"word{number}" for number in range(997)])
    text = [words.take(pa.array(random.integers(0, 997, count))) for _ in range(8)]
    return pa.table(
        {
            "msgid": _ids(numbers),
            "sender": pc.binary_join_element_wise("user", _text(random.integers(0, 5_000, count)), ""),
            "subject": pc.binary_join_element_wise(text[0], text[1], text[2], " "),
            "date": pa.array(instants, pa.timestamp("us", "UTC")),
            "newsgroup": groups,
            "inreplyto": pc.if_else(pa.array(is_reply), _ids(parents), pa.scalar(None, pa.string())),
            "body": pc.binary_join_element_wise(*text, " "),
            "_own_time": pa.array(instants),
            "_seq": pa.array(np.arange(count, dtype=np.int64)),
        }
    )


def _ids(numbers: np.ndarray) -> pa.Array:  # type: ignore[type-arg]
    # A multiplication spreads the ids: sorted ids would compress and prune as real ones never do.
    spread = (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    return pc.binary_join_element_wise(_text(spread), _text(numbers), "@news.example", ".")


def _text(values: np.ndarray) -> pa.Array:  # type: ignore[type-arg]
    return pc.cast(pa.array(values), pa.string())
