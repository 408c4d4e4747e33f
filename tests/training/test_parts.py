from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from tests.training.parts_worker import CASES, QUICK, main, random_graph

from transher.errors import InputError, UsageError
from transher.graph.preparing import prepare
from transher.training.part_trainer import PartTrainer
from transher.training.parts import Layout, TreeSum
from transher.training.plan import plan
from transher.training.recipe import Recipe
from transher.training.shard import shard_of
from transher.training.shard_files import (
    MODEL_POINTER,
    STATE_POINTER,
    load_parts,
    mapped_parts,
    save_parts,
    sweep_parts,
)
from transher.training.table import RowAdagradTable
from transher.workers import ALONE, _widest

ROOT = Path(__file__).parents[2]
TOO_LONG = 1800  # seconds, of a program that takes some ten


def launch(workers: int, *command: str) -> None:
    """Run a program by torchrun, and end it with all of its workers if it does not end itself."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(workers)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, *torchrun, *command], env=environment) as process:
        try:
            assert process.wait(timeout=TOO_LONG) == 0
        except BaseException:
            process.terminate()  # it then ends its workers, which a kill would leave behind
            try:
                process.wait(timeout=60)
            finally:
                process.kill()
            raise


Found = dict[int, dict[str, dict[str, object]]]


@pytest.fixture(scope="module")
def on_workers(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return found_on((1, 2, 3), tmp_path_factory.mktemp("parts"), "cpu")


def found_on(counts: Sequence[int], folder: Path, device: str) -> Found:
    """What trainings in parts come to on so many workers, the first of them in this process."""
    graph = random_graph()
    (folder / "text").mkdir()
    for split in ("train", "valid", "test"):
        lines = [f"e{h:03}\tr{r}\te{t:03}\n" for h, r, t in getattr(graph, split).tolist()]
        (folder / "text" / f"{split}.tsv").write_text("".join(lines))
    prepare([folder / "text"], folder / "prepared")
    main(folder, device)
    for workers in counts[1:]:
        launch(workers, str(Path(__file__).with_name("parts_worker.py")), str(folder), device)
    return {workers: json.loads((folder / f"found-{workers}.json").read_text()) for workers in counts}


@pytest.mark.parametrize("case", [*CASES, "prepared"])
@pytest.mark.parametrize("what", ["weights", "mrr", "best", "ranks", "ties", "best of ties", "pairs"])
def test_it_does_not_matter_how_many_workers_there_are(on_workers: Found, case: str, what: str) -> None:
    assert on_workers[1][case][what] == on_workers[2][case][what] == on_workers[3][case][what]


@pytest.mark.cuda
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_gpus_that_exchange_rows_by_nccl_come_to_what_one_comes_to(tmp_path: Path) -> None:
    alone, both = found_on((1, 2), tmp_path, "cuda").values()
    for case, found in alone.items():
        torch.testing.assert_close(
            torch.tensor(both[case]["pairs"]), torch.tensor(found["pairs"]), atol=1e-3, rtol=1e-3
        )


def test_parts_share_workers_in_order() -> None:
    assert [list(Layout(5, 2).of(worker)) for worker in range(2)] == [[0, 1], [2, 3, 4]]
    assert Layout(8, 3).nodes(1) == [(0, 2), (0, 3), (0, 4)] or Layout(8, 3).nodes(1) == [(1, 1), (0, 4)]
    assert Layout(4, 1).nodes(0) == [(2, 0)]
    assert [len(Layout(2, 3).of(worker)) for worker in range(3)] == [0, 1, 1]


@pytest.mark.parametrize("parts", [2, 3, 5, 8])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_sums_do_not_depend_on_who_adds(parts: int, workers: int) -> None:
    generator = torch.Generator().manual_seed(parts)
    ids = [torch.randperm(40, generator=generator)[:20].sort().values for _ in range(parts)]
    rows = [torch.randn(20, 3, generator=generator) for _ in range(parts)]
    alone = TreeSum(parts, [(0, part) for part in range(parts)], ids, 40)
    nodes, node_ids, sums = [], [], []
    for worker in range(workers):
        own = Layout(parts, workers).of(worker)
        partial = TreeSum(parts, [(0, part) for part in own], [ids[part] for part in own], 40)
        nodes += partial.nodes
        node_ids += partial.ids
        sums += partial([rows[part] for part in own])
    together = TreeSum(parts, nodes, node_ids, 40)
    assert torch.equal(together.ids[0], alone.ids[0])
    assert torch.equal(together(sums)[0], alone(rows)[0])
    dense = torch.zeros(40, 3)
    for part in range(parts):
        dense[ids[part]] += rows[part]
    torch.testing.assert_close(alone(rows)[0], dense[alone.ids[0]])


def trainer(folder: Path, *settings: str, resume: bool = False) -> PartTrainer:
    recipe = Recipe().with_settings([*QUICK, "training.parts=3", *settings])
    shard = shard_of(random_graph(), recipe.training, range(3))
    return PartTrainer(shard, recipe, folder, ALONE, resume=resume)


def test_a_resumed_training_reaches_the_same_bits(tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    for folder in (whole, stopped):
        folder.mkdir()
    trainer(whole).run()
    first = trainer(stopped)
    for step in range(7):
        first.train_step(first.batches.at(step), step)
        first.progress.step += 1
    first.save()
    trainer(stopped, resume=True).run()
    for one, other in zip(mapped_parts(whole, STATE_POINTER), mapped_parts(stopped, STATE_POINTER), strict=True):
        assert all(torch.equal(one[key], other[key]) for key in one)


def test_a_checkpoint_that_no_pointer_names_is_not_there(tmp_path: Path) -> None:
    one = trainer(tmp_path)
    one.progress.step = 1
    one.save()
    half = tmp_path / "checkpoint" / "step-00000002"
    half.mkdir()
    (half / "part-0000.safetensors").write_bytes(b"half of it")
    sweep_parts(tmp_path, STATE_POINTER)
    assert [folder.name for folder in (tmp_path / "checkpoint").iterdir()] == ["step-00000001"]
    trainer(tmp_path, resume=True)


def test_a_second_checkpoint_of_a_step_spares_the_first_until_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    one = trainer(tmp_path)
    one.save()
    with monkeypatch.context() as patch:
        patch.setattr("transher.training.distributed_checkpoint.write_safetensors", full)
        with pytest.raises(OSError, match="No space left"):
            one.save()
    trainer(tmp_path, resume=True).save()
    assert len(list((tmp_path / "checkpoint").iterdir())) == 1


@pytest.mark.parametrize("wrong", [torch.zeros(1, 1, 4), torch.full((1,), float("nan"))], ids=["a shape", "NaN"])
def test_a_checkpoint_that_does_not_fit_or_is_not_finite_is_refused(tmp_path: Path, wrong: torch.Tensor) -> None:
    one = trainer(tmp_path)
    state = one._state()
    state[1]["relations"] = wrong if wrong.ndim > 1 else wrong.expand(state[1]["relations"].shape).contiguous()
    save_parts(tmp_path, STATE_POINTER, state, {"step": 0}, ALONE)
    with pytest.raises(InputError, match=r"does not fit|not finite"):
        trainer(tmp_path, resume=True)


def test_a_part_that_was_changed_is_refused(tmp_path: Path) -> None:
    one = trainer(tmp_path)
    one.save()
    path = next((tmp_path / "model").glob("*/part-0001.safetensors"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match="hash"):
        load_parts(tmp_path, MODEL_POINTER, one._learned())


def test_parts_need_drawn_negatives() -> None:
    with pytest.raises(UsageError, match=r"training\.parts"):
        Recipe().with_settings(
            ["model.name=complex", "training.loss=cross-entropy", "training.negatives=all", "training.parts=2"]
        )


def test_row_adagrad_keeps_one_number_per_row() -> None:
    table = RowAdagradTable(torch.ones(4, 3))
    table.push(torch.tensor([1, 3]), torch.tensor([[3.0, 0, 0], [1, 1, 1]]), lr=0.5)
    assert table.state["sum"].shape == (4, 1)
    assert table.state["sum"][:, 0].tolist() == [0, 3, 0, 1]
    torch.testing.assert_close(table.weight[1], torch.tensor([1 - 0.5 * 3**0.5, 1, 1]))
    torch.testing.assert_close(table.weight[3], torch.full((3,), 0.5))


def test_the_narrowest_processor_decides() -> None:
    wide, narrow = ["avx512", "avx512", "avx2", "portable"], ["avx2", "avx2", "portable"]
    assert _widest({"avx512", "avx2"}, [wide, narrow]) == "avx2"
    assert _widest({"avx512"}, [wide, wide]) == "avx512"
    assert _widest({"avx512", "torch"}, [wide, ["torch"]]) == "torch"


def test_a_plan_adds_up() -> None:
    one = plan(100_000_000, 200, 16, relations=0)
    assert one.table_bytes == pytest.approx(5e9)
    assert one.state_bytes == pytest.approx(10e9)
    assert plan(100_000_000, 200, 1, relations=0).sent == 0
    assert plan(100_000_000, 200, 16, optimizer="row-adagrad").state_bytes < 0.01 * one.state_bytes
