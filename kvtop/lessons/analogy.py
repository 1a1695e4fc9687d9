"""The operating-system analogy, term by term: what each word of paging is here, and where it is seen."""

from __future__ import annotations

from typing import NamedTuple


class Term(NamedTuple):
    system: str
    """In an operating system."""
    engine: str
    """In a paged serving engine."""
    seen: str
    """Where this program shows it."""


TERMS = (
    Term("page", "KV block", "a cell of the pool: keys and values of a fixed number of tokens, all layers together"),
    Term("frame number", "block id", "point at a cell of the pool: block 17"),
    Term("page table of a process", "block table of a sequence", "b, with a sequence selected: logical → physical"),
    Term(
        "demand paging: allocated at first touch",
        "a block when decode fills the last one",
        "the decision path: last block full, free block → append",
    ),
    Term(
        "virtual addresses contiguous, frames scattered",
        "token positions contiguous, blocks scattered",
        "select a sequence: its blocks light up wherever they lie",
    ),
    Term(
        "shared pages with copy-on-write",
        "shared prefix blocks with copy-on-write",
        "underlined cells; copied in the events; the prefix tree (3)",
    ),
    Term("swapping a process out", "preemption by swap", "swapped in the sequence table; its blocks in CPU memory"),
    Term(
        "page cache, dropped under pressure",
        "prefix cache, evicted under pressure",
        "dim cells; cached in the top line; evicted in the events",
    ),
)

DIFFERENCES = (
    "A process waits for a page that is not there. An attention kernel cannot: every block of a running sequence must "
    "be in the pool, or the sequence does not run.",
    "A page that was dropped is read from disk again. A block that was dropped is computed again.",
    "Paging manages one GPU's memory. Moving KV between GPUs, or to disk, is another system.",
    "The pool is fixed when the engine starts. Another process on the card can still run it out of memory.",
)
"""Where the analogy ends."""
