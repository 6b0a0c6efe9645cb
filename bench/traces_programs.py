"""Programs whose replays are held against themselves: single- and multi-threaded, computing and waiting."""

from __future__ import annotations

from typing import Final

_HEAD: Final = """
import os, random, sys, threading, time
random.seed(7)
def burn(n):
    x = 0
    for i in range(n): x ^= i * i
    return x
def data(name, size):
    if not os.path.exists(name):
        with open(name, 'wb') as out: out.write(os.urandom(size))
    return os.open(name, os.O_RDWR)
"""

PROGRAMS: Final[dict[str, str]] = {
    "mixed": _HEAD
    + """
fd = data('mixed.bin', 20_000_000)
out = os.open('mixed.out', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
for i in range(1_000):
    os.lseek(fd, random.randrange(19_000_000), 0)
    os.read(fd, 65536); burn(20_000)
    if i % 4 == 0: os.write(out, b'x' * 4096)
    if i % 50 == 0: time.sleep(0.005)
""",
    "computing": _HEAD
    + """
fd = data('computing.bin', 1_000_000)
for i in range(100):
    os.pread(fd, 100_000, 0); burn(200_000)
""",
    "waiting": _HEAD
    + """
fd = data('waiting.bin', 1_000_000)
for i in range(200):
    os.pread(fd, 4096, i % 200 * 4096); time.sleep(0.005)
""",
    "small-reads": _HEAD
    + """
fd = data('small.bin', 4_000_000)
for i in range(100_000):
    if i % 50_000 == 0: os.lseek(fd, 0, 0)
    os.read(fd, 40)
""",
    "writes": _HEAD
    + """
out = os.open('writes.out', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
for i in range(15_000):
    if i % 3_000 == 0: os.lseek(out, 0, 0)
    os.write(out, b'y' * 30_000); burn(500)
""",
    "files": _HEAD
    + """
os.makedirs('many', exist_ok=True)
for i in range(2_000):
    fd = os.open(f'many/{i}', os.O_WRONLY | os.O_CREAT | os.O_TRUNC); os.write(fd, b'z' * 2_000); os.close(fd)
    burn(2_000)
for i in range(2_000): os.stat(f'many/{i}')
for i in range(2_000): os.unlink(f'many/{i}')
""",
    "threads": _HEAD
    + """
fd = data('threads.bin', 20_000_000)
def work(k):
    for i in range(500):
        os.pread(fd, 50_000, random.randrange(19_000_000)); burn(10_000); time.sleep(0.001)
all = [threading.Thread(target=work, args=(k,)) for k in range(4)]
[one.start() for one in all]; [one.join() for one in all]
""",
    "pipeline": _HEAD
    + """
import queue
fd, todo = data('pipeline.bin', 20_000_000), queue.Queue(8)
out = os.open('pipeline.out', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
def consume():
    while (piece := todo.get()) is not None: burn(8_000); os.write(out, piece)
one = threading.Thread(target=consume); one.start()
for i in range(1_250): todo.put(os.pread(fd, 60_000, i % 250 * 60_000)); time.sleep(0.0005)
todo.put(None); one.join()
""",
    "bursts": _HEAD
    + """
fd = data('bursts.bin', 8_000_000)
for i in range(20):
    for j in range(500): os.pread(fd, 8_000, j * 8_000)
    burn(500_000); time.sleep(0.03)
""",
    "append-sync": _HEAD
    + """
out = os.open('log', os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
for i in range(1_500): os.write(out, b'a line of a log\\n' * 20); os.fdatasync(out); burn(5_000)
""",
}
