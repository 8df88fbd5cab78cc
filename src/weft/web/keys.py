"""Convert numbers in the paths of pages."""

from __future__ import annotations

from starlette.convertors import Convertor, register_url_convertor


class _Key(Convertor[int]):
    """An ID or an ordinal: ``{query_id:key}``.  A longer number gives the status 404."""

    regex = "[0-9]{1,18}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("key", _Key())
