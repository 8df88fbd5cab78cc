"""Generate a NetNews as files of a news spool (RFC 1036). The same seed gives the same articles.

The articles resemble real ones. More articles arrive by day than by night. Six of ten articles reply to a recent
article in the same group, and replies form chains. A few articles are posted to two groups.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from typing import Final

BEGIN: Final = datetime(1993, 4, 5, tzinfo=timezone.utc)
GROUPS: Final = {
    "comp.databases": (
        "temporal join",
        "B-tree locking",
        "SQL views",
        "query optimizer",
        "deadlocks",
        "null semantics",
    ),
    "comp.sys.ibm.pc.hardware": ("IDE or SCSI", "486 upgrade", "parity errors", "local bus", "tape backup"),
    "comp.sys.mac.hardware": ("Quadra clock", "LC III memory", "monitor pinout", "floppy noise"),
    "comp.sys.sun.admin": ("NIS trouble", "sendmail rules", "disk quotas", "automounter"),
    "sci.space": ("shuttle launch", "Hubble repair", "orbit tables", "moon base"),
    "rec.bicycles": ("wheel truing", "commuting in rain", "gear ratios"),
}
_WEIGHTS: Final = (20, 22, 14, 12, 20, 12)
_PEOPLE: Final = ("ada", "bruno", "chen", "dora", "emil", "fatima", "goran", "hana", "ivan", "jun", "kim", "lena")
_HOURLY: Final = (2, 1, 1, 1, 1, 1, 2, 4, 8, 10, 11, 11, 9, 10, 11, 11, 10, 9, 7, 6, 6, 5, 4, 3)
"""The relative traffic of each hour of the day (UTC)."""
_REPLIES: Final = 0.6
_CROSSPOSTS: Final = 0.04


@dataclass(frozen=True)
class Article:
    """An article. The last ID in ``references`` belongs to the article that this article answers."""

    msgid: str
    sender: str
    subject: str
    date: datetime
    groups: tuple[str, ...]
    references: tuple[str, ...] = ()
    body: str = ""

    def text(self) -> str:
        """Return the article in the format of RFC 1036."""
        headers = [
            "Path: news.example.org!not-for-mail",
            f"From: {self.sender}@example.org ({self.sender.title()})",
            f"Newsgroups: {','.join(self.groups)}",
            f"Subject: {self.subject}",
            f"Message-ID: <{self.msgid}>",
            f"Date: {format_datetime(self.date)}",
        ]
        if self.references:
            headers.append("References: " + " ".join(f"<{each}>" for each in self.references))
        headers.append(f"Lines: {len(self.body.splitlines())}")
        return "\n".join(headers) + "\n\n" + self.body + "\n"


@dataclass
class _State:
    chance: random.Random
    recent: dict[str, list[Article]] = field(default_factory=dict)
    number: int = 0


def articles(days: int, per_day: int, seed: int = 1992) -> Iterator[Article]:
    """Yield the articles of ``days`` days in the order of their dates. Each day has about ``per_day`` articles."""
    state = _State(random.Random(seed))
    for day in range(days):
        for second in sorted(_seconds(state.chance, per_day)):
            yield _article(state, BEGIN + timedelta(days=day, seconds=second))


def _seconds(chance: random.Random, per_day: int) -> list[int]:
    hours = chance.choices(range(24), _HOURLY, k=max(1, round(chance.gauss(per_day, per_day / 6))))
    return [hour * 3_600 + chance.randrange(3_600) for hour in hours]


def _article(state: _State, date: datetime) -> Article:
    chance = state.chance
    group = chance.choices(tuple(GROUPS), _WEIGHTS)[0]
    known = state.recent.setdefault(group, [])
    state.number += 1
    sender = chance.choice(_PEOPLE)
    msgid = f"{date:%Y%b%d}.{state.number}@example.org"
    groups: tuple[str, ...] = (group,)
    if known and chance.random() < _REPLIES:
        # Most replies answer an article of the last hours, but some replies answer an article of an earlier day.
        age = min(len(known) - 1, int(chance.expovariate(0.25)))
        parent = known[-1 - age]
        subject = parent.subject if parent.subject.startswith("Re: ") else f"Re: {parent.subject}"
        article = Article(msgid, sender, subject, date, groups, (*parent.references[-5:], parent.msgid))
        body = f"In article <{parent.msgid}> {parent.sender} writes:\n> {parent.subject}\n\nI have seen this, too."
    else:
        if chance.random() < _CROSSPOSTS:
            groups = (group, chance.choice([other for other in GROUPS if other != group]))
        article = Article(msgid, sender, f"{chance.choice(GROUPS[group])}, question {state.number}", date, groups)
        body = "Has anyone solved this?\nThanks in advance."
    article = replace(article, body=body)
    known.append(article)
    return article


def write_spool(articles: Iterable[Article], folder: Path, numbers: dict[str, int]) -> int:
    """Write articles as a news spool, with files such as ``folder/comp/databases/17``. Return the number of files.

    ``numbers`` maps each group to its last article number. The function updates this mapping.
    """
    files = 0
    for article in articles:
        for group in article.groups:
            numbers[group] = numbers.get(group, 0) + 1
            place = folder.joinpath(*group.split("."))
            place.mkdir(parents=True, exist_ok=True)
            (place / str(numbers[group])).write_text(article.text(), encoding="utf-8")
            files += 1
    return files
