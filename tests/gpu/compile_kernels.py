"""Compiles every kernel for a GPU of compute capability 9.0, which takes none: a program."""

import os

os.environ["TRITON_INTERPRET"] = "0"

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from slipstream.gpu.kernels import (
    copy_rows,
    dense_update,
    dots,
    find_slots,
    lookup,
    loss,
    mlp_elementwise,
    pages,
    touched_rows,
    update,
)
from slipstream.gpu.kernels.rows import BF16, FP32, SPLIT, Shape

TARGET = GPUTarget("cuda", 90, 32)
TYPES = {"counts": "*i32", "parameters": "*fp64", "halves": "*i16"}
PAGES = dict.fromkeys(("source", "target", "pages", "pieces", "number"), "*i64") | {"words": "i32"}
SIZES = ("capacity", "features", "length", "count", "place", "width", "lookups", "singles")
SCALARS = (*SIZES, "chunks", "room", "inputs", "apart", "blocks")
NUMBERS = ("values", "vectors", "steps", "gradient", "partial", "weights", "second")


def compiled(kernel, number, types=None, **constants):
    """Compile a kernel whose arguments have the types that their names have everywhere."""
    signature = {}
    for name in kernel.arg_names:
        if name in (types or {}):
            signature[name] = types[name]
        elif name in constants:
            signature[name] = "constexpr"
        elif name in NUMBERS or (name == "first" and kernel is dense_update._update_weights):
            signature[name] = f"*{number}"
        elif name in SCALARS and not (name == "count" and kernel is copy_rows._copy):
            signature[name] = "i32"
        else:
            known = PAGES if kernel in (pages._join, pages._write) else TYPES
            signature[name] = known.get(name, "*i64" if name == "order" else "*i32")
    fixed = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    made = triton.compile(ASTSource(kernel, signature, constexprs=fixed), target=TARGET)
    assert "ptx" in made.asm
    print(kernel.__name__, number, constants.get("OPTIMIZER", ""))


for storage, number, words, dim, optimizer in (
    (0, "fp32", 17, 16, 2),
    (1, "fp64", 400, 100, 1),
    (2, "fp32", 250, 100, 3),
    (3, "fp32", 16, 16, 0),
):
    shape = (storage, words, dim, dim, dim)
    columns = triton.next_power_of_2(dim)
    common = {"SHAPE": shape, "COLUMNS": columns}
    compiled(lookup._singles, number, INPUTS=1024 // columns, **common)
    compiled(lookup._pooled, number, INPUTS=512 // columns, MEAN=True, **common)
    compiled(lookup._steps, number, PLACES=1024 // columns, **common)
    compiled(update._chunks, number, AT_ONCE=2048 // columns, **common)
    moved = {"OPTIMIZER": optimizer, **common}
    compiled(update._move_long, number, AT_ONCE=2048 // columns, **moved)
    compiled(update._move_short, number, ROWS=512 // columns, **moved)
for number, given in (("fp32", "bf16"), ("fp32", "fp32"), ("fp64", "fp64")):
    numbers = dict.fromkeys(("labels", "weight", "offset", "logits_out", "loss"), f"*{number}")
    types = {"logits": f"*{given}", "gradient": f"*{given}", **numbers}
    compiled(loss._loss_and_grad, number, types | {"sums": f"*{number}"}, BLOCK=256)
    for adds in (False, True):
        sums = dict.fromkeys(("sums", "loss"), f"*{number}")
        compiled(loss._sum, number, sums, ADDS=adds, BLOCK=128)
for optimizer in dense_update.NUMBER.values():
    compiled(dense_update._update_weights, "fp32", OPTIMIZER=optimizer, IS_DOUBLE=False, BLOCK=1024)
for kernel in (pages._join, pages._write):
    compiled(kernel, "", BLOCK=1024)
compiled(copy_rows._copy, "", OUT=True, WORDS=17, ROWS=64, COLUMNS=32)
for kernel in (find_slots._by_number, find_slots._from_list):
    compiled(kernel, "", BLOCK=1024)
for name in ("_keys", "_firsts", "_rows", "_long"):
    compiled(getattr(touched_rows, name), "", BLOCK=1024)
# What goes on to the next layer has the type of the first vector, and so have its gradients.
for number, tf32, count, dim in (
    ("bf16", False, 26, 16),
    ("fp32", True, 26, 64),
    ("fp32", False, 3, 5),
):
    narrow = dict.fromkeys(("first", "out", "gradient", "for_first"), f"*{number}")
    wide = dict.fromkeys(("values", "for_vectors"), "*fp32")
    nowhere = dict.fromkeys(("halves", "slots", "span"))
    beside = (dots.Others((count, dim), None), nowhere)
    in_slots = [
        (dots.Others((count, dim), None, shape=Shape(storage, dim + 1, dim, dim, dim)), {})
        for storage in (FP32.value, BF16.value, SPLIT.value)
    ]
    for kernel in (dots._dots, dots._dots_backward):
        types = {n: kind for n, kind in (narrow | wide).items() if n in kernel.arg_names}
        for others, fixed in (beside, *in_slots):
            sizes = {name: size for name, size in dots._sizes(others).items() if name.isupper()}
            compiled(kernel, number, types, TF32=tf32, **fixed, **sizes)
for number, count in (("bf16", 512), ("fp32", 256), ("bf16", 5)):
    given = ("above", "output", "into", "bias", "out", "result", "gradient", "weight", "values")
    types = dict.fromkeys(given, f"*{number}") | {"partial": "*fp32", "inputs": "i32"}
    types |= dict.fromkeys(("total", "at", "at_weight", "at_bias"), "i32")
    sizes = {"COUNT": count, "COLUMNS": mlp_elementwise._columns(count)}
    for relu in (True, False):
        for kernel, rows in (("_through", 64), ("_from_single", 64), ("_single", 16)):
            compiled(getattr(mlp_elementwise, kernel), number, types, RELU=relu, ROWS=rows, **sizes)
    types |= {"matrices": ("*fp32", "*fp32", "*fp32"), "values": "*fp32"}
    shapes = ((0, 0, 512, 512, 13, 16), (4, 8192, 1, 1, 510, 512), (5, 8704, 1, 1, 1, 1))
    compiled(
        mlp_elementwise._pack, number, types, SHAPES=shapes, VALUES=(6, 8768, 13, 16), BLOCK=2048
    )
print("all compiled")
