"""
The Java program, driven: commands go in as JSON lines, events come out.

>>> call = driver.start("push", namesrv="127.0.0.1:9876", name="a", group="g", topics={"T": "*"})  # doctest: +SKIP
>>> call.wait_for("message", 3, timeout=10)  # doctest: +SKIP
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tests.interop.jars import GENERATIONS, java_command, java_major
from tests.interop.namespaces import enter
from tests.interop.process import Process, ProcessFailed

Event: TypeAlias = dict[str, Any]


class CommandFailed(Exception):
    """The Java side answered a command with an exception; the text is that exception's."""


class Call:
    """One command on its way: every event it has given so far, the final one included."""

    def __init__(self, process: Process, what: str, listener: Callable[[Event], None] | None = None) -> None:
        """
        @param listener: is called with every event, on the reader thread.
        """
        self._process = process
        self._what = what
        self._events: dict[str, list[Event]] = {}
        self._listener = listener
        self.final: Event | None = None

    def of(self, kind: str) -> list[Event]:
        """Return the events of one kind, in the order they came."""
        with self._process.changed:
            return list(self._events.get(kind, ()))

    def count(self, kind: str) -> int:
        """Return how many events of one kind there are."""
        return len(self._events.get(kind, ()))

    def add(self, event: Event) -> None:
        """Take one more event; the reader thread's part."""
        if self._listener is not None:
            self._listener(event)
        self._events.setdefault(event["event"], []).append(event)
        if event["event"] in ("done", "failed"):
            self.final = event

    def wait(self, true: Callable[[], bool], timeout: float, what: str) -> None:
        """
        Wait for a condition over events.

        @raise ProcessFailed: it did not come true in C{timeout} seconds, or the JVM ended.
        """

        def failed_or_true() -> bool:
            return true() or (self.final is not None and self.final["event"] == "failed")

        self._process.wait_until(failed_or_true, timeout, f"{self._what}: {what}")
        if not true():
            self.result(0)

    def wait_for(self, kind: str, count: int, timeout: float) -> None:
        """Wait until there are so many events of one kind; fails as L{wait} does."""
        self.wait(lambda: self.count(kind) >= count, timeout, f"{count} of {kind}")

    def result(self, timeout: float = 120) -> Event:
        """
        Wait for the final event and return it.

        @raise CommandFailed: the command ended in an exception.
        """
        self._process.wait_until(lambda: self.final is not None, timeout, f"the end of {self._what}")
        assert self.final is not None
        if self.final["event"] == "failed":
            raise CommandFailed(f"{self._what}: {self.final['error']}\n{self._process.tail}")
        return self.final

    def all_of(self, kind: str, timeout: float = 120) -> list[Event]:
        """Wait for the end, then return the events of one kind."""
        self.result(timeout)
        return self.of(kind)


