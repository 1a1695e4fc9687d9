"""Beside or in line with the forward: on which stream of a device blocks are moved.

One idea: a swap takes the bus, a forward the multiprocessors. On a GPU moves run on a stream of their own, layer by
layer, and the forward waits for a layer's moves only when it comes to that layer, so the later layers' blocks travel
while the first ones compute. Moves begin after whatever was submitted before them. On a CPU everything is in line.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch


class MoveStream(Protocol):
    """The order of moves and forwards. Every method returns at once."""

    def moving(self) -> AbstractContextManager[object]:
        """What is submitted inside moves blocks; it follows all that was submitted before."""
        ...

    def moved(self, layer: int) -> None:
        """Inside ``moving``: all moves of the layer at this place are submitted."""
        ...

    def wait_for(self, layer: int) -> None:
        """What is submitted from here on follows the moves of this layer."""
        ...

    def wait_for_all(self) -> None:
        """What is submitted from here on follows every move."""
        ...


class InLine:
    """One thing after the other."""

    def moving(self) -> AbstractContextManager[object]:
        return nullcontext()

    def moved(self, layer: int) -> None: ...

    def wait_for(self, layer: int) -> None: ...

    def wait_for_all(self) -> None: ...


class SideStream:
    """A CUDA (or HIP) stream beside the device's current one."""

    def __init__(self, device: torch.device, layers: int) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._events = [torch.cuda.Event() for _ in range(layers)]
        self._awaited = [False] * layers
        """Layers with moves that the forward has not waited for. A wait must not be captured into a graph, so there is
        none where nothing moved."""

    def moving(self) -> AbstractContextManager[object]:
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        return torch.cuda.stream(self._stream)

    def moved(self, layer: int) -> None:
        self._events[layer].record(self._stream)
        self._awaited[layer] = True

    def wait_for(self, layer: int) -> None:
        if self._awaited[layer]:
            torch.cuda.current_stream(self._device).wait_event(self._events[layer])
            self._awaited[layer] = False

    def wait_for_all(self) -> None:
        for layer in range(len(self._events)):
            self.wait_for(layer)


def move_stream(device: torch.device, layers: int) -> MoveStream:
    """The one for a device."""
    return SideStream(device, layers) if device.type == "cuda" else InLine()
