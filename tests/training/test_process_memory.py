"""What a process keeps of the memory that its trainings had."""

import ctypes
import subprocess
import sys

import pytest

MANY_THREADS = """
import ctypes, re, sys, tempfile, threading
import numpy as np
from slipstream.training.process_memory import retain_freed_memory

assert retain_freed_memory()
together = threading.Barrier(12)

def work():
    together.wait()
    mine = [np.ones(1000) for _ in range(100)]
    together.wait()

threads = [threading.Thread(target=work) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
with tempfile.NamedTemporaryFile() as told:
    file = ctypes.c_void_p(libc.fopen(told.name.encode(), b"w"))
    libc.malloc_info(0, file)
    libc.fclose(file)
    print(len(re.findall("<heap nr=", open(told.name).read())))
"""


@pytest.mark.process
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="only glibc has arenas")
def test_threads_share_a_few_arenas_so_that_trainings_of_a_process_keep_no_more_each_time():
    output = subprocess.run(
        [sys.executable, "-c", MANY_THREADS], capture_output=True, text=True, check=True
    )
    assert 1 < int(output.stdout) <= 4
