"""Asks for rows of an array before they are needed: compiled loops then wait for memory far less.

A loop over rows that are far apart waits for one after the other, and a processor that reads ahead
by itself cannot know which come. Asked for, a row comes while others are worked on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from slipstream.arrays import Array

AHEAD = 64
"""Rows that a loop asks for ahead: as many as a processor can wait for, and its caches hold."""


def _prefetch(_: Any, array: Any, row: Any, column: Any) -> tuple[Any, Any]:
    """How Numba compiles it: the types that it is given, and the code."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind, *numbers = signature.args
        llvm_array = context.make_array(kind)(context, builder, args[0])
        at = [
            context.cast(builder, value, number, types.intp)
            for value, number in zip(args[1:], numbers, strict=True)
        ]
        place = cgutils.get_item_pointer(context, builder, kind, llvm_array, at, wraparound=False)
        number = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        ask = builder.module.declare_intrinsic("llvm.prefetch", (place.type,), shape)
        # To be read, to be kept, and it is data.
        builder.call(ask, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, row, column), code


prefetch: Callable[[Array, int, int], None] = cast(Any, intrinsic(_prefetch))
"""Asks for an element of an array of two dimensions: it is not read, and need not be there."""
