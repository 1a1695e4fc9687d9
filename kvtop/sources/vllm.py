"""A vLLM server that is started for the screen, shown by its true block tables, and gone with it.

Four parts, each with a thread of its own, joined here without one: the kept process; the exporter's batches; the OpenAI
endpoint that takes our requests; and, where that was asked for, the door through which it is paused and stepped. What
is asked while it loads goes out when it is ready.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

import httpx2
import msgspec

from kvtop.engine.control import (
    Abort,
    AnyCommand,
    BatchMessage,
    ClearCache,
    EngineState,
    Inject,
    Measure,
    Pause,
    Quit,
    Reply,
    Resume,
    Status,
    Step,
    TakeSnapshot,
)
from kvtop.engine.events import Batch, Changed, Completed, Queued
from kvtop.sources.exported import SILENT_SECONDS, ExportedSource
from kvtop.sources.kept_process import KeptProcess
from kvtop.sources.narration import STEPPED_WAIT_SECONDS, WAIT_SECONDS, Narration
from kvtop.sources.openai_client import OpenAIClient, Said, StreamEnded
from kvtop.sources.server_log import first_fault, progress_of, telling
from kvtop.sources.source import Message
from kvtop.sources.vllm_command import VllmPlan
from kvtop.view.clean import clean_line

LOOK_SECONDS = 0.5
"""How often the server is asked whether it is ready."""
SPEAK_SECONDS = 10.0
"""A server that answers and whose exporter has not spoken for so long has none."""
REPORT_SECONDS = 0.25
LOG_LINES = 60
"""Of the log, while it loads."""
ALL_LINES = 1_000
TEXT_OF_ANSWERS = {"return_token_ids": True}
"""Lets each piece of text be matched with the tokens that the exporter tells."""


class Readiness:
    """Asks a server, in a thread, until it answers; then whether it puts prompts into a chat template."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self.is_ready = False
        self._ready_s = 0.0
        self.chat_template = False
        self._url = url
        self._headers = headers
        self._closing = threading.Event()
        threading.Thread(target=self._ask, name="readiness", daemon=True).start()

    def ready_for_s(self) -> float:
        """Seconds since it answered; 0: it did not yet."""
        return time.monotonic() - self._ready_s if self.is_ready else 0.0

    def close(self) -> None:
        self._closing.set()

    def _ask(self) -> None:
        with httpx2.Client(timeout=5, trust_env=False, headers=self._headers) as http:
            while not self._closing.wait(LOOK_SECONDS):
                try:
                    if http.get(f"{self._url}/health").status_code != 200:
                        continue
                    model = http.get(f"{self._url}/v1/models").json()["data"][0]["id"]
                    body = {"model": model, "messages": [{"role": "user", "content": "?"}]}
                    self.chat_template = http.post(f"{self._url}/tokenize", json=body).status_code == 200
                except (httpx2.HTTPError, OSError, ValueError, KeyError, IndexError):
                    continue
                self._ready_s = time.monotonic()
                self.is_ready = True
                return


class Running:
    """One life of the server and all that belongs to it."""

    def __init__(self, plan: VllmPlan) -> None:
        launch = plan.launch()
        self.process = KeptProcess(launch.command, launch.environment, launch.folder)
        self.tables = ExportedSource(launch.endpoint)
        self.client = OpenAIClient(launch.url, headers=launch.headers, extra=TEXT_OF_ANSWERS)
        self.readiness = Readiness(launch.url, launch.headers)
        self.narration = Narration()
        self.tables.start()
        self.client.start()

    def close(self) -> None:
        self.readiness.close()
        self.client.close()
        self.tables.close()
        self.process.close()


