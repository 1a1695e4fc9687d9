"""Figures of a fleet as people read them, in tables and on screens alike. What is not known is –, never 0."""

from __future__ import annotations

from kvtop.attach.histogram import Quantile
from kvtop.view.fleet import FleetRow
from kvtop.view.words import UNKNOWN, duration


def share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1%}"


def number(value: float | None, digits: int = 0) -> str:
    return UNKNOWN if value is None else f"{value:,.{digits}f}"


def time(quantile: Quantile | None) -> str:
    """A latency, short enough for a column: ``340ms``, ``2.1s``; ``>60s`` beyond the server's buckets, ``<300ms`` in
    the first of them, where nothing more is known."""
    if quantile is None:
        return UNKNOWN
    if quantile.under is not None:
        return f"<{seconds(quantile.under)}"
    return f">{seconds(quantile.value)}" if quantile.beyond else seconds(quantile.value)


def seconds(value: float | None) -> str:
    """A time, short enough for a column."""
    if value is None:
        return UNKNOWN
    if value < 0.01:
        return f"{1000 * value:.1f}ms"
    if value < 1:
        return f"{1000 * value:.0f}ms"
    return f"{value:.1f}s" if value < 100 else f"{value:.0f}s"


def tokens(quantile: Quantile | None) -> str:
    """A length in tokens."""
    if quantile is None:
        return UNKNOWN
    return f"{'>' if quantile.beyond else ''}{quantile.value:,.0f}"


def about_tokens(quantile: Quantile | None) -> str:
    """The same where it lies somewhere within a bucket: ``~99``."""
    return tokens(quantile) if quantile is None or quantile.beyond else f"~{tokens(quantile)}"


def bound_in_tokens(quantile: Quantile | None) -> str:
    """The same where it is the upper end of a bucket, which nothing passed: ``≤100``."""
    return tokens(quantile) if quantile is None or quantile.beyond else f"≤{tokens(quantile)}"


def state(row: FleetRow) -> str:
    """How a rank's server answers, with the age of what is known where that is old."""
    if row.missing:
        return f"gone {duration(row.age_s)}"
    if row.state in ("live", "connecting") or row.age_s is None:
        return row.state
    return f"{row.state} {duration(row.age_s)}"


def reasons(row: FleetRow) -> str:
    """Why requests wait, as far as the server says: ``capacity 3``."""
    return ", ".join(f"{reason} {count:,.0f}" for reason, count in row.waiting_by_reason.items() if count)
