"""The native module from outside: switched off, missing, told what to use, in threads and forks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
import torch

from transher import kernels
from transher.kernels import native

SCRIPT = """
import torch
from transher import kernels
print(kernels.backend(), kernels.scaled_l1_cross(*[torch.ones(3, 4)] * 3).sum().item())
"""


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **environment}, capture_output=True, text=True, timeout=900
    )


def test_it_can_be_switched_off_without_a_word() -> None:
    result = run(SCRIPT, TRANSHER_NATIVE="0")
    assert result.stdout.split() == ["torch", "0.0"]
    assert result.stderr == ""


def test_a_missing_module_is_said_once() -> None:
    hide = "import sys\nsys.modules['transher.kernels._native'] = None\n"
    result = run(hide + SCRIPT + SCRIPT, TRANSHER_NATIVE="1")
    assert result.stdout.split() == ["torch", "0.0"] * 2
    assert result.stderr.count("without its native kernels") == 1


@pytest.mark.skipif(native.module is None, reason="no native module")
def test_the_instruction_set_can_be_chosen_and_must_exist() -> None:
    for name in native.loaded().backends():
        assert run(SCRIPT, TRANSHER_SIMD=name).stdout.split() == [name, "0.0"]
    assert "TRANSHER_SIMD=sse9" in run(SCRIPT, TRANSHER_SIMD="sse9").stderr


@pytest.mark.skipif(native.module is None or not hasattr(os, "fork"), reason="no native module or no fork")
def test_a_forked_child_computes_with_threads_of_its_own() -> None:
    script = (
        "import os, torch\nfrom transher import kernels\ntorch.set_num_threads(2)\n"
        "parts = [torch.randn(100, 64) for _ in range(3)]\nmine = kernels.scaled_l1_cross(*parts)\n"
        "child = os.fork()\nsame = torch.equal(kernels.scaled_l1_cross(*parts), mine)\n"
        "if child == 0: os._exit(0 if same else 1)\nprint(os.waitpid(child, 0)[1], same)\n"
    )
    assert run(script).stdout.split() == ["0", "True"]


def test_several_python_threads_may_compute_at_once(cpu_backend: str) -> None:
    torch.manual_seed(0)
    q, s, e = torch.randn(60, 128), torch.randn(60, 128), torch.randn(80, 128)
    expected = kernels.scaled_l1_cross(q, s, e)
    wrong: list[int] = []

    def work() -> None:
        for i in range(20):
            if not torch.equal(kernels.scaled_l1_cross(q, s, e), expected):
                wrong.append(i)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
