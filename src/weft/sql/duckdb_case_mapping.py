"""UPPER and LOWER in DuckDB as Spark has them, of a text ``x``.

DuckDB turns letter by letter, as its edition of Unicode has them.  Spark turns some letters into several ('ß' into
'SS'), the sigma at the end of a word into 'ς', and knows letters of Unicode 16.
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
"""Where the letters are that become several."""
_LATER: Final = {"ƛ": "\ua7dc", "ɤ": "\ua7cb", "\u1c8a": "\u1c89", "\ua7cd": "\ua7cc", "\ua7db": "\ua7da"} | {
    chr(0x10D70 + place): chr(0x10D50 + place) for place in range(22)
}
"""Letters of Unicode 16: a small one, and its capital."""
_CASED: Final = r"\p{Lu}\p{Ll}\p{Lt}"
_PASSED_OVER: Final = r"\p{Mn}\p{Me}\p{Cf}\p{Lm}\p{Sk}'.:·’"
"""What stands within a word without being a letter of it."""
_FINAL_SIGMA: Final = rf"([{_CASED}][{_PASSED_OVER}]*)Σ([{_PASSED_OVER}]*(?:[^{_CASED}{_PASSED_OVER}]|$))"


def _written(letters: dict[str, str], text: str) -> str:
    """SQL of a text with other letters in the place of some."""
    return reduce(lambda sql, pair: f"replace({sql}, '{pair[0]}', '{pair[1]}')", letters.items(), text)


def _where(letters: dict[str, str], special: str, plain: str) -> str:
    """SQL: the one of texts with any of these letters, the other of the rest."""
    return f"CASE WHEN regexp_matches(x, '[{''.join(letters)}]') THEN {special} ELSE {plain} END"


_CAPITALS: Final = {chr(code): chr(code).upper() for code in _SEVERAL if len(chr(code).upper()) > 1} | _LATER
_SMALL: Final = {"İ": "i̇"} | {capital: small for small, capital in _LATER.items()}
_SIGMAS: Final = "regexp_replace(x, '" + _FINAL_SIGMA.replace("'", "''") + r"', '\1ς\2', 'g')"

UPPER: Final = _where(_CAPITALS, f"system.main.upper({_written(_CAPITALS, 'x')})", "system.main.upper(x)")
"""The capitals of ``x``."""
LOWER: Final = _where(_SMALL | {"Σ": "σ"}, f"system.main.lower({_written(_SMALL, _SIGMAS)})", "system.main.lower(x)")
"""The small letters of ``x``."""
