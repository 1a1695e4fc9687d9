"""Takes commands for a server's scheduler over a Unix socket that only this user can open: pause, resume, step.

A controller is greeted with the exporter's session, then sends commands, and an empty frame now and then to say that it
lives. What is sent is never waited for by the scheduler. Whatever arrives here, nothing is raised into the server.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from pathlib import Path
from typing import get_args

import msgspec

from kvtop.engine.control import AnyCommand, Pause, Reply, Resume, Step
from kvtop.engine.events import AnyEvent
from kvtop.engine.wire import decode_command, encode, receive_frame, send_frame
from kvtop.exporter.hold import LOST_SECONDS, Hold

LOOK_SECONDS = 0.5
"""How often it is seen whether the controller is gone."""
MAX_CONTROLLERS = 4
EVENT_TYPES = frozenset(event.__struct_config__.tag for event in get_args(AnyEvent))


class Greeting(msgspec.Struct, frozen=True):
    """What a controller hears first: whose scheduler this is."""

    session: str


class Door:
    """Open until ``close``.

    Raises:
        OSError: the socket cannot be made at ``path``.
    """

    def __init__(self, path: Path, session: str, hold: Hold, log: logging.Logger) -> None:
        self.path = path
        self._session = session
        self._hold = hold
        self._log = log
        self._closing = False
        self._controllers: set[socket.socket] = set()
        path.unlink(missing_ok=True)  # of a server that is gone: the address it belongs to is ours now
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(str(path))
            path.chmod(0o600)
            self._listener.listen(MAX_CONTROLLERS)
        except OSError:
            self._listener.close()
            raise
        self._listener.settimeout(LOOK_SECONDS)
        self._thread = threading.Thread(target=self._welcome, name="kvtop-door", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let nobody in any more, and let the scheduler go."""
        self._closing = True
        self._thread.join(2 * LOOK_SECONDS)
        for controller in list(self._controllers):
            with contextlib.suppress(OSError):
                controller.shutdown(socket.SHUT_RDWR)
        self._hold.resume()
        self.path.unlink(missing_ok=True)

    def _welcome(self) -> None:
        with self._listener:
            while not self._closing:
                try:
                    controller, _ = self._listener.accept()
                except TimeoutError:
                    controller = None
                except OSError as error:
                    self._log.warning("kvtop: no more commands are taken: %s", error)
                    break
                if controller is not None:
                    self._let_in(controller)
                if self._hold.release_if_lost():
                    self._log.warning("kvtop: the controller was silent for %.0f s; it runs on", LOST_SECONDS)
        self._hold.resume()

    def _let_in(self, controller: socket.socket) -> None:
        if len(self._controllers) >= MAX_CONTROLLERS:
            controller.close()
            return
        controller.settimeout(None)
        self._controllers.add(controller)
        threading.Thread(target=self._listen, args=(controller,), name="kvtop-controller", daemon=True).start()

    def _listen(self, controller: socket.socket) -> None:
        try:
            send_frame(controller, encode(Greeting(self._session)))
            while (frame := receive_frame(controller)) is not None:
                self._hold.heard()
                if frame:
                    send_frame(controller, encode(self._obey(decode_command(frame))))
        except (OSError, ValueError, msgspec.MsgspecError):
            pass  # it is gone, or not one of ours: the same to us
        finally:
            self._controllers.discard(controller)
            controller.close()

    def _obey(self, command: AnyCommand) -> Reply:
        error = ""
        match command:
            case Pause():
                self._hold.pause()
            case Resume():
                self._hold.resume()
            case Step(steps=steps, until=until) if steps < 1 or (until and until not in EVENT_TYPES):
                error = f"step: {steps} steps until {until!r}, expected 1 or more and an event type"
            case Step(steps=steps, until=until):
                self._hold.step(steps, until)
            case _:
                error = f"{type(command).__name__.lower()}: this server takes pause, resume and step only"
        return Reply(ticket=command.ticket, error=error)
