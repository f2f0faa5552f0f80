"""A service as a process: announced when ready, stopped by the first signal, ended by the second."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_SERVICE = """
import asyncio, sys
from services.cli.problems import Refused
from services.cli.serving import serve

class Part:
    facts = {"url": "http://here"}
    async def start(self):
        if "refuse" in sys.argv: raise Refused("not here: go elsewhere", code=2)
        print("starting", flush=True)
        if "slow" in sys.argv: await asyncio.Event().wait()
    async def stop(self):
        print("stopping", flush=True)
        if "stuck" in sys.argv: await asyncio.Event().wait()

parent = int(sys.argv[2]) if sys.argv[2] != "-" else None
serve(Part, ready_fd=int(sys.argv[1]), parent=parent)
"""


@contextmanager
def service(*words: str, parent: str = "-") -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """The process and the end of the pipe on which it says that it is ready."""
    reader, writer = os.pipe()
    command = [sys.executable, "-c", _SERVICE, str(writer), parent, *words]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(writer,), text=True
    )
    os.close(writer)
    try:
        yield process, reader
    finally:
        os.close(reader)
        process.kill()
        process.communicate()


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_ready_service_tells_its_facts_and_stops_on_a_signal() -> None:
    with service() as (process, ready):
        assert json.loads(os.read(ready, 1000)) == {"facts": {"url": "http://here"}}
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_a_signal_breaks_off_a_start_and_that_is_no_failure() -> None:
    with service("slow") as (process, ready):
        assert line(process) == "starting"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        assert line(process) == "stopping"
        assert os.read(ready, 1000) == b""


def test_a_second_signal_ends_at_once() -> None:
    with service("stuck") as (process, ready):
        os.read(ready, 1000)
        process.send_signal(signal.SIGTERM)
        assert [line(process), line(process)] == ["starting", "stopping"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 1


def test_a_refused_start_is_told_to_whoever_started_it() -> None:
    with service("refuse") as (process, ready):
        assert json.loads(os.read(ready, 1000)) == {"problem": "not here: go elsewhere", "code": 2}
        assert process.wait(10) != 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of their parent's end")
def test_a_service_whose_parent_is_gone_already_ends() -> None:
    with service(parent="1") as (process, _):
        assert process.wait(10) == 1
