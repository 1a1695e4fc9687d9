"""What KV events tell: which content is cached, where. *Logical residency*, never a picture of physical memory.

Events name contents (hashes), not blocks: no block ids, no owners, no ref counts, no order of eviction, nothing of
blocks that are partly filled. An entry is kept by rank, medium, group and hash. How many blocks hold one content is
known within bounds only: a store may be a new copy or a report of one that was hit, a removal takes one copy away. So
each entry counts reports, ``at_most``; its last event says whether it is there for certain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kvtop.attach.kv_events import DEFAULT_MEDIUM, AllBlocksCleared, BlockRemoved, BlockStored, Hash, KvEvent


class Tier(NamedTuple):
    """Where content is: a medium of a rank, for one group of layers."""

    rank: int
    medium: str
    group: int


class Scope(NamedTuple):
    """Whose hashes chain together: a group of layers of a rank."""

    rank: int
    group: int


@dataclass(slots=True)
class TierView:
    """One tier: content → the number of blocks it may fill at most, negative when it may be gone altogether."""

    copies: dict[Hash, int]
    stored: int = 0
    """Contents stored or reported, ever."""
    removed: int = 0
    unknown_removed: int = 0
    """Removals of what was never seen stored: it was cached before we joined, or its store was missed."""

    @property
    def at_least(self) -> int:
        """Blocks that hold content for certain."""
        return sum(1 for count in self.copies.values() if count > 0)

    @property
    def at_most(self) -> int:
        """Blocks that may hold content, if every report was a block of its own."""
        return sum(abs(count) for count in self.copies.values())


@dataclass(frozen=True, slots=True)
class Node:
    """One content in the prefix tree of a scope."""

    hash: Hash
    depth: int
    """Blocks before it in its chain, from the root, or from the placeholder it hangs under."""
    children: int
    placeholder: bool
    """It is not resident as far as events tell; what is below it is."""
    media: tuple[str, ...]
    at_most: int
    """Blocks of all media that may hold it."""
    certain: bool


class Residency:
    """``apply`` the events of a server in order; everything else asks."""

    def __init__(self) -> None:
        self.tiers: dict[Tier, TierView] = {}
        self.block_sizes: dict[Scope, int] = {}
        """Tokens a block."""
        self.kinds: dict[Scope, str] = {}
        """What a group's layers are, where the server says so. Untrusted."""
        self.clears = 0
        """AllBlocksCleared that were seen."""
        self.version = 0
        """Rises with every change."""
        self._parents: dict[Scope, dict[Hash, Hash | None]] = {}
        self._children: dict[Scope, dict[Hash | None, dict[Hash, None]]] = {}
        self._places: dict[tuple[int, str | None, str | None, int | None], tuple[Scope, TierView]] = {}

    def apply(self, rank: int, event: KvEvent) -> None:
        """Take one event of a rank over."""
        self.version += 1
        if isinstance(event, BlockStored):
            self._store(rank, event)
        elif isinstance(event, BlockRemoved):
            self._remove(rank, event)
        elif isinstance(event, AllBlocksCleared):
            self.clears += 1
            self.forget(rank)

    def forget(self, rank: int) -> None:
        """Nothing is cached on a rank: it said so, or it began anew."""
        self.version += 1
        for tier in [tier for tier in self.tiers if tier.rank == rank]:
            self.tiers[tier].copies.clear()
        for scope in [scope for scope in self._parents if scope.rank == rank]:
            self._parents[scope].clear()
            self._children[scope].clear()

    def _store(self, rank: int, event: BlockStored) -> None:
        scope, tier = self._place(rank, event)
        parents, children = self._parents[scope], self._children[scope]
        self.block_sizes[scope] = event.block_size
        if event.kv_cache_spec_kind:
            self.kinds[scope] = event.kv_cache_spec_kind
        copies = tier.copies
        parent = event.parent_block_hash
        for content in event.block_hashes:
            copies[content] = abs(copies.get(content, 0)) + 1
            if content not in parents:
                parents[content] = parent
                children.setdefault(parent, {})[content] = None
            parent = content
        tier.stored += len(event.block_hashes)

    def _remove(self, rank: int, event: BlockRemoved) -> None:
        scope, tier = self._place(rank, event)
        copies = tier.copies
        for content in event.block_hashes:
            count = abs(copies.get(content, 0))
            if count > 1:
                copies[content] = 1 - count  # one copy is gone; whether the others were copies, nobody said
            elif count == 1:
                del copies[content]
                if not self._resident(scope, content):
                    self._unlink(scope, content)
            else:
                tier.unknown_removed += 1
        tier.removed += len(event.block_hashes)

    def _place(self, rank: int, event: BlockStored | BlockRemoved) -> tuple[Scope, TierView]:
        """Where an event belongs; remembered, as it is asked for with every event."""
        key = (rank, event.medium, event.locality, event.group_idx)
        place = self._places.get(key)
        if place is None:
            scope = Scope(rank, event.group_idx or 0)
            tier = self.tiers.setdefault(Tier(rank, _medium(event), scope.group), TierView({}))
            self._parents.setdefault(scope, {})
            self._children.setdefault(scope, {})
            place = self._places[key] = (scope, tier)
        return place

    def _resident(self, scope: Scope, content: Hash) -> bool:
        return any(
            content in tier.copies
            for key, tier in self.tiers.items()
            if key.rank == scope.rank and key.group == scope.group
        )

    def _unlink(self, scope: Scope, content: Hash) -> None:
        parent = self._parents[scope].pop(content)
        siblings = self._children[scope][parent]
        del siblings[content]
        if not siblings:
            del self._children[scope][parent]

    # --- asking -------------------------------------------------------------------------------------------------------

    def at_least(self, rank: int) -> int:
        """Blocks of a rank's device pool that hold content for certain."""
        return sum(tier.at_least for key, tier in self.tiers.items() if key[:2] == (rank, DEFAULT_MEDIUM))

    def at_most(self, rank: int) -> int:
        """Blocks of a rank's device pool that may hold content."""
        return sum(tier.at_most for key, tier in self.tiers.items() if key[:2] == (rank, DEFAULT_MEDIUM))

    @property
    def scopes(self) -> list[Scope]:
        return sorted(self._parents)

    def placeholders(self, scope: Scope) -> list[Hash]:
        """Contents that are not resident while what hangs under them is: stored before we joined, or removed first."""
        parents = self._parents.get(scope, {})
        return [content for content in self._children.get(scope, {}) if content is not None and content not in parents]

    def walk(self, scope: Scope, most: int = 10_000) -> Iterator[Node]:
        """The prefix tree of a scope from its roots, parents before children; placeholders come last."""
        children = self._children.get(scope, {})
        lost = set(self.placeholders(scope))
        stack: list[tuple[Hash, int]] = [(content, 0) for content in [*children.get(None, ()), *lost]][::-1]
        while stack and most > 0:
            content, depth = stack.pop()
            below = children.get(content, {})
            yield self._node(scope, content, depth, len(below), content in lost)
            stack += [(child, depth + 1) for child in reversed(below)]
            most -= 1

    def _node(self, scope: Scope, content: Hash, depth: int, below: int, placeholder: bool) -> Node:
        held = {
            key.medium: tier.copies[content]
            for key, tier in self.tiers.items()
            if key.rank == scope.rank and key.group == scope.group and content in tier.copies
        }
        return Node(
            hash=content,
            depth=depth,
            children=below,
            placeholder=placeholder,
            media=tuple(sorted(held)),
            at_most=sum(abs(count) for count in held.values()),
            certain=any(count > 0 for count in held.values()),
        )


def _medium(event: BlockStored | BlockRemoved) -> str:
    """Where it is, told apart from what is elsewhere."""
    medium = event.medium or DEFAULT_MEDIUM
    return f"{medium} ({event.locality.lower()})" if event.locality and event.locality != "LOCAL" else medium


def disagreement(residency: Residency, rank: int, usage: float | None, num_blocks: float | None) -> str | None:
    """What events and metrics say that cannot both be true; None when they fit, as far as can be told.

    ``usage`` counts blocks that requests hold, full or not; events count full blocks, held or not. So events may tell
    of more than usage says, but not of more blocks than there are; and of a pool that is well filled they tell some.
    """
    if usage is None or not num_blocks:
        return None
    usable = num_blocks - 1  # vLLM keeps block 0 for itself
    certain, possible = residency.at_least(rank), residency.at_most(rank)
    if certain > usable:
        return f"events tell of {certain:,} cached blocks, the pool has {usable:,.0f}"
    held = usage * usable
    if not possible and held >= max(4, 0.1 * usable):
        return f"metrics say that {held:,.0f} blocks are held, events say that nothing is cached"
    return None
