"""What several workers cost and keep: `python -m benchmarks.distributed WHAT`, which is
bits, kills, costs, memory, machine, ahead, prepare, namespaces or simulate.

Writes results/distributed-*.json; `simulate` writes a picture too, from the measured costs. Workers of one machine
share its cores: what counts here is CPU time, bytes, bits and memory, and no speed-up.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from scipy.optimize import nnls

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
ENVIRONMENT = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"}


def torchrun(workers: int, *command: str, script: Sequence[str] = ("-m", "transher"), restarts: int = 0) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--monitor-interval", "0.1"]
    return [*launcher, "--nproc-per-node", str(workers), "--max-restarts", str(restarts), *script, *command]


def settings(values: dict[str, Any]) -> list[str]:
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def write_triples(path: Path, entities: int, relations: int, triples: int) -> None:
    generator = np.random.default_rng(0)
    columns = [generator.integers(0, size, triples) for size in (entities, relations, entities)]
    lines = (f"e{h}\tr{r}\te{t}\n" for h, r, t in zip(*columns, strict=True))
    path.write_text("".join(lines), "utf-8")


def write_graph_folder(folder: Path) -> None:
    """A small graph with one validation triple: whoever measures steps does not wait for rankings."""
    folder.mkdir()
    write_triples(folder / "train.tsv", 2000, 20, 20000)
    (folder / "valid.tsv").write_text("e1\tr1\te2\n")


def digest(run: Path, pointer: str = "checkpoint.json") -> str:
    """Of weights and optimiser state, in the order of parts."""
    from transher.training.shard_files import mapped_parts

    found = hashlib.sha256()
    for part in mapped_parts(run, pointer):
        for key in sorted(part):
            found.update(part[key].numpy().tobytes())
    return found.hexdigest()


QUICK = {
    "model.k": 32, "training.steps": 300, "training.batch": 256, "training.negatives": 64, "training.parts": 4,
    "validation.every": 100, "validation.report_every": 10, "validation.patience": 0,
}  # fmt: skip


def bits(folder: Path) -> dict[str, Any]:
    """Digests after a training on 1 to 4 workers, and after one that was stopped and resumed on 4, 1 and 2."""
    write_graph_folder(folder / "graph")
    found: dict[str, Any] = {}
    for workers in (1, 2, 3, 4):
        run = folder / f"run-{workers}"
        command = ["train", str(folder / "graph"), "--out", str(run), "--sharded", *settings(QUICK)]
        subprocess.run(torchrun(workers, *command), env=ENVIRONMENT, check=True, capture_output=True)
        found[str(workers)] = digest(run)
    run = folder / "resumed"
    command = ["train", str(folder / "graph"), "--out", str(run), "--sharded", *settings(QUICK)]
    for workers, until in ((4, 100), (1, 200), (2, None)):
        process = subprocess.Popen(torchrun(workers, *command), env=ENVIRONMENT, stderr=subprocess.DEVNULL)
        while process.poll() is None and (until is None or last_step(run) < until):
            time.sleep(0.02)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait()
    found["4, 1, 2"] = digest(run)
    return {"digests": found, "identical": len(set(found.values())) == 1}


def last_step(run: Path) -> int:
    try:
        lines = (run / "history.jsonl").read_text("utf-8").splitlines()
        return int(json.loads(lines[-1])["step"]) if lines else 0
    except (OSError, ValueError):
        return 0


MOMENTS = [
    (0, "before ids, rows or gradients are exchanged", 1),
    (1, "after ids, rows or gradients are exchanged", 203),
    (0, "after a step", 37),
    (1, "before ids, rows or gradients are exchanged", 75),
    (0, "before a validation", 1),
    (1, "after a validation", 2),
    (0, "before a checkpoint", 2),
    (1, "before a checkpoint", 3),
    (0, "in the middle of writing a part", 2),
    (1, "in the middle of writing a part", 3),
    (1, "before the workers find each other", 1),
    (0, "before a part is in its place", 2),
    (1, "before a part is in its place", 1),
    (0, "after all have written their parts", 2),
    (1, "after all have written their parts", 3),
    (0, "before a checkpoint is read", 1),
    (0, "before the pointer is in its place", 2),
    (0, "before an old checkpoint is removed", 4),
    (0, "after a checkpoint", 2),
    (1, "after a checkpoint", 3),
    (1, "after a step", 1),
    (1, "before the run is concluded", 1),
]


def kills(folder: Path) -> dict[str, Any]:
    """One training on two workers, of which one is killed in each attempt, at an operation of its own. An attempt that
    is killed while it starts, as two of them are, has no time to resume in."""
    write_graph_folder(folder / "graph")
    values = {**QUICK, "training.steps": 800, "training.parts": 2, "validation.every": 20}
    command = ["train", str(folder / "graph"), "--sharded", *settings(values), "--out"]
    whole, killed, moments = folder / "whole", folder / "killed", folder / "moments.json"
    subprocess.run(torchrun(2, *command, str(whole)), env=ENVIRONMENT, check=True, capture_output=True)
    moments.write_text(json.dumps(MOMENTS))
    script = [str(ROOT / "tests/runs/killed_worker.py"), str(moments)]
    launcher = torchrun(2, *command, str(killed), script=script, restarts=len(MOMENTS))
    start = time.monotonic()
    done = subprocess.run(launcher, env=ENVIRONMENT, capture_output=True, text=True)
    found = []
    for attempt, (worker, operation, count) in enumerate(MOMENTS):
        told: dict[str, Any] = {"worker": worker, "operation": operation, "time": count}
        died, resumed = folder / f"killed-{attempt}", folder / f"resumed-{attempt + 1}"
        if died.exists() and resumed.exists():
            after = json.loads(resumed.read_text())
            seconds = after["time"] - json.loads(died.read_text())
            told |= {
                "seconds_to_new_results": round(seconds, 2),
                "of_which_first_worker_waited_for_a_core": round(after["waited"], 2),
                "without_that_wait": round(seconds - after["waited"], 2),
                "cpu_seconds_of_first_worker": round(after["computed"], 2),
            }
        found.append(told)
    resumed_again = [told for told in found if "seconds_to_new_results" in told]
    return {
        "kills": len(list(folder.glob("killed-*"))),
        "resumed_at_the_first_restart": len(resumed_again),
        "killed_again_while_it_started": sum(operation in STARTING for _, operation, _ in MOMENTS),
        "exit_code": done.returncode,
        "identical": killed.is_dir() and digest(whole) == digest(killed),
        "most_seconds_to_new_results": max(told["seconds_to_new_results"] for told in resumed_again),
        "most_seconds_without_waiting_for_a_core": max(told["without_that_wait"] for told in resumed_again),
        "seconds": round(time.monotonic() - start, 1),
        "load": os.getloadavg(),
        "moments": found,
    }


STARTING = ("before the workers find each other", "before a checkpoint is read")


def costs(folder: Path, steps: int = 120, rounds: int = 1) -> dict[str, Any]:
    """CPU time and bytes per step at 1,024 positives per worker and k = 200, against one process and the formula.
    Numbers of workers take turns. CPU time is taken over blocks of steps: the quietest block of all rounds counts,
    since other work, which takes caches and half of a core's units, only adds to it. The median is told too.

    Two workers keep both cores busy, and that alone makes each slower: so one process is also measured beside another
    one that trains for itself. `transport` is the CPU time of gloo's own threads, which only move bytes."""
    graph = folder / "graph.tsv"
    write_triples(graph, 200_000, 500, 600_000)
    told: dict[int, list[dict[str, Any]]] = {workers: [] for workers in (1, 2, 3, 4)}
    beside: list[float] = []
    for _ in range(rounds):
        for workers, rows in told.items():
            rows.append(on_workers(workers, "costs-worker", "--folder", str(graph), "--steps", str(steps)))
        with ThreadPoolExecutor(2) as pool:
            command = "costs-worker", "--folder", str(graph), "--steps", str(3 * steps)  # they do not end together
            both = [pool.submit(on_workers, 1, *command) for _ in range(2)]
            beside += [block for one in both for block in one.result()["cpu_ms"][: steps // BLOCK]]
    measured: dict[str, Any] = {}
    for workers, rows in told.items():
        blocks = [block for row in rows for block in row.pop("cpu_ms")]
        measured[str(workers)] = {
            "cpu_ms_per_step_and_worker": round(min(blocks), 3),
            "median": round(float(np.median(blocks)), 3),
            **{key: round(float(np.median([row[key] for row in rows])), 4) for key in rows[0]},
        }
    for by, more in (("cpu_ms_per_step_and_worker", "more_cpu_than_one_process"), ("median", "more_by_the_median")):
        for found in measured.values():
            found[more] = round(found[by] / measured["1"][by] - 1, 3)
    for found in measured.values():
        found["more_cpu_than_one_beside_another"] = round(found["cpu_ms_per_step_and_worker"] / min(beside) - 1, 3)
    together = {"cpu_ms_per_step": round(min(beside), 3), "median": round(float(np.median(beside)), 3)}
    return {
        "beside_another": together,
        "steps": steps,
        "block": BLOCK,
        "rounds": rounds,
        "load": os.getloadavg(),
        "by_workers": measured,
    }


BLOCK = 20  # steps over which CPU time is taken


def on_workers(workers: int, *command: str) -> dict[str, Any]:
    """What the first worker of a command of this module says."""
    launcher = torchrun(workers, *command, script=["-m", "benchmarks.distributed"])
    done = subprocess.run(launcher, env=ENVIRONMENT, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    said: dict[str, Any] = json.loads(re.findall(r"^\{.*\}$", done.stdout, re.MULTILINE)[-1])
    return said


def costs_worker(file: Path, steps: int) -> None:
    """One of the workers of `costs`: trains a little, then measures."""
    import torch

    from transher.graph import load_graph
    from transher.training.part_trainer import PartTrainer
    from transher.training.parts import Layout
    from transher.training.plan import plan
    from transher.training.recipe import Recipe
    from transher.training.shard import shard_of
    from transher.training.trainer import Trainer
    from transher.workers import together

    with together() as workers:
        recipe = Recipe().with_settings(
            {
                "model.k": 200, "training.batch": 1024 * workers.count, "training.negatives": 256,
                "training.parts": workers.count, "training.gradient_share": 0.1,
            }
        )  # fmt: skip
        graph = load_graph(file, fractions=(1.0, 0.0, 0.0))
        run = Path(tempfile.mkdtemp(dir=file.parent))
        if workers.count == 1:
            trainer: Trainer = Trainer(graph, recipe, run)
        else:
            own = Layout(recipe.training.parts, workers.count).of(workers.index)
            trainer = PartTrainer(shard_of(graph, recipe.training, own), recipe, run, workers)
        for step in range(20):
            trainer.train_step(trainer.batches.at(step), step)
        moved, sent, clock, marks = transport_seconds(), workers.sent, time.monotonic(), [time.process_time()]
        for step in range(20, 20 + steps):
            trainer.train_step(trainer.batches.at(step), step)
            if (step + 1) % BLOCK == 0:
                marks.append(time.process_time())
        clock, sent, moved = time.monotonic() - clock, workers.sent - sent, transport_seconds() - moved
        trainer.batches.settle()
        blocks = workers.gather(torch.tensor(marks, dtype=torch.float64).diff()).mean(0)
        by_formula = plan(200_000, 200, workers.count, relations=len(graph.relations), batch=1024, negatives=256).sent
        if workers.first:
            told = {
                "cpu_ms": (1e3 * blocks / BLOCK).tolist(),
                "transport_ms_per_step": 1e3 * moved / steps,
                "wall_ms_per_step": 1e3 * clock / steps,
                "bytes_per_step": sent / steps,
                "bytes_by_formula": by_formula,
                "off_by": sent / steps / by_formula - 1 if by_formula else 0.0,
            }
            print(json.dumps(told), flush=True)


def transport_seconds() -> float:
    """CPU time of gloo's threads in this process."""
    ticks = 0
    for task in Path("/proc/self/task").iterdir():
        name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        if "gloo" in name:
            ticks += sum(map(int, rest.split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def memory(folder: Path, steps: int = 20) -> dict[str, Any]:
    """Peak memory per worker of a training with a validation and a checkpoint, and of one that resumes it, at 2.5M
    entities, 16M triples and k = 200."""
    from scripts.make_large_graph import write_graph

    write_graph(folder / "graph", held_out=50)
    command = [sys.executable, "-m", "transher", "prepare", str(folder / "graph"), "--out", str(folder / "prepared")]
    subprocess.run([*command, "--memory", "2GB"], check=True, capture_output=True)
    shutil.rmtree(folder / "graph")
    found = {}
    for workers in (2, 4):
        run = folder / f"run-{workers}"
        run.mkdir()
        told = {
            key: on_workers(workers, "memory-worker", "--folder", str(folder), "--steps", str(until))
            for key, until in (("trained", steps), ("resumed", steps + 2))
        }
        table = told["trained"]["table_gb"]
        limit = 3.2 * table / workers + 2
        peak = max(one["peak_gb"] for one in told.values())
        found[str(workers)] = {"limit_gb": round(limit, 2), "peak_gb": peak, "within": peak <= limit, **told}
        shutil.rmtree(run)
    return {"load": os.getloadavg(), "by_workers": found}


def memory_worker(folder: Path, steps: int) -> None:
    """One of the workers of `memory`; the largest peak of any of them is told."""
    import torch

    from transher.training.part_trainer import PartTrainer
    from transher.training.recipe import Recipe
    from transher.training.shard import read_shard
    from transher.training.shard_files import STATE_POINTER
    from transher.workers import together

    with together() as workers:
        run = folder / f"run-{workers.count}"
        values = {
            "model.k": 200, "training.batch": 1024 * workers.count, "training.negatives": 256, "training.steps": steps,
            "training.parts": workers.count, "validation.every": 10,
        }  # fmt: skip
        recipe = Recipe().with_settings(values)
        shard = read_shard(folder / "prepared", recipe.training, workers)
        trainer = PartTrainer(shard, recipe, run, workers, resume=(run / STATE_POINTER).is_file())
        trainer.run()
        peak = torch.tensor([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9])
        peaks = workers.gather(peak)[:, 0].tolist()
        if workers.first:
            table = 4 * sum(sharded.rows * sharded.width for sharded in trainer.sharded) / 1e9
            told = {
                "table_gb": round(table, 3),
                "peak_gb": round(max(peaks), 3),
                "peaks_gb": [round(p, 3) for p in peaks],
            }
            print(json.dumps(told), flush=True)


def prepare(folder: Path, triples: int, memory: str) -> dict[str, Any]:
    """Time and peak memory of `transher prepare` on a random graph."""
    sys.path.insert(0, str(ROOT))
    from scripts.make_large_graph import write_graph

    source, out = folder / "graph", folder / "prepared"
    write_graph(source, triples // 4, 1000, triples, 10_000)
    size = sum(path.stat().st_size for path in source.iterdir())
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [
        sys.executable,
        "-m",
        "transher",
        "prepare",
        str(source),
        "--out",
        str(out),
        "--memory",
        memory,
        "--json",
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "triples": triples,
        "text_bytes": size,
        "memory_limit": memory,
        "peak_gb": round(after.ru_maxrss * 1024 / 1e9, 3),
        "seconds": round(time.monotonic() - start, 1),
        "cpu_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "load_average": os.getloadavg()[0],
        "prepared": json.loads(done.stdout),
    }


def machine(folder: Path) -> dict[str, Any]:
    """A training on two launchers, each a machine with one worker, of which the second is killed with its worker: the
    first is to continue alone, to the bits of one process."""
    write_graph_folder(folder / "graph")
    values = {**QUICK, "training.steps": 500, "training.parts": 2, "validation.every": 50}
    train = ["train", str(folder / "graph"), "--sharded", *settings(values), "--out"]
    lost, whole = folder / "lost", folder / "whole"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1:2", "--nproc-per-node", "1"]
    launcher += ["--max-restarts", "3", "--monitor-interval", "0.1", "--rdzv-backend", "c10d", "--rdzv-id", "machine"]
    launcher += ["--rdzv-endpoint", f"localhost:{free_port()}"]
    conf = "last_call_timeout=3,keep_alive_interval=1,keep_alive_max_attempt=3"
    command = [*train, str(lost)]
    machines: list[subprocess.Popen[bytes]] = []
    for place in range(2):
        rendezvous = ["--rdzv-conf", f"{conf},is_host={1 - place}", "--local-addr", "127.0.0.1"]
        started = [*launcher, *rendezvous, "-m", "transher", *command]
        machines.append(subprocess.Popen(started, env=ENVIRONMENT, stderr=subprocess.DEVNULL))
        time.sleep(2)  # the first is to be the host
    while last_step(lost) < 200 and all(process.poll() is None for process in machines):
        time.sleep(0.05)
    reached = last_step(lost)
    written = (lost / "history.jsonl").stat().st_ino
    second = psutil.Process(machines[1].pid)
    gone = [second, *second.children(recursive=True)]
    for one in gone:
        one.kill()
    machines[1].wait()
    killed = time.monotonic()
    while machines[0].poll() is None and (lost / "history.jsonl").stat().st_ino == written:
        time.sleep(0.05)  # the history is written anew when a training is resumed
    seconds = time.monotonic() - killed
    code = machines[0].wait()
    subprocess.run(torchrun(1, *train, str(whole)), env=ENVIRONMENT, check=True, capture_output=True)
    return {
        "step_at_the_loss": reached,
        "processes_killed": len(gone),
        "seconds_to_continue_alone": round(seconds, 1),
        "exit_code": code,
        "load": os.getloadavg(),
        "identical": digest(lost) == digest(whole),
    }


def ahead(folder: Path) -> dict[str, Any]:
    """Two workers, of which the second has a narrower processor: which back end they agree on, and how many of the
    exchanges of ids happen while the step before them is computed."""
    write_graph_folder(folder / "graph")
    return on_workers(2, "ahead-worker", "--folder", str(folder), "--steps", "50")


def ahead_worker(folder: Path, steps: int) -> None:
    """One of the workers of `ahead`."""
    from transher.graph import load_graph
    from transher.kernels import native
    from transher.training.part_trainer import PartTrainer
    from transher.training.recipe import Recipe
    from transher.training.shard import shard_of
    from transher.workers import Workers, together

    own = native.backend()
    if os.environ["RANK"] == "1" and native.module is not None:
        native.module.choose("portable")
    spans: list[tuple[float, float]] = []
    swap = Workers.swap

    def timed(self: Workers, *arguments: Any, **named: Any) -> Any:
        start = time.monotonic()
        found = swap(self, *arguments, **named)
        if threading.current_thread() is not threading.main_thread():
            spans.append((start, time.monotonic()))
        return found

    Workers.swap = timed  # type: ignore[method-assign]
    with together() as workers:
        recipe = Recipe().with_settings({**QUICK, "model.k": 200, "training.batch": 2048, "training.parts": 2})
        shard = shard_of(load_graph(folder / "graph"), recipe.training, range(workers.index, workers.index + 1))
        trainer = PartTrainer(shard, recipe, Path(tempfile.mkdtemp(dir=folder)), workers)
        computing = []
        for step in range(steps):
            batch = trainer.batches.at(step)
            start = time.monotonic()
            trainer.train_step(batch, step)
            computing.append((start, time.monotonic()))
        trainer.batches.settle()
        inside = sum(any(first <= start and end <= last for first, last in computing) for start, end in spans)
        told = {"own": own, "agreed": native.backend(), "exchanges": len(spans), "while_a_step_computes": inside}
        if workers.first:
            print(json.dumps(told), flush=True)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return int(free.getsockname()[1])


def namespaces(folder: Path) -> dict[str, Any]:
    """One training over two network namespaces with 1 Gbit/s between them, against one process."""
    write_graph_folder(folder / "graph")
    for name in ("two", "one"):
        (folder / name).mkdir()
    train = ["train", str(folder / "graph"), "--sharded", *settings({**QUICK, "training.parts": 2}), "--out"]
    spaces = [f"transher{os.getpid()}{letter}" for letter in "ab"]
    try:
        for space in spaces:
            if subprocess.run(["ip", "netns", "add", space], capture_output=True).returncode:
                return {"skipped": "network namespaces are not allowed here"}
        link = f"ip link add v0 netns {spaces[0]} type veth peer name v1 netns {spaces[1]}"
        subprocess.run(link.split(), check=True)
        for place, space in enumerate(spaces):
            device = f"v{place}"
            for command in (
                f"ip addr add 10.77.0.{place + 1}/24 dev {device}",
                f"ip link set {device} up",
                "ip link set lo up",
                f"tc qdisc add dev {device} root tbf rate 1gbit burst 256kb latency 50ms",
            ):
                subprocess.run(["ip", "netns", "exec", space, *command.split()], check=True)
        processes = []
        for place, space in enumerate(spaces):
            launcher = ["ip", "netns", "exec", space, sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
            launcher += ["--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "10.77.0.1:29511"]
            launcher += [
                "--rdzv-id",
                "two",
                "--rdzv-conf",
                f"is_host={1 - place}",
                "--local-addr",
                f"10.77.0.{place + 1}",
                "-m",
                "transher",
                *train,
            ]
            environment = {**ENVIRONMENT, "GLOO_SOCKET_IFNAME": f"v{place}"}
            processes.append(subprocess.Popen([*launcher, str(folder / "two")], env=environment, stderr=sys.stderr))
        codes = [process.wait(timeout=1200) for process in processes]
        shown = subprocess.run(
            ["ip", "netns", "exec", spaces[0], "ip", "-s", "-j", "link", "show", "v0"], capture_output=True, text=True
        )
        sent = json.loads(shown.stdout)[0]["stats64"]["tx"]["bytes"]
    finally:
        for space in spaces:
            subprocess.run(["ip", "netns", "del", space], capture_output=True)
    subprocess.run(torchrun(1, *train, str(folder / "one")), env=ENVIRONMENT, check=True, capture_output=True)
    return {
        "exit_codes": codes,
        "bytes_sent_by_first": sent,
        "steps": QUICK["training.steps"],
        "identical": digest(folder / "two") == digest(folder / "one"),
    }


def simulate(picture: Path) -> dict[str, Any]:
    """Triples per second of 1 to 64 workers. A step takes the measured CPU time of one process, that of the exchange,
    and the time of its bytes and collectives on the network. The CPU time of an exchange is taken to have a share for
    every byte and one for every other worker: two unknowns, from what 2 and 4 workers measured; 3 workers check it."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from transher.training.plan import plan

    measured = json.loads((RESULTS / "distributed-costs.json").read_text("utf-8"))["by_workers"]
    cpu = {int(key): found["cpu_ms_per_step_and_worker"] for key, found in measured.items()}
    megabytes = {int(key): found["bytes_per_step"] / 1e6 for key, found in measured.items()}
    per_megabyte, per_worker = fitted({count: (megabytes[count], cpu[count] - cpu[1]) for count in (2, 4)})

    def computed(count: int, sent: float) -> float:
        return float(cpu[1] + per_megabyte * sent + per_worker * (count - 1))

    latency = 0.05  # ms of a collective on a network of one switch: assumed
    collectives = 2  # that a step waits for: rows and gradients
    workers = [1, 2, 4, 8, 16, 32, 64]
    figure, axes = plt.subplots(1, 2, figsize=(10, 4))
    rows = []
    for gigabits in (1, 10, 100):
        speeds = []
        for count in workers:
            planned = plan(100_000_000, 200, count)
            network = planned.milliseconds(gigabits) + (collectives * latency * np.log2(count))
            speeds.append(1024 * count / (computed(count, planned.sent / 1e6) + network) * 1e3)
            rows.append({"gbit": gigabits, "workers": count, "triples_per_second": round(speeds[-1])})
        axes[0].plot(workers, speeds, marker="o", label=f"{gigabits} Gbit/s")
    axes[0].plot(workers, [1024 * count / cpu[1] * 1e3 for count in workers], "k:", label="ideal")
    axes[0].set(xscale="log", yscale="log", xlabel="workers", ylabel="triples per second", title="k = 200, simulated")
    for entities in (1e6, 1e7, 1e8, 1e9):
        held = [plan(int(entities), 200, count).total_bytes / 1e9 for count in workers]
        axes[1].plot(workers, held, marker="o", label=f"{entities:.0e} entities")
    axes[1].set(
        xscale="log", yscale="log", xlabel="workers", ylabel="GB per worker", title="memory, Adam, by arithmetic"
    )
    for axis in axes:
        axis.legend()
        axis.grid(alpha=0.3)
    figure.tight_layout()
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture)
    checked = {
        str(count): {"predicted_cpu_ms": round(computed(count, megabytes[count]), 2), "measured": round(found, 2)}
        for count, found in cpu.items()
    }
    assumed = {
        "latency_ms": latency,
        "collectives": collectives,
        "compute_ms": round(cpu[1], 2),
        "exchange_ms_per_megabyte": round(per_megabyte, 3),
        "exchange_ms_per_other_worker": round(per_worker, 3),
    }
    return {"assumed": assumed, "fitted_on": [2, 4], "calibration": checked, "speeds": rows}


def fitted(exchanges: dict[int, tuple[float, float]]) -> tuple[float, float]:
    """Milliseconds per megabyte and per other worker, neither below 0, from those of some numbers of workers."""
    sizes = np.array([[sent, count - 1] for count, (sent, _) in exchanges.items()])
    found, _ = nnls(sizes, np.array([took for _, took in exchanges.values()]))
    return float(found[0]), float(found[1])


MEASUREMENTS = {
    "bits": bits, "kills": kills, "costs": costs, "memory": memory, "machine": machine, "ahead": ahead,
    "namespaces": namespaces,
}  # fmt: skip
WORKERS = {"costs-worker": costs_worker, "memory-worker": memory_worker, "ahead-worker": ahead_worker}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=[*MEASUREMENTS, "prepare", "simulate", *WORKERS])
    parser.add_argument("--triples", type=int, default=20_000_000)
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--steps", type=int, default=100)
    given = parser.parse_args()
    if given.what in WORKERS:
        WORKERS[given.what](given.folder, given.steps)
        return
    name = f"{given.what}-{given.triples // 1_000_000}M" if given.what == "prepare" else given.what
    folder = Path(tempfile.mkdtemp(prefix="transher-"))
    try:
        if given.what == "simulate":
            found = simulate(ROOT / "docs/images/beyond-one-machine.svg")
        elif given.what == "prepare":
            found = prepare(folder, given.triples, given.memory)
        else:
            found = MEASUREMENTS[given.what](folder)
    finally:
        shutil.rmtree(folder)
    (RESULTS / f"distributed-{name}.json").write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
