"""What the GPU kernels compile to: instructions per element of the inner loop, registers, and spills.

Triton compiles for a GPU that is not there, and the tools that come with it show the machine code. A loop that has
nothing to wait for takes as long as its instructions do, so that their number, beside the least that the formula needs,
says how good the code is without running it.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from transher.kernels.gpu.compiled import Compiled

MODULES = ("scaled_l1", "modulus", "rows", "ranking", "draws")
# Name of a target, and what Triton calls it: kind, architecture, threads in a warp.
TARGETS = {
    "sm_80": ("cuda", 80, 32),
    "sm_86": ("cuda", 86, 32),
    "sm_90": ("cuda", 90, 32),
    "gfx942": ("hip", "gfx942", 64),
    "gfx1100": ("hip", "gfx1100", 32),
}


class Loop(NamedTuple):
    """The inner loop of a kernel: the fewest instructions per element that its formula takes, the most that we allow,
    and how its elements are counted in the code: multiply-adds of each, or roots, of which each has one."""

    ideal: float
    most: float
    multiply_adds: int  # 0: count roots


def _forward(ideal: float, multiply_adds: int, share: float = 1.75) -> Loop:
    return Loop(ideal, share * ideal, multiply_adds)


def _backward(ideal: float, multiply_adds: int) -> Loop:
    return Loop(ideal, 1.5 * ideal, multiply_adds)


# The ideal counts arithmetic alone: no load, address, jump or wait. Scaled L1. Forward: multiply-add, add the absolute
# value. Gradients: multiply-add, sign, then a multiply-add for each candidate, or add and multiply-add for each query.
# An element of a modulus is a complex coordinate: two differences, a product, a multiply-add, a root, a sum; backward
# two multiply-adds and a product with g after the root. Pairs use each number that they load once, and wait for memory
# whatever else they do.
LOOPS = {
    "scaled_l1.cross": _forward(2, 1),
    "ranking.count": _forward(2, 1),
    "scaled_l1.query_gradients": _backward(4, 2),
    "scaled_l1.candidate_gradients": _backward(3, 2),
    "scaled_l1.listed": _forward(2, 1),
    "scaled_l1.listed_query_gradients": _backward(4, 2),
    "scaled_l1.listed_candidate_gradients": _backward(3, 2),
    "scaled_l1.pairs": _forward(2, 1, share=2.0),
    "modulus.cross": _forward(6, 0),
    "modulus.gradients": _backward(8, 0),
    "modulus.listed": _forward(6, 0),
    "modulus.listed_gradients": _backward(8, 0),
    "modulus.pairs": _forward(6, 0),
}


@dataclass(frozen=True)
class Code:
    """What a kernel became on a target."""

    registers: int
    spilled_bytes: int
    instructions: int  # in all
    per_element: float | None  # of the inner loop, where LOOPS has it


def kernels() -> dict[str, Compiled]:
    """Every kernel, by module and name."""
    found: dict[str, Compiled] = {}
    for name in MODULES:
        module = importlib.import_module(f"transher.kernels.gpu.{name}")
        own = {key: value for key, value in vars(module).items() if isinstance(value, Compiled)}
        found |= {f"{name}.{key.lower()}": value for key, value in own.items()}
    return found


def compile_for(name: str, kernel: Compiled, target: str, large: bool = False) -> Code:
    """Compile a kernel for a target and read its code. `large`: for tensors of 2 GB or more, where an AMD GPU has other
    instructions to read them by."""
    built = _build(kernel, target, large)
    lines = _sass(built.asm["cubin"]) if target.startswith("sm_") else built.asm["amdgcn"].splitlines()
    registers, spilled = _resources(built.asm, target)
    loop = LOOPS.get(name)
    instructions = [line for line in lines if _is_instruction(line)]
    per_element = None
    if loop is not None:
        body = max(_loops(lines), key=lambda body: _elements(body, loop), default=[])
        per_element = round(len(body) / max(_elements(body, loop), 1), 2)
    return Code(registers, spilled, len(instructions), per_element)


def _build(kernel: Compiled, target: str, large: bool) -> Any:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler import compile as build

    kernel = kernel.on(int(TARGETS[target][2]))
    names = kernel.function.arg_names
    types = {name: kernel.types.get(name, "constexpr") for name in names}
    # As at a launch where rows are aligned: `layout.aligned` and torch's allocator see to it.
    pointers = [name for name in names if types[name].startswith("*")]
    attributes = {name: [["tt.divisibility", 16]] for name in (*pointers, *({"k"} & {*names}))}
    if TARGETS[target][0] == "hip" and not large:
        for name in pointers:
            attributes[name].append(["tt.pointer_range", 32])
    source = ASTSource(
        fn=kernel.function,
        signature=types,
        constexprs={(names.index(name),): value for name, value in kernel.constants.items()},
        attrs={(names.index(name),): values for name, values in attributes.items()},
    )
    return build(source, target=GPUTarget(*TARGETS[target]), options={"num_warps": kernel.warps})


def _tool(name: str, *arguments: str) -> str:
    import triton.backends.nvidia as nvidia

    program = Path(nvidia.__file__).parent / "bin" / name
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, check=True).stdout


def _on_disk(tool: str, option: str, cubin: bytes) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return _tool(tool, option, file.name)


def _sass(cubin: bytes) -> list[str]:
    """Lines of NVIDIA's machine code: labels, and instructions without their addresses."""
    lines = _on_disk("nvdisasm", "-c", cubin).splitlines()
    return [re.sub(r"^\s*/\*[0-9a-f]+\*/\s*", "\t", line) for line in lines if "/*" in line or line.startswith(".L_")]


def _resources(code: dict[str, Any], target: str) -> tuple[int, int]:
    """Registers per thread, and bytes that did not fit into them."""
    if target.startswith("sm_"):
        usage = _on_disk("cuobjdump", "-res-usage", code["cubin"])
        found = {key: int(value) for key, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", usage)}
        return found["REG"], found["STACK"] + found["LOCAL"]
    found = {key: int(value) for key, value in re.findall(r"\.(\w+):\s+(\d+)", code["amdgcn"])}
    return found["vgpr_count"], found["private_segment_fixed_size"] + 4 * found["vgpr_spill_count"]


def _is_instruction(line: str) -> bool:
    return (
        bool(re.match(r"\s+(@!?U?P\S+\s+)?([A-Z][A-Z0-9_.]+|[svdb]\w*_\w+|global_\w+)\b", line)) and "NOP" not in line
    )


def _loops(lines: list[str]) -> Iterator[list[str]]:
    """The instructions of every loop: from a label to a jump back to it."""
    places: dict[str, int] = {}
    for number, line in enumerate(lines):
        label = re.match(r"(\.L\w+):", line)
        if label:
            places[label[1]] = number
        jump = re.search(r"\b(?:BRA|s_c?branch)\S*\s.*?(\.L\w+)", line)
        if jump and jump[1] in places:
            yield [each for each in lines[places[jump[1]] : number + 1] if _is_instruction(each)]


def _elements(body: list[str], loop: Loop) -> float:
    """How many elements a pass through a loop works on, by what each takes once or twice."""
    text = "\n".join(body)
    if loop.multiply_adds:
        packed = len(re.findall(r"\bv_pk_fma_f32", text))
        return (len(re.findall(r"\bFFMA|\bv_(?:dual_)?fma\w*", text)) + 2 * packed) / loop.multiply_adds
    return len(re.findall(r"\bMUFU\.\w+|\bv_(?:sqrt|rsq)_f32", text))
