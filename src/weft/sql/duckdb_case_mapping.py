"""Define UPPER and LOWER of a text ``x`` in DuckDB with the results of Spark.

DuckDB maps single letters, according to DuckDB's version of Unicode.  Spark maps some letters to several letters ('ß'
to 'SS'), maps a sigma at the end of a word to 'ς', and maps the letters of Unicode 16.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

_SEVERAL: Final = (
    0xDF,
    0x149,
    0x1F0,
    0x390,
    0x3B0,
    0x587,
    *range(0x1E96, 0x1E9B),
    *range(0x1F50, 0x2000),
    *range(0xFB00, 0xFB18),
)
"""Code points of letters whose upper case can be several letters."""
_LATER: Final = {"ƛ": "\ua7dc", "ɤ": "\ua7cb", "\u1c8a": "\u1c89", "\ua7cd": "\ua7cc", "\ua7db": "\ua7da"} | {
    chr(0x10D70 + place): chr(0x10D50 + place) for place in range(22)
}
"""The letters of Unicode 16 that DuckDB does not map, in lower case, and their upper case."""
_CASED: Final = r"\p{Lu}\p{Ll}\p{Lt}"
_PASSED_OVER: Final = r"\p{Mn}\p{Me}\p{Cf}\p{Lm}\p{Sk}'.:·’"
"""Characters that may occur within a word but are not letters of the word."""
_FINAL_SIGMA: Final = rf"([{_CASED}][{_PASSED_OVER}]*)Σ([{_PASSED_OVER}]*(?:[^{_CASED}{_PASSED_OVER}]|$))"


def _written(letters: dict[str, str], text: str) -> str:
    """Return SQL that replaces each key of ``letters`` in ``text`` by its value."""
    return reduce(lambda sql, pair: f"replace({sql}, '{pair[0]}', '{pair[1]}')", letters.items(), text)


def _where(letters: dict[str, str], special: str, plain: str) -> str:
    """Return SQL that applies ``special`` to texts with any of these letters, and ``plain`` to other texts."""
    return f"CASE WHEN regexp_matches(x, '[{''.join(letters)}]') THEN {special} ELSE {plain} END"


_CAPITALS: Final = {chr(code): chr(code).upper() for code in _SEVERAL if len(chr(code).upper()) > 1} | _LATER
_SMALL: Final = {"İ": "i̇"} | {capital: small for small, capital in _LATER.items()}
_SIGMAS: Final = "regexp_replace(x, '" + _FINAL_SIGMA.replace("'", "''") + r"', '\1ς\2', 'g')"

UPPER: Final = _where(_CAPITALS, f"system.main.upper({_written(_CAPITALS, 'x')})", "system.main.upper(x)")
"""SQL that converts ``x`` to upper case."""
LOWER: Final = _where(_SMALL | {"Σ": "σ"}, f"system.main.lower({_written(_SMALL, _SIGMAS)})", "system.main.lower(x)")
"""SQL that converts ``x`` to lower case."""
