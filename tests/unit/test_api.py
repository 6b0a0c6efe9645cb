"""The public functions: a list that does not change by accident, each documented."""

from __future__ import annotations

import inspect

from plimsoll import api


def test_the_public_list() -> None:
    assert api.__all__ == [
        "Options",
        "analysis",
        "cells",
        "check",
        "document",
        "figures",
        "open_results",
        "plan",
        "report",
        "run",
        "runs",
        "samples",
        "summary",
        "transactions",
    ]


def test_every_public_name_is_documented_and_typed() -> None:
    for name in api.__all__:
        thing = getattr(api, name)
        assert len(inspect.getdoc(thing) or "") > 40, name
        if inspect.isfunction(thing):
            assert thing.__module__ == "plimsoll.api", name
            assert inspect.signature(thing).return_annotation is not inspect.Signature.empty, name
