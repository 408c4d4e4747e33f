"""A server under load for minutes: `make soak`. Clients ask without a pause, others never read their answers, runs are
replaced, a process is killed, and then the whole server, which is started again. Every answer must be that of one of
the two runs that were served, and none may be missing. The figures are in results/soak.json and docs/serving.md."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import torch
from tests.serving.conftest import _train
from tests.serving.process import Server
from tests.serving.test_operations import answered_by_all, workers_of

import transher
from transher.analysis.results import commit, machine

ROOT = Path(__file__).parents[2]
RESULTS, DOCUMENT = ROOT / "results" / "soak.json", ROOT / "docs" / "serving.md"
TOKEN = "a long secret"
HEADERS = {"authorization": f"Bearer {TOKEN}"}
CLIENTS, SILENT = 4, 20
PATIENCE = 300.0  # seconds that a client tries again while a server is being started on a busy machine
# When things happen, as shares of the time. Memory is looked at between the first two.
WARM, KILLED, RESTARTED = 0.2, 0.75, 0.85
QUESTIONS = [
    (head, relation)
    for head in ("France", "Germany", "Kenya", "Peru", "Japan", "Canada", "Egypt", "Norway")
    for relation in ("borders", "speaks", "uses_currency")
]


class Clients:
    """They ask without a pause, and try again what was refused or broken off."""

    def __init__(self, url: str, right: list[list[list[float]]]) -> None:
        """right: by run and question, the scores of the answers."""
        self.url, self.right = url, right
        self.stopping = threading.Event()
        self.seconds: list[float] = []
        self.found: Counter[str] = Counter()
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(CLIENTS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self.stopping.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, number: int) -> None:
        with httpx.Client(base_url=f"{self.url}/api", headers=HEADERS, timeout=60) as client:
            for place in itertools.count(number):
                if self.stopping.is_set():
                    return
                self._answered(client, place % len(QUESTIONS))

    def _answered(self, client: httpx.Client, place: int) -> None:
        end = time.monotonic() + PATIENCE
        self.found["asked"] += 1
        while time.monotonic() < end:
            start = time.perf_counter()
            try:
                answer = client.get(
                    "runs/served/predict", params=dict(zip(("head", "relation"), QUESTIONS[place], strict=True))
                )
            except httpx.TransportError:
                self.found["broken off"] += 1  # by a kill
                time.sleep(0.1)
                continue
            if answer.status_code in (429, 503):
                self.found["refused"] += 1
                time.sleep(float(answer.headers.get("retry-after", "1")))
                continue
            self.seconds.append(time.perf_counter() - start)
            scores = [fact["score"] for fact in answer.json().get("answers", ())]
            fits = answer.status_code == 200 and any(scores == run[place] for run in self.right)
            self.found["right" if fits else "wrong"] += 1
            return
        self.found["lost"] += 1


@contextmanager
def those_who_never_read(port: int, stopping: threading.Event) -> Iterator[None]:
    """Some connections that ask for much and read nothing, and are opened again when they are given up."""

    def stay() -> None:
        held: list[socket.socket] = []
        while not stopping.wait(5):
            for connected in held:
                connected.close()
            held = []
            for _ in range(SILENT):
                connected = socket.socket()
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                try:
                    connected.connect(("127.0.0.1", port))
                    connected.sendall(b"GET /api/openapi.json HTTP/1.1\r\nhost: localhost\r\n")
                    connected.sendall(b"authorization: Bearer %s\r\n\r\n" % TOKEN.encode())
                except OSError:  # the server is being started
                    connected.close()
                    continue
                held.append(connected)

    thread = threading.Thread(target=stay)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def start(folder: Path, port: int | None) -> Server:
    environment = {"TRANSHER_TOKEN": TOKEN, "TRANSHER_PROCESSES": "2"}
    return Server(str(folder), environment=environment, settings="", port=port)


def megabytes(server: Server) -> float:
    """Memory of all processes of a server, what they share counted once."""
    own, total = psutil.Process(server.process.pid), 0
    for one in (own, *own.children()):
        with suppress(psutil.NoSuchProcess):  # it has ended since
            total += one.memory_full_info().pss
    return total / 1e6


def slope(samples: list[tuple[float, float]]) -> float:
    """Megabytes per hour, of (seconds, megabytes)."""
    if len(samples) < 3:
        raise SystemExit("Memory was looked at too rarely to tell whether it grows: give it more --seconds.")
    seconds, memory = np.array(samples).T
    return float(np.polyfit(seconds, memory, 1)[0] * 3600)


def replace(folder: Path, by: Path, server: Server, found: Counter[str]) -> None:
    """Another run in the folder's place, and a request to serve it."""
    shutil.rmtree(folder)
    shutil.copytree(by, folder)

    def told() -> bool:
        return httpx.post(f"{server.url}/api/reload", headers=HEADERS, timeout=PATIENCE).status_code == 200

    answered_by_all(None, told)
    found["reloads"] += 1


def milliseconds(values: list[float], share: float) -> float:
    return round(1000 * float(np.quantile(values, share)), 2)


def timed(function: Callable[[int], object], times: int = 200) -> float:
    """The median time of a call, in milliseconds."""
    seconds = []
    for number in range(times):
        begun = time.perf_counter()
        function(number % len(QUESTIONS))
        seconds.append(time.perf_counter() - begun)
    return milliseconds(seconds, 0.5)


