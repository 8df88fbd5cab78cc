"""Define DuckDB expressions for UPPER and LOWER of a text ``x`` that give the same results as Spark.

DuckDB replaces each letter by one letter, and uses an older version of Unicode.  Spark replaces some letters by several
letters ('ß' by 'SS'), and a sigma at the end of a word by 'ς'.  Spark also maps the letters of Unicode 16.
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
"""Code points of letters whose upper case may consist of several letters."""
_LATER: Final = {"ƛ": "\ua7dc", "ɤ": "\ua7cb", "\u1c8a": "\u1c89", "\ua7cd": "\ua7cc", "\ua7db": "\ua7da"} | {
    chr(0x10D70 + place): chr(0x10D50 + place) for place in range(22)
}
"""Lower case letters of Unicode 16 that DuckDB does not convert, with their upper case."""
_CASED: Final = r"\p{Lu}\p{Ll}\p{Lt}"
_PASSED_OVER: Final = r"\p{Mn}\p{Me}\p{Cf}\p{Lm}\p{Sk}'.:·’"
"""Characters that can occur inside a word but are not letters."""
_FINAL_SIGMA: Final = rf"([{_CASED}][{_PASSED_OVER}]*)Σ([{_PASSED_OVER}]*(?:[^{_CASED}{_PASSED_OVER}]|$))"


def _written(letters: dict[str, str], text: str) -> str:
    return reduce(lambda sql, pair: f"replace({sql}, '{pair[0]}', '{pair[1]}')", letters.items(), text)


def _where(letters: dict[str, str], special: str, plain: str) -> str:
    return f"CASE WHEN regexp_matches(x, '[{''.join(letters)}]') THEN {special} ELSE {plain} END"


_CAPITALS: Final = {chr(code): chr(code).upper() for code in _SEVERAL if len(chr(code).upper()) > 1} | _LATER
_SMALL: Final = {"İ": "i̇"} | {capital: small for small, capital in _LATER.items()}
_SIGMAS: Final = "regexp_replace(x, '" + _FINAL_SIGMA.replace("'", "''") + r"', '\1ς\2', 'g')"

UPPER: Final = _where(_CAPITALS, f"system.main.upper({_written(_CAPITALS, 'x')})", "system.main.upper(x)")
"""An SQL expression for ``x`` in upper case."""
LOWER: Final = _where(_SMALL | {"Σ": "σ"}, f"system.main.lower({_written(_SMALL, _SIGMAS)})", "system.main.lower(x)")
"""An SQL expression for ``x`` in lower case."""
