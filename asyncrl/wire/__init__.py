"""Nouns to bytes and back: checked, bounded, never able to run code. The door to msgpack."""

from asyncrl.wire.codec import PROTOCOL_VERSION
from asyncrl.wire.limits import CHECKPOINT_LIMITS, DEFAULT_LIMITS, WEIGHT_LIMITS, WireLimits
from asyncrl.wire.nouns import (
    decode_failure,
    decode_job,
    decode_result,
    decode_tree,
    decode_weights,
    encode_failure,
    encode_job,
    encode_result,
    encode_tree,
    encode_tree_parts,
    encode_weights,
    fingerprint,
)
from asyncrl.wire.runs import decode_run, encode_run, run_fingerprint

__all__ = [
    "CHECKPOINT_LIMITS",
    "DEFAULT_LIMITS",
    "PROTOCOL_VERSION",
    "WEIGHT_LIMITS",
    "WireLimits",
    "decode_failure",
    "decode_job",
    "decode_result",
    "decode_run",
    "decode_tree",
    "decode_weights",
    "encode_failure",
    "encode_job",
    "encode_result",
    "encode_run",
    "encode_tree",
    "encode_tree_parts",
    "encode_weights",
    "fingerprint",
    "run_fingerprint",
]
