"""The files that a server of files contains when it starts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from plimsoll.plan.source.fields import Raw, Seed, Size

MAX_FILES = 10_000

FileSize = Annotated[Size, Field(ge=1)]


class FilesRaw(Raw):
    """`count` files of `size` bytes, named f0, f1, ... Their contents follow from `seed` and the number of the file, so
    they are the same on every host."""

    count: Annotated[int, Field(ge=1, le=MAX_FILES)] = 1
    size: FileSize = 1_000_000
    seed: Seed = 1
