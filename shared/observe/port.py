"""Ports that may be taken, without what an HTTP server needs: `trunkline up` asks too, and stays small."""

import asyncio
import errno


class PortTaken(Exception):
    """The port cannot be listened on; the text says which and what to do."""


async def require_free(host: str, port: int, *, chosen_by: str) -> None:
    """Raises PortTaken now for a port that somebody is to listen on later."""
    try:
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port)
    except OSError as problem:
        raise taken(host, port, chosen_by, problem) from None
    server.close()
    await server.wait_closed()


def taken(host: str, port: int, chosen_by: str, problem: OSError) -> PortTaken:
    """`problem` in words; `chosen_by` is where the operator chooses the port."""
    if problem.errno == errno.EADDRINUSE:
        return PortTaken(
            f"port {port} on {host} is taken by another program: stop that, or choose another port with {chosen_by}"
        )
    if problem.errno == errno.EACCES:
        return PortTaken(f"port {port} on {host} needs more rights: choose one above 1023 with {chosen_by}")
    return PortTaken(f"{host}:{port} cannot be listened on ({problem.strerror}): choose another address")
