"""Every link in a document leads somewhere: to a file that is there, and to a heading in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pages import PAGES, anchors, links, name_of


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page.read_text()):
        assert "://" not in link, f"{link}: documents name papers and packages, and link to files"
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{link}: there is no such file"
        if anchor:
            assert anchor in anchors(target.read_text()), f"{link}: there is no such heading"


def test_every_document_can_be_reached_from_the_readme() -> None:
    reached, todo = set[Path](), [PAGES[0]]
    while todo:
        page = todo.pop()
        if page not in reached:
            reached.add(page)
            targets = [(page.parent / link.partition("#")[0]).resolve() for link in links(page.read_text())]
            todo += [target for target in targets if target.suffix == ".md" and target.is_file()]
    assert set(PAGES) <= reached
