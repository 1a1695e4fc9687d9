"""Compile a kernel for a GPU that is not here, exactly as its launch would, and read what the compilers say of it.

One idea: the public function runs on tensors without memory (device ``meta``) with the launch replaced by a recorder,
so that the arguments, constants and tuning are the ones a GPU would get.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
_POINTERS = {
    torch.float32: "*fp32",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.int32: "*i32",
    torch.int64: "*i64",
}
_OPTIONS = ("num_warps", "num_stages", "enable_fp_fusion")


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel and what it was called with."""

    function: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a compiler made of a kernel, and what it says about it."""

    assembly: str
    shared_bytes: int
    spilled: int
    """Bytes of stack on NVIDIA, vector registers on AMD (its scalar ones spill into vector ones, not to memory)."""

    def count(self, pattern: str) -> int:
        return len(re.findall(pattern, self.assembly))


def record_launches(work: Callable[[], Any]) -> list[Launch]:
    """The kernels that ``work()`` would launch, in order."""
    launches: list[Launch] = []

    def record(function: Any, *arguments: Any, grid: Any, warmup: bool, **keywords: Any) -> None:
        launches.append(Launch(function, grid, arguments, keywords))

    run = JITFunction.run
    JITFunction.run = record
    try:
        work()
    finally:
        JITFunction.run = run
    return launches


def compile_launch(arch: str, launch: Launch) -> Compiled:
    """Compile a recorded launch for ``arch``, one of TARGETS."""
    options = {name: launch.keywords[name] for name in _OPTIONS if name in launch.keywords}
    made = triton.compile(_source(launch), target=TARGETS[arch], options=options)
    if arch.startswith("sm_"):
        return Compiled(made.asm["ptx"], made.metadata.shared, _stack_bytes(made.asm["cubin"]))
    spills = re.findall(r"\.vgpr_spill_count:\s*(\d+)", made.asm["amdgcn"])
    assert spills, "the assembly no longer states its spills"
    return Compiled(made.asm["amdgcn"], made.metadata.shared, sum(map(int, spills)))


def _source(launch: Launch) -> ASTSource:
    """As Triton's launcher specializes: None and 1 become constants, multiples of 16 are marked, unless forbidden."""
    signature: dict[str, str] = {}
    constants: dict[str, Any] = {}
    marks: dict[tuple[int, ...], list[list[Any]]] = {}
    for index, parameter in enumerate(launch.function.params):
        name = parameter.name
        value = launch.arguments[index] if index < len(launch.arguments) else launch.keywords[name]
        free = not parameter.do_not_specialize
        if parameter.is_constexpr or value is None or (type(value) is int and value == 1 and free):
            signature[name] = "constexpr"
            constants[name] = value
            continue
        if isinstance(value, torch.Tensor):
            signature[name] = _POINTERS[value.dtype]
            aligned = True
        else:
            signature[name] = "fp32" if isinstance(value, float) else "i32"
            aligned = isinstance(value, int) and value % 16 == 0
        if aligned and free:
            marks[(index,)] = [["tt.divisibility", 16]]
    return ASTSource(launch.function, signature, constexprs=constants, attrs=marks)


def _stack_bytes(cubin: bytes) -> int:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        tool = triton.knobs.nvidia.cuobjdump.path
        said = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    stack = re.search(r"STACK:(\d+)", said)
    assert stack, f"cuobjdump no longer states the stack: {said}"
    return int(stack.group(1))


def meta(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """A tensor without memory."""
    return torch.empty(*shape, dtype=dtype, device="meta")
