"""Every link in a document leads to an existing file and to an existing heading."""

from __future__ import annotations

from pathlib import Path

from docs.pages import PAGES, anchors, links, name_of


def _wrong(page: Path, link: str) -> str | None:
    """Return the fault of a link, or None."""
    if "://" in link:
        return "documents name papers and packages, and link to files"
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists():
        return "there is no such file"
    return "there is no such heading" if anchor and anchor not in anchors(target.read_text()) else None


def test_links_lead_somewhere() -> None:
    found = [(page, link, _wrong(page, link)) for page in PAGES for link in links(page.read_text())]
    wrong = [f"{name_of(page)}: {link}: {what}" for page, link, what in found if what]
    assert not wrong, "\n".join(["", *wrong])


def test_every_document_can_be_reached_from_the_readme() -> None:
    reached, todo = set[Path](), [PAGES[0]]
    while todo:
        page = todo.pop()
        if page not in reached:
            reached.add(page)
            targets = [(page.parent / link.partition("#")[0]).resolve() for link in links(page.read_text())]
            todo += [target for target in targets if target.suffix == ".md" and target.is_file()]
    assert set(PAGES) <= reached
