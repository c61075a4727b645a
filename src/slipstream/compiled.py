"""One way to compile a kernel: without the interpreter lock, and kept for the next process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """The function as machine code; compiled when it is first called.

    Where no folder can be written to, it is compiled anew by every process.
    """
    try:
        return cast(F, njit(nogil=True, cache=True)(function))
    except RuntimeError:  # no place for what is kept
        return cast(F, njit(nogil=True)(function))
