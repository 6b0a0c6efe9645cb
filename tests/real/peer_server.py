"""A server that counts the connections of each peer address. It answers HTTP requests and lines.

`python -m tests.real.peer_server FILE` writes its port to FILE, and after each connection the figures.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Final

HTTP_ANSWER: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class PeerServer:
    def __init__(self, file: Path) -> None:
        self.file = file
        self.port = 0
        self.peers: Counter[str] = Counter()
        self.open = self.most_open = 0

    async def serve(self) -> None:
        server = await asyncio.start_server(self.answer, "127.0.0.1", 0, backlog=1000)
        self.port = server.sockets[0].getsockname()[1]
        self.write()
        await server.serve_forever()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.peers[writer.get_extra_info("peername")[0]] += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        self.write()
        try:
            while line := await reader.readline():
                if line.startswith(b"GET "):
                    await reader.readuntil(b"\r\n\r\n")
                    writer.write(HTTP_ANSWER)
                else:
                    writer.write(b"pong\n")
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()

    def write(self) -> None:
        """Replaces the file as a whole: the test reads it at any time."""
        new = self.file.with_suffix(".new")
        new.write_text(
            json.dumps({"port": self.port, "peers": self.peers, "most_open": self.most_open}),
            encoding="utf-8",
        )
        new.replace(self.file)


if __name__ == "__main__":
    asyncio.run(PeerServer(Path(sys.argv[1])).serve())
