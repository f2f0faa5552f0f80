"""A child process ends with its parent, also when the parent was killed (Linux: the kernel sends the signal)."""

import ctypes
import os
import shutil
import signal
import sys

_PR_SET_PDEATHSIG = 1

#: For programs that are not ours, where `setpriv` is missing. Needs the interpreter and nothing beside it.
_WRAPPER = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, int(sys.argv[1]))
os.getppid() == int(sys.argv[2]) or os._exit(1)
os.execv(sys.argv[3], sys.argv[3:])
"""


def end_with_parent(parent: int) -> None:
    """From now on this process is killed when `parent`, which started it, ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel knew our wish
        os._exit(1)


def tethered(command: list[str], ending: signal.Signals) -> list[str]:
    """The command for a program that gets the signal `ending` when this process ends.

    The kernel forgets the wish when a process changes its user, so it is made after that: in the program that
    becomes `command`.
    """
    if sys.platform != "linux":
        return command
    setpriv = shutil.which("setpriv")
    if setpriv is not None:
        return [setpriv, "--pdeathsig", ending.name.removeprefix("SIG"), "--", *command]
    return [sys.executable, "-I", "-S", "-c", _WRAPPER, str(int(ending)), str(os.getpid()), *command]