class VllmSource:
    """``on_batch`` is called with every batch as it is handed out (a recorder listens there)."""

    def __init__(self, plan: VllmPlan, on_batch: Callable[[Batch], None] | None = None) -> None:
        self._plan = plan
        self._on_batch = on_batch
        self._running: Running | None = None
        self._forget()

    def _forget(self) -> None:
        self._ready = False
        self._told_end = False
        self._asked: list[AnyCommand] = []
        """Commands that wait until the server is ready."""
        self._messages: list[Message] = []
        self._state: EngineState = "loading"
        self._alive_requests = 0
        self._paused = False
        self._reported_s = 0.0
        self._reported = ""

    @property
    def alive(self) -> bool:
        """Its process runs."""
        return self._running is not None and self._running.process.alive

    @property
    def pid(self) -> int | None:
        """Of the process that keeps it."""
        return self._running.process.pid if self._running else None

    def start(self) -> None:
        self._forget()
        self._running = Running(self._plan)
        self._messages.append(Status(state="loading", detail="starting vLLM"))

    def restart(self) -> None:
        self.close()
        self.start()

    def close(self) -> None:
        running, self._running = self._running, None
        if running:
            running.close()

    # --- commands -------------------------------------------------------------------------------------------------

    def send(self, command: AnyCommand) -> None:
        if self._ready:
            self._carry_out(command)
        elif not isinstance(command, TakeSnapshot):
            self._asked.append(command)

    def _carry_out(self, command: AnyCommand) -> None:
        running = self._running
        if running is None:
            return
        match command:
            case Inject(requests=requests):
                running.narration.ask(requests)
                running.client.send(command)
            case Abort(request_id=name):
                request_id = running.narration.request_of(name)
                running.client.send(msgspec.structs.replace(command, request_id=request_id))
            case Measure() | ClearCache():
                running.client.send(command)
            case Pause() | Resume() | Step() if not self._plan.control:
                name = type(command).__name__.lower()
                error = f"{name}: this vLLM was started without --control (KVTOP_CONTROL=1), so nobody can hold it"
                self._messages.append(Reply(ticket=command.ticket, error=error))
            case Pause() | Resume() | Step() | TakeSnapshot():
                running.tables.send(command)
            case Quit():
                self._messages.append(Reply(ticket=command.ticket))
            case _:
                name = type(command).__name__.lower()
                error = f"{name}: vLLM decides that by itself; nothing of it can be changed while it runs"
                self._messages.append(Reply(ticket=command.ticket, error=error))

    # --- what there is to tell ------------------------------------------------------------------------------------

    def poll(self, max_messages: int = 1000) -> list[Message]:
        running = self._running
        if running is not None and not self._told_end:
            self._take_words(running)
            if not self._ready:
                self._report_loading(running)
            if self._ready:
                self._take_batches(running)
            if not running.process.alive:
                self._tell_end(running)
        taken, self._messages = self._messages[:max_messages], self._messages[max_messages:]
        return taken

    def _report_loading(self, running: Running) -> None:
        if running.readiness.is_ready and running.tables.speaker is not None:
            self._ready = True
            for command in self._asked:
                self._carry_out(command)
            self._asked.clear()
            return
        if running.readiness.ready_for_s() > SPEAK_SECONDS:
            self._told_end = True
            self._messages.append(Status(state="failed", detail=_why_mute(running.process.lines(ALL_LINES))))
            return
        if time.monotonic() - self._reported_s < REPORT_SECONDS:
            return
        self._reported_s = time.monotonic()
        words = telling(running.process.lines(LOG_LINES))
        if words and words[-1] != self._reported:
            self._reported = words[-1]
            done, total = progress_of(words[-1])
            self._messages.append(
                Status(state="loading", detail=words[-1], done=done, total=total, traceback="\n".join(words))
            )

    def _take_words(self, running: Running) -> None:
        """What was heard over HTTP, and of commands."""
        for word in running.client.poll():
            if isinstance(word, Said):
                running.narration.hear(word)
            elif isinstance(word, StreamEnded):
                running.narration.hear(word)
                if word.error:
                    self._messages.append(Reply(ticket=0, error=word.error))
            else:
                self._messages.append(word)

    def _take_batches(self, running: Running) -> None:
        for message in running.tables.poll():
            if isinstance(message, BatchMessage):
                running.narration.put(message.batch)
            elif isinstance(message, Status):
                silent = (running.tables.age_s() or 0.0) > SILENT_SECONDS
                if message.state == "failed" and not silent:  # its silence shows by itself
                    self._messages.append(message)
            else:
                self._messages.append(message)
        for batch in running.narration.take(STEPPED_WAIT_SECONDS if self._paused else WAIT_SECONDS):
            self._hand_out(self._introduced(batch, running.readiness.chat_template))

    def _introduced(self, batch: Batch, chat_template: bool) -> Batch:
        """With what the exporter cannot know: whether there is a chat template (it sits where no prompt is read), and
        which of how many ranks it is."""
        if batch.snapshot is None:
            return batch
        info, ranks = batch.snapshot.info, self._plan.ranks
        device = f"vLLM rank {self._plan.rank} of {ranks}, {info.device}" if ranks > 1 else f"vLLM {info.device}"
        info = msgspec.structs.replace(info, chat_template=chat_template, device=device)
        return msgspec.structs.replace(batch, snapshot=msgspec.structs.replace(batch.snapshot, info=info))

    def _hand_out(self, batch: Batch) -> None:
        if self._on_batch is not None:
            self._on_batch(batch)
        if batch.snapshot is not None:
            self._alive_requests, self._paused = len(batch.snapshot.sequences), batch.snapshot.paused
        for event in batch.events if batch.snapshot is None else ():
            if isinstance(event, Queued):
                self._alive_requests += 1
            elif isinstance(event, Completed):
                self._alive_requests -= 1
            elif isinstance(event, Changed) and event.name == "paused":
                self._paused = event.new == "true"
        self._messages.append(BatchMessage(batch=batch))
        state: EngineState = "paused" if self._paused else "running" if self._alive_requests else "idle"
        if state != self._state:
            self._state = state
            self._messages.append(Status(state=state))

    def _tell_end(self, running: Running) -> None:
        self._told_end = True
        how = running.process.how_it_ended()
        lines = running.process.lines(ALL_LINES)
        words = first_fault(lines) or "".join(telling(lines)[-1:])
        detail = f"vLLM {how}: {words}" if words else f"vLLM {how} without a word"
        self._messages.append(Status(state="failed", detail=detail, traceback="\n".join(lines)))


def _why_mute(lines: Sequence[str]) -> str:
    """Why a server that runs tells no block tables: what our exporter wrote into its log, if anything."""
    ours = [line.partition("kvtop: ")[2] for line in lines if "kvtop: " in line]
    why = clean_line(ours[-1], 200) if ours else "its log does not say why"
    return f"vLLM runs, but nothing tells its block tables: {why}"
