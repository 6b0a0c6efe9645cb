"""A small HTTP proxy that changes how many requests reach its origin: `python proxy.py PORT ORIGIN [--twice SHARE]
[--swallow SHARE] [--seed N]`.

`--twice`: it sends this share of the requests twice, and drops the second response. `--swallow`: it answers this share
itself, with status 200. Without `--seed` it does so with every n-th request (share 0.05: every 20th), else by chance.
It accepts requests to itself and those of clients that use it as their proxy.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from urllib.parse import urlsplit

OWN_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Chance:
    """Selects a share of the requests."""

    def __init__(self, share: float, seed: int | None) -> None:
        self._share = share
        self._random = None if seed is None else random.Random(seed)
        self._number = 0

    def is_next(self) -> bool:
        """Whether the next request is selected."""
        if self._random is not None:
            return self._random.random() < self._share
        before, self._number = int(self._number * self._share), self._number + 1
        return int(self._number * self._share + 1e-9) > before


async def message(reader: asyncio.StreamReader) -> bytes | None:
    """The next request or response, whose body has a Content-Length; None at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        fields = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
        length = next((int(value) for name, _, value in fields if name.lower() == b"content-length"), 0)
        return head + await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def to_origin(request: bytes) -> bytes:
    """The request with the path only, as an origin receives it."""
    line, _, rest = request.partition(b"\r\n")
    method, target, version = line.split(b" ")
    if target.startswith(b"http://"):
        url = urlsplit(target)
        target = (url.path or b"/") + (b"?" + url.query if url.query else b"")
    return b" ".join((method, target, version)) + b"\r\n" + rest


class Proxy:
    """Forwards the requests of each client over a connection of its own."""

    def __init__(self, origin: str, twice: Chance, swallow: Chance) -> None:
        self._origin = urlsplit(origin)
        self._twice = twice
        self._swallow = swallow

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a client until it closes its connection."""
        upstream = None
        try:
            while (request := await message(reader)) is not None:
                if self._swallow.is_next():
                    writer.write(OWN_ANSWER)
                    continue
                if upstream is None:
                    upstream = await asyncio.open_connection(self._origin.hostname, self._origin.port)
                answer = None
                for _ in range(2 if self._twice.is_next() else 1):
                    upstream[1].write(to_origin(request))
                    answer = await message(upstream[0])
                    if answer is None:
                        return
                writer.write(answer or b"")
                await writer.drain()
        finally:
            for stream in (writer, *(upstream or ())[1:]):
                stream.close()


async def main() -> None:
    """Listens until it is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("origin")
    parser.add_argument("--twice", type=float, default=0.0)
    parser.add_argument("--swallow", type=float, default=0.0)
    parser.add_argument("--seed", type=int)
    given = parser.parse_args()
    proxy = Proxy(given.origin, Chance(given.twice, given.seed), Chance(given.swallow, given.seed))
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", given.port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