def kernel_times(run: transher.Run) -> dict[str, float]:
    """Of one question: the kernel alone, and an answer in Python."""
    names = run.graph.entities.identifiers, run.graph.relations.identifiers
    ids = [[array.index(name).as_py() for array, name in zip(names, asked, strict=True)] for asked in QUESTIONS]

    def kernel(place: int) -> object:
        anchor, relation = ids[place]
        return run.scorer.best(torch.tensor([anchor]), torch.tensor([relation]), "tail", 10)

    def asked(place: int) -> object:
        head, relation = QUESTIONS[place]
        return run.predict(head=head, relation=relation)

    return {"kernel": timed(kernel), "python": timed(asked)}


def scores(run: transher.Run) -> list[list[float]]:
    """Of the answers to each question."""
    return [run.predict(head=head, relation=relation)["score"].tolist() for head, relation in QUESTIONS]


def soak(seconds: float, folder: Path) -> dict[str, Any]:
    wholes = [_train(folder / model, model) for model in ("transher", "pairre")]
    served = folder / "served"
    right = [scores(transher.load(run)) for run in wholes]
    shutil.copytree(wholes[0], served)
    server = start(served, None)
    clients, stopping, told = Clients(server.url, right), threading.Event(), Counter[str]()
    samples: list[tuple[float, float]] = []
    begun, load = time.monotonic(), [os.getloadavg()[0]]
    with ExitStack() as running:
        running.callback(lambda: server.stop())
        running.enter_context(those_who_never_read(server.port, stopping))
        running.callback(clients.stop)
        clients.start()
        done: set[str] = set()
        for turn in itertools.count():
            share = (time.monotonic() - begun) / seconds
            if share >= 1:
                break
            # Not right after a replacement, when the former processes still answer what they have begun.
            if turn % 5 > 1 and WARM < share < KILLED:
                samples.append((time.monotonic() - begun, megabytes(server)))
            if turn % 5 == 4 and share < RESTARTED:
                replace(served, wholes[(turn // 5 + 1) % 2], server, told)
            if share > KILLED and "kill" not in done:
                done.add("kill")
                os.kill(workers_of(server.process.pid)[0], signal.SIGKILL)
                told["processes killed"] += 1
            if share > RESTARTED and "restart" not in done:
                done.add("restart")
                for victim in (*workers_of(server.process.pid), server.process.pid):
                    os.kill(victim, signal.SIGKILL)
                server.stop()
                server = start(served, server.port)
                told["servers killed and restarted"] += 1
            time.sleep(seconds / 60)
        clients.stop()
        metrics = httpx.get(f"{server.url}/api/metrics", headers=HEADERS, timeout=60).text
    load.append(os.getloadavg()[0])
    return {
        "seconds": round(time.monotonic() - begun),
        "load_average": {"before": round(load[0], 1), "after": round(load[1], 1)},  # of other programs, then of all
        "clients": CLIENTS,
        "silent_clients": SILENT,
        "requests": dict(sorted(clients.found.items())),
        "events": dict(sorted(told.items())),
        "milliseconds": {
            "p50": milliseconds(clients.seconds, 0.5),
            "p99": milliseconds(clients.seconds, 0.99),
            **kernel_times(transher.load(wholes[0])),
        },
        "memory": {
            "samples": len(samples),
            "megabytes_per_hour": round(slope(samples), 1),  # first: it tells if there are too few
            "first_megabytes": round(samples[0][1], 1),
            "last_megabytes": round(samples[-1][1], 1),
        },
        "errors_500": sum(line.count('status="500"') for line in metrics.splitlines()),
    }


def paragraph(found: dict[str, Any]) -> str:
    """The figures, for the documentation."""
    requests, times, memory = found["requests"], found["milliseconds"], found["memory"]
    events, load = found["events"], found["load_average"]["before"]
    return "\n".join(
        (
            f"In {found['seconds']:,} seconds, {found['clients']} clients asked without a pause, and "
            f"{found['silent_clients']} never read what they asked for.",
            f"Runs were replaced {events.get('reloads', 0)} times, a process was killed, and the server was killed and "
            "restarted.",
            f"Of {requests['asked']:,} questions, {requests.get('right', 0):,} were answered rightly, "
            f"{requests.get('wrong', 0)} wrongly, and {requests.get('lost', 0)} were lost.",
            f"{requests.get('refused', 0)} requests were refused and {requests.get('broken off', 0)} broken off by a "
            "kill; all of these were answered when the client asked again.",
            f"Half of the answers took {times['p50']:g} ms, and 99 % took {times['p99']:g} ms, on a machine of "
            f"{found['machine']['cores']} cores on which other programs made a load of {load:g}.",
            f"In Python an answer takes {times['python']:g} ms, of which the kernel has {times['kernel']:g} ms.",
            f"Memory went from {memory['first_megabytes']:,} to {memory['last_megabytes']:,} MB "
            f"({memory['megabytes_per_hour']:+,} MB per hour).",
        )
    )


def document(found: dict[str, Any]) -> None:
    """Put the figures between their marks."""
    text = DOCUMENT.read_text("utf-8")
    before, begin, rest = text.partition("<!-- soak -->\n")
    _, end, after = rest.partition("<!-- /soak -->")
    assert begin, "no place for the figures"
    assert end, "no place for the figures"
    DOCUMENT.write_text(f"{before}{begin}{paragraph(found)}\n{end}{after}", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        found = soak(seconds, Path(folder))
    found |= {"machine": machine(), "commit": commit()}
    RESULTS.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    document(found)
    print(json.dumps(found, indent=2))
    raise SystemExit(bool(found["requests"].get("wrong") or found["requests"].get("lost")))


if __name__ == "__main__":
    main()
