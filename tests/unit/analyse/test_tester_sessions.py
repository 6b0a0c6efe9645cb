"""Figures of the sessions of testers in a window, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from plimsoll.analyse.run.tester_sessions import remark, session_figures
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.columns.sessions import (
    QUERY_FAILED,
    SUCCEEDED,
    UNFINISHED,
    WORK_FAILED,
    SessionColumns,
)

S = 10**9
WINDOW = Window(10 * S, 20 * S)


def columns(*sessions: tuple[float, float, int]) -> SessionColumns:
    """Start and duration in s, and how the session ended."""
    start, duration, ended = (np.array(part) for part in zip(*sessions, strict=True))
    return SessionColumns((start * S).astype(np.int64), (duration * S).astype(np.int64), ended)


def test_a_session_counts_by_its_part_in_the_window() -> None:
    found = session_figures(
        columns(
            (2.0, 4.0, SUCCEEDED),  # before the window
            (8.0, 4.0, SUCCEEDED),  # half
            (12.0, 4.0, SUCCEEDED),  # whole
            (16.0, 8.0, SUCCEEDED),  # ended in the drain: half
        ),
        WINDOW,
    )
    assert found is not None
    assert found.sessions.per_s == pytest.approx(2.0 / 10)
    assert (found.sessions.succeeded, found.sessions.finished, found.sessions.unfinished) == (2, 2, 1)
    assert found.sessions.duration_ms.mean == pytest.approx(4_000)


def test_an_unfinished_session_counts_by_the_longer_ones_and_the_share_of_success() -> None:
    found = session_figures(
        columns(
            (10.0, 2.0, SUCCEEDED),
            (10.0, 5.0, SUCCEEDED),
            (12.0, 1.0, QUERY_FAILED),
            (13.0, 1.0, WORK_FAILED),
            (16.0, 4.0, UNFINISHED),  # 4 of 5 s elapsed
            (5.0, 15.0, UNFINISHED),  # none is longer: 10 of 15 s elapsed in the window
        ),
        WINDOW,
    )
    assert found is not None
    sessions = found.sessions
    assert sessions.per_s == pytest.approx((2 + 0.5 * (4 / 5 + 10 / 15)) / 10)
    assert (sessions.work_failed, sessions.query_failed, sessions.failed, sessions.finished) == (1, 1, 2, 4)
    assert (sessions.failed_share, sessions.unfinished) == (0.5, 2)
    text = "the window of 10 s is shorter than 3 sessions, which took 3.5 s on average"
    assert remark(sessions, WINDOW).startswith(text)
    assert remark(sessions, Window(0, 11 * S)) == ""


def test_without_a_finished_session_the_rate_is_not_known() -> None:
    found = session_figures(columns((10.0, 10.0, UNFINISHED)), WINDOW)
    assert found is not None
    assert (found.sessions.per_s, found.sessions.failed_share) == (None, None)
    assert remark(found.sessions, WINDOW) == "no session succeeded in the window"


def test_if_all_sessions_fail_the_rate_is_zero() -> None:
    found = session_figures(columns((11.0, 1.0, WORK_FAILED), (14.0, 6.0, UNFINISHED)), WINDOW)
    assert found is not None
    assert found.sessions.per_s == 0


def test_a_run_without_sessions_has_no_figures() -> None:
    empty = np.empty(0, dtype=np.int64)
    assert session_figures(SessionColumns(empty, empty, empty), WINDOW) is None
