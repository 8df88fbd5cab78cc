"""Places of a home's data: a local folder or a prefix of an object store, behind one class. Only this package accesses
the files of a home's data (design, 10).

A ``Store`` is a folder or a file. It gives the place in the spelling of each client: Arrow (``filesystem`` and
``path``), delta-rs (``uri`` and ``options``) and Spark (``spark``). Forcing files to disk, permissions and locks exist
for the local store alone; elsewhere these operations do nothing.
"""

from __future__ import annotations

from weft.store.local import FULL, LEAST_FREE, LocalStore, free_bytes
from weft.store.places import elsewhere, local_store, store_of, uri_of
from weft.store.s3 import S3Store
from weft.store.s3_access import S3Access
from weft.store.store import Store, storage_errors

__all__ = [
    "FULL",
    "LEAST_FREE",
    "LocalStore",
    "S3Access",
    "S3Store",
    "Store",
    "elsewhere",
    "free_bytes",
    "local_store",
    "storage_errors",
    "store_of",
    "uri_of",
]
