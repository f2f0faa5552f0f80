"""Runs an add-on in a test, without an owner: over its real socket, in this process or in one of its own."""

import asyncio
import os
import secrets
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import msgspec

from shared.sdk.addon import Addon, Surroundings
from shared.sdk.client import AddonClient
from shared.sdk.errors import AddonNotRunning
from shared.sdk.host import HostClient
from shared.sdk.ops import ToolCall, ToolPhase, ToolResult
from shared.sdk.server import AddonServer


class _Called:
    """The calls of a test, with the credential and the binding that it mostly uses."""

    client: AddonClient

    async def op(
        self,
        name: str,
        args: msgspec.Struct,
        *,
        credential: str = "",
        binding: str = "binding",
        options: Mapping[str, str] | None = None,
        deadline: float = 30.0,
        result: type[msgspec.Struct] | None = None,
    ) -> Any:
        """The typed result of an op; raises its Failure."""
        return await self.client.op(
            name,
            args,
            credential=credential,
            binding=binding,
            options=options,
            deadline=deadline,
            result=result,
        )

    async def tool(
        self,
        name: str,
        phase: ToolPhase = "read",
        arguments: dict[str, Any] | None = None,
        *,
        operation: str = "",
        credential: str = "",
        deadline: float = 30.0,
    ) -> ToolResult:
        """The result of one phase of a tool; raises its Failure."""
        call = ToolCall(phase, arguments or {}, operation)
        return await self.client.tool(name, call, credential=credential, binding="binding", deadline=deadline)


class AddonHarness(_Called):
    """An add-on in this process: `async with AddonHarness(services.addons.telegram) as addon: ...`.

    Takes an Addon, or a module that has one as `ADDON`. `data` is its folder, a temporary one by default.
    """

    def __init__(
        self,
        addon: Addon[Any] | ModuleType,
        *,
        settings: Mapping[str, str] | None = None,
        data: Path | None = None,
        host_socket: Path | None = None,
    ) -> None:
        self._addon: Addon[Any] = addon.ADDON if isinstance(addon, ModuleType) else addon
        self._settings = settings or {}
        self._data = data
        self._host_socket = host_socket
        self._open = AsyncExitStack()
        self.credential = secrets.token_urlsafe(16)

    async def __aenter__(self) -> Self:
        folder = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="addon-")))
        host = HostClient(self._host_socket, self.credential) if self._host_socket else None
        self.data = self._data or folder
        self.socket_path = folder / "s"
        surroundings = Surroundings(self.data, self._settings, host)
        self.server = AddonServer(
            self._addon, surroundings, socket_path=self.socket_path, credential=self.credential
        )
        self.client = AddonClient(self.socket_path, self.credential)
        for service in (self.server, self.client):
            await service.start()
            self._open.push_async_callback(service.stop)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()


class AddonProcess(_Called):
    """An add-on in a process of its own, started as the owner starts it; ended with the block.

    `module` is its package; `errors` is what it wrote to stderr, complete after the block.
    """

    def __init__(
        self,
        module: str,
        *,
        settings: Mapping[str, str] | None = None,
        data: Path | None = None,
        host_socket: Path | None = None,
    ) -> None:
        self._module = module
        self._settings = settings or {}
        self._data = data
        self._host_socket = host_socket
        self._open = AsyncExitStack()
        self.credential = secrets.token_urlsafe(16)
        self.errors = ""

    async def __aenter__(self) -> Self:
        folder = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="addon-")))
        self._stderr = folder / "stderr"
        self.data = self._data or folder
        self.socket_path = folder / "s"
        self.process = await self._spawn()
        self.client = AddonClient(self.socket_path, self.credential)
        await self.client.start()
        self._open.push_async_callback(self.client.stop)
        try:
            await self._ready()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.terminate()
        await self.process.wait()
        self.errors = self._stderr.read_text()
        await self._open.aclose()

    async def _spawn(self) -> asyncio.subprocess.Process:
        reading, writing = os.pipe()
        os.write(writing, f"{self.credential}\n".encode())
        os.close(writing)
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "TRUNKLINE_ADDON_SOCKET": str(self.socket_path),
            "TRUNKLINE_ADDON_DATA": str(self.data),
            "TRUNKLINE_ADDON_CREDENTIAL_FD": str(reading),
            "TRUNKLINE_ADDON_SETTINGS": msgspec.json.encode(dict(self._settings)).decode(),
        }
        if self._host_socket is not None:
            environment["TRUNKLINE_HOST_SOCKET"] = str(self._host_socket)
        try:
            with self._stderr.open("wb") as stderr:
                return await asyncio.create_subprocess_exec(
                    sys.executable, "-P", "-m", self._module,
                    env=environment, pass_fds=(reading,), stderr=stderr,
                )  # fmt: skip
        finally:
            os.close(reading)

    async def _ready(self) -> None:
        """Waits until the add-on answers; a process gives no other sign from outside."""
        async with asyncio.timeout(20):
            while self.process.returncode is None:
                try:
                    await self.client.health()
                except AddonNotRunning:
                    await asyncio.sleep(0.02)
                else:
                    return
        raise AddonNotRunning(f"{self._module} ended with {self.process.returncode}")