class Driver:
    """
    A JVM of one generation with one set of flags, started at once.

    @ivar generation: C{"4.9"} or C{"5.3"}.
    """

    def __init__(
        self,
        generation: str,
        home: str,
        encoding: str = "JSON",
        tls: str | None = None,
        network: str = "",
        key: tuple[str, str] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        """
        @param home: a folder for its log files and what the client library writes.
        @param encoding: of request headers, C{"JSON"} or C{"ROCKETMQ"} (binary).
        @param tls: the client's C{tls.properties}; all connections are TLS then.
        @param network: the network namespace to run in; empty for the machine's own.
        @param key: the access key and the secret that requests are signed with.
        @param options: further options of the JVM.
        """
        jars = GENERATIONS[generation]
        self.generation = generation
        self.name = f"java-{generation}-{encoding.lower()}" + ("-tls" if tls else "") + (f"-{key[0]}" if key else "")
        temporary = os.path.join(home, f"{self.name}-tmp")
        os.makedirs(temporary, exist_ok=True)
        flags = [
            "-Xms32m",
            "-Xmx224m",
            "-XX:MaxDirectMemorySize=128m",
            "-XX:TieredStopAtLevel=1",
            f"-Drocketmq.serialize.type={encoding}",
            f"-Duser.home={home}",
            f"-Djava.io.tmpdir={temporary}",
            f"-Drocketmq.client.logRoot={home}/logs",
            "-Drocketmq.client.logLevel=WARN",
            f"-Drocketmq.home.dir={rocketmq_home(home)}",
            f"-DlogRoot={home}",
            *options,
        ]
        if 12 <= java_major() < 24:
            flags.append("-Djava.security.manager=allow")
        if tls:
            flags += ["-Dtls.enable=true", f"-Dtls.config.file={tls}"]
        if key:
            flags += [f"-Dinterop.accessKey={key[0]}", f"-Dinterop.secretKey={key[1]}"]
            with open(os.path.join(rocketmq_home(home), "conf", "tools.yml"), "w") as file:  # mqadmin's
                file.write(f"accessKey: {key[0]}\nsecretKey: {key[1]}\n")
        command = [*enter(network), *java_command(*flags, "-cp", f"{jars.classes}:{jars.jars}/*", "interop.Main")]
        self._calls: dict[int, Call] = {}
        self._ids = itertools.count(1)
        self._events = open(os.path.join(home, f"{self.name}.jsonl"), "ab")  # noqa: SIM115  kept for a look afterwards
        self.process = Process(self.name, command, home, on_line=self._line)

    @property
    def running(self) -> bool:
        """Tell whether the JVM is there."""
        return self.process.returncode is None

    def start(self, do: str, listener: Callable[[Event], None] | None = None, /, **arguments: Any) -> Call:
        """Send one command; its events gather in the call returned, and go to C{listener} as they come."""
        number = next(self._ids)
        what = f"{self.name} {do} {arguments.get('topic') or arguments.get('name') or ''}".strip()
        call = Call(self.process, what, listener)
        self._calls[number] = call
        try:
            self.process.write(json.dumps({"id": number, "do": do, **arguments}).encode() + b"\n")
        except OSError as error:
            raise ProcessFailed(f"{self.name} takes no commands ({error}):\n{self.process.tail}") from error
        return call

    def ask(self, do: str, **arguments: Any) -> Event:
        """Send one command and return its final event."""
        return self.start(do, **arguments).result()

    def mqadmin(self, *commands: str, timeout: float = 240) -> list[str]:
        """
        Run mqadmin commands, each a line of words, and return what each printed.

        @raise CommandFailed: one of them tried to end the JVM: a usage error.
        """
        return [text for text, _ in self.mqadmin_with_errors(*commands, timeout=timeout)]

    def mqadmin_with_errors(self, *commands: str, timeout: float = 240) -> list[tuple[str, str]]:
        """
        Run mqadmin commands as L{mqadmin} does, and return what each printed as output and as errors.

        @raise CommandFailed: one of them tried to end the JVM: a usage error.
        """
        call = self.start("mqadmin", commands=[command.split() for command in commands])
        outputs = call.all_of("output", timeout)
        for output in outputs:
            if "error" in output:
                raise CommandFailed(f"mqadmin {output['command']}: {output['error']}\n{output['text']}")
        return [(output["text"], output["errors"]) for output in outputs]

    def close(self) -> None:
        """End the JVM without letting its clients say good-bye."""
        self.process.close_input()
        self.process.wait_ended(60)

    def _line(self, line: bytes) -> None:
        self._events.write(line)
        self._events.flush()
        event = json.loads(line)
        self._calls[event["id"]].add(event)


def rocketmq_home(home: str) -> str:
    """Return a ROCKETMQ_HOME below C{home}, with the logging files the jars insist on: warnings, to C{logRoot}."""
    folder = os.path.join(home, "rocketmq-home", "conf")
    os.makedirs(folder, exist_ok=True)
    for program in ("broker", "namesrv", "tools"):
        with open(os.path.join(folder, f"logback_{program}.xml"), "w") as file:
            file.write(
                f'<configuration><appender name="file" class="ch.qos.logback.core.FileAppender">'
                f"<file>${{logRoot}}/{program}-java.log</file>"
                f"<encoder><pattern>%d %p %t %logger - %m%n</pattern></encoder></appender>"
                f'<root level="WARN"><appender-ref ref="file"/></root></configuration>\n'
            )
    return os.path.dirname(folder)
