"""Which positives share a pool of negatives."""

from __future__ import annotations


def run_length(positives: int, pools: int) -> int:
    """How many positives, one after the other, share a pool: as many in all runs, but for the last."""
    run = -(-positives // pools) if pools else 0
    if not pools or (pools > 1 and (pools - 1) * run >= positives):
        raise ValueError(f"{positives} positives cannot be cut into {pools} runs of one length.")
    return run
