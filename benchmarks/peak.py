"""The kernels against what this machine can do at best: vector operations in registers, and memory bandwidth."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.formulations import CrossAlone
from benchmarks.settings import Settings, say
from benchmarks.timing import in_turns
from transher import kernels
from transher.kernels import native

# Vector operations per vector of elements. Forward: multiply-subtract, clear the sign, add. Backward:
# multiply-subtract, take the sign and put it on the upstream gradient (one operation in AVX-512, which has a bit
# operation of three operands, two elsewhere), one addition and two multiply-adds into three sums. Portable code has no
# multiply-add, and takes two operations for each.
OPERATIONS = {"avx512": (3, 5), "avx2": (3, 6), "portable": (4, 9)}
BATCH, NEGATIVES = 1024, 256
LOOPS = ("multiply-add", "forward", "backward")


def measure(settings: Settings) -> dict[str, Any]:
    if native.module is None:
        return settings.record({"failed": "there is no native module"})
    module = native.module
    threads, lanes, k = native.threads(), module.lanes(), 512 if settings.quick else 1500
    say(f"{native.backend()}: {lanes} floats a vector, {threads} threads; kernels at {BATCH} × {NEGATIVES} × {k}")
    counts: dict[str, float] = {}
    cross = CrossAlone(kernels.scaled_l1_cross, BATCH, NEGATIVES, k)
    q, s, e = (tensor.detach() for tensor in cross.inputs)
    dq, ds, de = (torch.empty_like(tensor) for tensor in (q, s, e))
    # The kernels themselves, without autograd: its share shows in the training step.
    sides: dict[str, Callable[[], Any]] = {name: _loop(kind, threads, counts) for kind, name in enumerate(LOOPS)}
    sides["forward kernel"] = lambda: kernels.scaled_l1_cross(q, s, e)
    sides["backward kernel"] = lambda: module.scaled_l1_backward(threads, (q, s), e, None, cross.upstream, (dq, ds), de)
    memory = torch.ones((1 << 27) if settings.quick else (1 << 28))
    copy = torch.empty_like(memory)
    sides["read"] = lambda: module.read_all(threads, memory)
    sides["copy"] = lambda: copy.copy_(memory)
    times = in_turns(sides, settings, settings.left, rounds=8)

    vectors = BATCH * NEGATIVES * k / lanes
    forward, backward = OPERATIONS[native.backend()]
    speed = {name: counts[name] / times[name]["best"] for name in LOOPS}
    speed["forward kernel"] = vectors / times["forward kernel"]["best"]
    speed["backward kernel"] = vectors / times["backward kernel"]["best"]
    multiply_adds = speed["multiply-add"]
    both = vectors * (forward + backward) / (times["forward kernel"]["best"] + times["backward kernel"]["best"])
    return settings.record(
        {
            "backend": native.backend(),
            "lanes": lanes,
            "threads": threads,
            "shape": [BATCH, NEGATIVES, k],
            "operations": {"forward": forward, "backward": backward},
            "multiply_adds_per_second": multiply_adds,
            "elements_per_second": {name: lanes * value for name, value in speed.items() if name != "multiply-add"},
            "share_of_multiply_add": {
                "forward": speed["forward kernel"] * forward / multiply_adds,
                "backward": speed["backward kernel"] * backward / multiply_adds,
                "both": both / multiply_adds,
            },
            "share_of_own_operations": {
                "forward": speed["forward kernel"] / speed["forward"],
                "backward": speed["backward kernel"] / speed["backward"],
                "both": (1 / speed["forward"] + 1 / speed["backward"])
                / (1 / speed["forward kernel"] + 1 / speed["backward kernel"]),
            },
            "read_bytes_per_second": 4 * memory.numel() / times["read"]["best"],
            "copy_bytes_per_second": 8 * memory.numel() / times["copy"]["best"],
            "times": times,
        }
    )


def _loop(kind: int, threads: int, counts: dict[str, float]) -> Callable[[], None]:
    """A loop that takes about as long as the kernels: on a busy machine, a longer one would find no quiet moment, and
    the kernels would look better than they are. How many vectors went through it is put into `counts`."""
    rounds = 2_000
    start = time.perf_counter()
    native.loaded().peak(threads, kind, rounds)
    rounds = max(500, int(rounds * 0.005 / (time.perf_counter() - start)))

    def run() -> None:
        counts[LOOPS[kind]] = native.loaded().peak(threads, kind, rounds)

    return run
