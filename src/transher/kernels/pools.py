"""Which positives share a pool of negatives: positive i goes with pool i // ⌈B/P⌉. In C++: native/backend.h."""

from __future__ import annotations


def run_length(positives: int, pools: int) -> int:
    """⌈B/P⌉: how many positives, one after the other, share a pool; as many in all runs, but for the last."""
    run = -(-positives // pools) if pools else 0
    if not pools or (pools > 1 and (pools - 1) * run >= positives):
        raise ValueError(f"{positives} positives cannot be cut into {pools} runs of one length.")
    return run


def pool_count(positives: int, wanted: int) -> int:
    """How many pools, `wanted` or fewer, such that each has a run of positives."""
    return -(-positives // -(-positives // wanted)) if positives else 1
