"""Seeds derived from names, so that who does the work never matters to what work is done."""

from __future__ import annotations

import hashlib


def derive_seed(*parts: int | str) -> int:
    """Return a seed in [0, 2**63) that depends on every part and on their order.

    The same parts give the same seed on every machine; parts that differ anywhere give, for all
    practical purposes, different ones (BLAKE2b). Rollouts use (run seed, job id, environment index,
    episode number within the job).
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        kind = b"s" if isinstance(part, str) else b"i"  # a NumPy integer is the same number
        text = str(part).encode()
        digest.update(kind + len(text).to_bytes(4, "little") + text)
    return int.from_bytes(digest.digest(), "little") >> 1
