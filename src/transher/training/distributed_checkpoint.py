"""The parts of a checkpoint as torch's Distributed Checkpoint writes them. It is imported when the first one is
written: that takes a second of CPU time, which a worker that starts again would wait for before it computes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from transher.files import write_safetensors
from transher.training.checkpoints import FORMAT


def write_files(folder: Path, tensors: Mapping[str, Tensor], file_of: Callable[[str], str], alone: bool) -> None:
    """This worker's tensors, by names that no other worker has, into the files that `file_of` names; `alone`: there
    are no others. Comes back when all have written."""
    with _plainly():
        save(dict(tensors), storage_writer=_Writer(folder, file_of), no_dist=alone)


@contextmanager
def _plainly() -> Iterator[None]:
    """Without torch's warning that a process is alone, which it was told; and what goes wrong on a worker, a full disk
    say, is raised as what it is, where torch wraps it into something that is not even an `Exception`."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        try:
            yield
        except CheckpointException as error:
            raise next(iter(error.failures.values()))[0] from None


class _Writer(HuggingFaceStorageWriter):
    """Straight from memory and with a hash: torch's own writer first copies all of a worker's tensors to bytes, which
    doubles its memory."""

    def __init__(self, folder: Path, file_of: Callable[[str], str]) -> None:
        super().__init__(str(folder), save_distributed=True)
        self._file_of = file_of

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        items: dict[str, dict[str, Tensor]] = {}
        for item in plan.items:
            found = planner.resolve_data(item)
            assert isinstance(found, Tensor)
            items.setdefault(self._file_of(item.index.fqn), {})[item.index.fqn] = found
        for name, tensors in items.items():
            arrays = {key: tensor.detach().cpu().contiguous().numpy() for key, tensor in tensors.items()}
            write_safetensors(Path(str(self.path)) / name, arrays, {"format": FORMAT})
        done: Future[list[WriteResult]] = Future()
        sizes = {item.index: item.tensor_data.size.numel() for item in plan.items if item.tensor_data}
        done.set_result([WriteResult(index, 4 * size, None) for index, size in sizes.items()])
        return done
