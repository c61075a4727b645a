"""Threads of compiled code that wait for each other without the interpreter lock.

A thread that waits for a Python lock needs the interpreter lock afterwards, which the thread that
wakes it holds meanwhile. Where threads hand over many times for a step of a GPU, that alone takes
longer than the step. These signals are the C library's semaphores, used by compiled code alone.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from slipstream.arrays import Array

_WORDS = 4  # of eight bytes: the size of a semaphore
AVAILABLE = sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), "sem_init")
"""Whether there are signals here: other systems have none that compiled code finds by name."""


def signals(count: int) -> Array:
    """So many signals, none of them given; the address of each row is that of a signal."""
    rows: Array = np.zeros((count, _WORDS), dtype=np.int64)
    for row in rows if AVAILABLE else ():
        if ctypes.CDLL(None).sem_init(ctypes.c_void_p(row.ctypes.data), 0, 0):
            raise OSError("The C library could not make a semaphore.")
    return rows


def _called(name: str) -> Any:
    """Compiles a call of a function of the C library with the address of a signal."""

    def call(_: Any, address: Any) -> tuple[Any, Any]:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if not AVAILABLE:
                return ir.Constant(ir.IntType(32), 0)
            (address_type,) = signature.args
            where = context.cast(builder, args[0], address_type, types.intp)
            pointer = builder.inttoptr(where, ir.IntType(8).as_pointer())
            shape = ir.FunctionType(ir.IntType(32), [pointer.type])
            function = builder.module.globals.get(name)
            if function is None:
                function = ir.Function(builder.module, shape, name)
            return builder.call(function, [pointer])

        return types.int32(address), code

    return intrinsic(call)


def _pointer(_: Any, address: Any) -> tuple[Any, Any]:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (address_type,) = signature.args
        where = context.cast(builder, args[0], address_type, types.intp)
        return builder.inttoptr(where, context.get_value_type(types.voidptr))

    return types.voidptr(address), code


give: Callable[[int], int] = cast(Any, _called("sem_post"))
"""Gives a signal, by its address, in compiled code."""
await_: Callable[[int], int] = cast(Any, _called("sem_wait"))
"""Waits for a signal and takes it; returns 0, or another number if it was interrupted."""
pointer: Callable[[int], Any] = cast(Any, intrinsic(_pointer))
"""An address as an argument of `numba.carray`, in compiled code."""
