"""The add-ons of this owner: which are installed, which run, and the acts of administrators on them."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from services.owner import gallery
from services.owner.addons import Running
from services.owner.gallery import BUNDLED, Gallery, Package
from services.owner.guard import guarded
from services.owner.process import AddonProcess, Surroundings
from shared.carrier import Call, Handlers
from shared.carrier import operations as ops
from shared.domain.errors import AddonNotRunning, PlatformRefused
from shared.store import Database, addons, audit
from shared.store.addons import Installed

log = structlog.get_logger(__name__)


class Supervisor:
    """Runs every installed and enabled add-on. A Service; `preinstalled` are installed on an empty journal."""

    def __init__(
        self,
        *,
        database: Database,
        gallery: Gallery,
        packages: Path,
        surroundings: Callable[[], Surroundings],
        preinstalled: Sequence[str] = (),
    ) -> None:
        self._database = database
        self._gallery = gallery
        self._packages = packages
        self._surroundings = surroundings
        self._preinstalled = tuple(preinstalled)
        self._processes: dict[str, AddonProcess] = {}
        self._installed: dict[str, Installed] = {}
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        """Start what is installed and wait until each has answered or failed once."""
        await self._preinstall()
        async with self._lock:
            for installed in await addons.installed(self._database):
                self._installed[installed.id] = installed
                if installed.enabled:
                    await self._run(installed)
        await asyncio.gather(*(process.first_try() for process in self._processes.values()))

    async def stop(self) -> None:
        async with self._lock:
            await asyncio.gather(*(process.stop() for process in self._processes.values()))
            self._processes.clear()

    # -- what runs --------------------------------------------------------------------------------------

    def running(self) -> list[Running]:
        return [p.running for p in self._processes.values() if p.running is not None]

    def heard(self) -> dict[str, dict[str, float]]:
        """What the running add-ons say of the links that they keep themselves."""
        return {addon: p.heard for addon, p in self._processes.items() if p.running is not None}

    def get(self, addon: str) -> Running:
        """The running add-on of this ID. Raises AddonNotRunning with what to do."""
        process = self._processes.get(addon)
        if process is not None and process.running is not None:
            return process.running
        installed = self._installed.get(addon)
        title = (installed.manifest.title if installed else "") or addon.capitalize()
        if installed is None:
            raise AddonNotRunning(f"install the {title} add-on")
        if not installed.enabled:
            raise AddonNotRunning(f"switch the {title} add-on on")
        raise AddonNotRunning(
            f"the {title} add-on is not running: {process.reason if process else ''}".rstrip(": ")
        )

    def serving(self, kind: str, addon: str) -> Running:
        """The add-on that serves a binding; without a stored name it is the add-on of the kind (BIND-07)."""
        if addon:
            found = self.get(addon)
            if found.kind(kind) is None:
                raise AddonNotRunning(f"the add-on {addon} does not serve {kind} any more")
            return found
        for running in self.running():
            if running.kind(kind) is not None:
                return running
        return self.get(kind)

    # -- what frontends ask -----------------------------------------------------------------------------

    def bind(self, handlers: Handlers) -> None:
        handlers.on(ops.RUNNING, self._on_running)
        handlers.on(ops.GALLERY, guarded(self._on_gallery))
        handlers.on(ops.INSTALL, guarded(self._on_install))
        handlers.on(ops.ENABLE, guarded(self._on_enable))
        handlers.on(ops.DISABLE, guarded(self._on_disable))
        handlers.on(ops.REMOVE, guarded(self._on_remove))

    async def _on_running(self, _request: ops.Nothing, _call: Call) -> ops.Running:
        return ops.Running([_offer(running) for running in self.running()])

    async def _on_gallery(self, _request: ops.Nothing, _call: Call) -> ops.Gallery:
        return ops.Gallery(await self.listed())

    async def _on_install(self, request: ops.Install, call: Call) -> ops.Listed:
        """Install or replace an add-on by digest, and start it."""
        package = await asyncio.to_thread(self._gallery.find, request.source, request.id, request.digest)
        async with self._lock:
            if package.source != BUNDLED:
                await asyncio.to_thread(gallery.copy_package, package, self._packages)
            installed = await self._journal(package, call.actor)
            self._installed[installed.id] = installed
            await self._end(installed.id)
            process = await self._run(installed)
        await process.first_try()
        return await self._listed_one(request.id)

    async def _on_enable(self, request: ops.AddonId, call: Call) -> ops.Listed:
        return await self._switch(request.id, call.actor, enabled=True)

    async def _on_disable(self, request: ops.AddonId, call: Call) -> ops.Listed:
        return await self._switch(request.id, call.actor, enabled=False)

    async def _on_remove(self, request: ops.AddonId, call: Call) -> ops.Nothing:
        """Stop and forget an add-on; its data folder and the bindings stay."""
        async with self._lock:
            async with self._database.transaction() as connection:
                if not await addons.remove(connection, request.id):
                    raise _not_installed()
                await audit.write(connection, call.actor, "addon.remove", request.id)
            self._installed.pop(request.id, None)
            await self._end(request.id)
        return ops.Nothing()

    async def _switch(self, addon: str, actor: str, *, enabled: bool) -> ops.Listed:
        async with self._lock:
            async with self._database.transaction() as connection:
                installed = await addons.set_enabled(connection, addon, enabled)
                if installed is None:
                    raise _not_installed()
                await audit.write(connection, actor, "addon.enable" if enabled else "addon.disable", addon)
            self._installed[addon] = installed
            if not enabled:
                await self._end(addon)
            elif addon not in self._processes:
                await self._run(installed)
        if enabled:
            await self._processes[addon].first_try()
        return await self._listed_one(addon)

    async def listed(self) -> list[ops.Listed]:
        """The gallery: what could be installed, and what is."""
        packages = {p.manifest.id: p for p in await asyncio.to_thread(self._gallery.packages)}
        ids = sorted({*packages, *self._installed})
        return [self._describe(addon, packages.get(addon)) for addon in ids]

    async def _listed_one(self, addon: str) -> ops.Listed:
        return next(entry for entry in await self.listed() if entry.id == addon)

    def _describe(self, addon: str, package: Package | None) -> ops.Listed:
        installed, process = self._installed.get(addon), self._processes.get(addon)
        manifest = package.manifest if package else installed.manifest if installed else None
        assert manifest is not None, "an add-on that is listed is a package or installed"
        connector = manifest.capabilities.connector
        state = process.state if process else "stopped" if installed else "available"
        return ops.Listed(
            id=addon,
            version=manifest.version,
            title=manifest.title or addon,
            description=manifest.description,
            digest=package.digest if package else installed.digest if installed else "",
            source=package.source if package else installed.source if installed else "",
            state=state,
            reason=process.reason if process else "",
            kinds=[kind.id for kind in connector.kinds] if connector else [],
            tools=[tool.name for tool in manifest.capabilities.tools],
            installed_version=installed.version if installed else "",
            generation=installed.generation if installed else 0,
        )

    # -- processes and journal --------------------------------------------------------------------------

    async def _preinstall(self) -> None:
        if not self._preinstalled or await addons.installed(self._database):
            return
        for package in self._gallery.packages():
            if package.manifest.id in self._preinstalled:
                await self._journal(package, "system")

    async def _journal(self, package: Package, actor: str) -> Installed:
        async with self._database.transaction() as connection:
            installed = await addons.install(
                connection,
                manifest=package.manifest,
                digest=package.digest,
                source=package.source,
                actor=actor,
            )
            facts = {"version": installed.version, "digest": installed.digest}
            await audit.write(connection, actor, "addon.install", installed.id, **facts)
        return installed

    async def _run(self, installed: Installed) -> AddonProcess:
        process = AddonProcess(installed.manifest, self._command(installed), self._surroundings())
        self._processes[installed.id] = process
        await process.start()
        return process

    async def _end(self, addon: str) -> None:
        process = self._processes.pop(addon, None)
        if process is not None:
            await process.stop()

    def _command(self, installed: Installed) -> list[str]:
        """How an add-on is started: a module of ours, or a file of its own folder."""
        executable = installed.manifest.executable
        if installed.source == BUNDLED:
            return [sys.executable, "-P", "-m", executable]
        home = gallery.home_of(self._packages, installed.id, installed.digest)
        file = str(home / executable)
        return [sys.executable, "-P", file] if executable.endswith(".py") else [file]


def _offer(running: Running) -> ops.RunningAddon:
    manifest = running.manifest
    connector = manifest.capabilities.connector
    kinds = connector.kinds if connector else ()
    title = manifest.title or running.id
    return ops.RunningAddon(running.id, manifest.version, title, kinds, manifest.capabilities.tools)


def _not_installed() -> PlatformRefused:
    return PlatformRefused("this add-on is not installed", reason="gone")
