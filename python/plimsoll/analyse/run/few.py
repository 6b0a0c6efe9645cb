"""Runs in which the testers of closed loads ended few transactions each. Pure.

The position of the window alone changes the count of a tester with n transactions by up to one. Testers that started
together have the same error, so that the throughput of all testers has it, too: up to 1 / n.
If the times of n transactions are exponential, equal testers have counts with a variance of about n, and Jain's index
is 1 / (1 + 1 / n) by chance (Jain, Chiu and Hawe 1984: 1 / (1 + CV^2)).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from plimsoll.analyse.results.analysis import OpenLoad
from plimsoll.analyse.results.run import FewTransactions, TesterResult

MIN_TRANSACTIONS = 10
"""Number of transactions of a tester below which a run has the remark."""


def few_transactions(
    testers: Sequence[TesterResult], open_load: OpenLoad, window_s: float, each_tester: int | None
) -> FewTransactions | None:
    """The remark on a run; None if its testers ended enough transactions, if all loads are open, or if the number of
    transactions of each tester was planned (`each_tester`)."""
    closed = [tester for tester in testers if open_load == "none" or tester.share is not None]
    if open_load == "all" or each_tester is not None or not closed:
        return None
    middle = float(median(tester.transactions + tester.errors for tester in closed))
    if middle >= MIN_TRANSACTIONS:
        return None
    needed = window_s * MIN_TRANSACTIONS / middle if middle > 0 else None
    return FewTransactions(testers=len(closed), median=middle, needed_s=needed)
