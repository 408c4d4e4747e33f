"""How rows lie when a kernel reads them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

VECTOR = 16  # Triton reads four numbers at once where rows begin at multiples of this many
INTERLEAVED = 128  # numbers of one table, and then of the other, where two tables are interleaved
_BEYOND = 256  # numbers that a kernel may read beyond the end, to throw them away: that costs less than to ask


def packed(parts: tuple[Tensor, ...], block: int, step: int) -> Tensor:
    """Parts (n, k) → (blocks, k, parts, block), padded with zeros to whole blocks and to a multiple of `step`
    coordinates: one coordinate of a block's rows lies in one piece."""
    return _in_blocks(parts, block, step).permute(0, 3, 2, 1).contiguous()


def packed_by_fours(parts: tuple[Tensor, ...], block: int, step: int) -> Tensor:
    """As `packed`, with four coordinates of a row side by side, to be read at once: (blocks, k / 4, parts, block, 4).
    `step` is a multiple of four."""
    fours: Tensor = _in_blocks(parts, block, step).unflatten(3, (-1, 4))
    return fours.permute(0, 3, 2, 1, 4).contiguous()


def _in_blocks(parts: tuple[Tensor, ...], block: int, step: int) -> Tensor:
    """(blocks, block, parts, k), padded."""
    n, k = parts[0].shape
    whole: Tensor = pad(torch.stack(parts, 1), (0, -k % step, 0, 0, 0, -n % block))
    blocks: Tensor = whole.unflatten(0, (-1, block))
    return blocks


def aligned(rows: Tensor, columns: int = VECTOR) -> Tensor:
    """A copy of rows (n, k) with columns of zeros, so that each has a multiple of so many and begins at a multiple of
    16 numbers; behind the last one, some more numbers may be read."""
    n, k = rows.shape
    width = k + -k % columns
    room = rows.new_zeros(n * width + _BEYOND)
    copy = room[: n * width].view(n, width)
    copy[:, :k] = rows
    return copy


def interleaved(first: Tensor, second: Tensor) -> Tensor:
    """Two tables (n, k) as one `aligned` table, in which 128 columns of the one are followed by those of the other: one
    address serves both."""
    parts = torch.stack([pad(part, (0, -part.shape[1] % INTERLEAVED)) for part in (first, second)], 1)
    return aligned(parts.unflatten(2, (-1, INTERLEAVED)).transpose(1, 2).flatten(1))


def roomy(numbers: Tensor) -> Tensor:
    """A copy of numbers (n, m) behind which some more may be read."""
    return pad(numbers.reshape(-1), (0, _BEYOND))[: numbers.numel()].view(numbers.shape)


def begins(ids: Tensor, width: int) -> Tensor:
    """Where the rows ids (n,) of an aligned table of this width begin, in steps of 16 numbers: in 32 bits there is room
    for 34 billion numbers, and an address is one instruction."""
    return (ids * (width // VECTOR)).int()


class Occurrences(NamedTuple):
    """Where each of U rows occurs in a list of ids: row u at places[starts[u]:starts[u + 1]], ascending. To sum by it,
    rather than by atomic additions, gives the same bits each time."""

    places: Tensor  # int64 (n,)
    starts: Tensor  # int64 (U + 1,)

    @classmethod
    def of(cls, ids: Tensor, rows: int) -> Occurrences:
        found, places = torch.sort(ids.reshape(-1), stable=True)
        return cls(places, torch.searchsorted(found, torch.arange(rows + 1, device=ids.device)))


def refuse_misfits(*rows: Tensor, ids: Tensor | None = None) -> None:
    """An error where rows do not have the same width, or ids (…) are not those of the last ones. On a GPU, where asking
    would wait for all that is under way, a wrong id stops the program at some later time."""
    if len({part.shape[1] for part in rows}) > 1:
        raise ValueError(f"rows must have one width, and have {', '.join(str(part.shape[1]) for part in rows)}.")
    if ids is None or not ids.numel():
        return
    right = ((ids >= 0) & (ids < len(rows[-1]))).all()
    if ids.device.type != "cpu":
        torch._assert_async(right, "an index lies beyond the rows")
    elif not right:
        raise IndexError(f"an index lies beyond the {len(rows[-1])} rows.")
