"""The contents that KV events name, as a tree of branches: blocks that follow each other without a fork are one.

Made of a Residency at the moment it is asked for. What is not resident while something hangs under it is a placeholder:
it was stored before we joined, or has been evicted before what follows it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kvtop.attach.kv_events import Hash
from kvtop.view.residency import Node, Residency, Scope
from kvtop.view.tree_lines import rows_of_tree

MOST_BLOCKS = 20_000


@dataclass(slots=True)
class ContentBranch:
    """Contents in a row; the first has ``depth`` blocks before it, counted from the root, or from a placeholder."""

    contents: list[Hash]
    depth: int
    placeholder: bool
    media: tuple[str, ...]
    certain: int
    """Contents that are there for certain; the rest may be gone."""
    at_most: int
    """Blocks that may hold them, over all media."""
    branches: list[ContentBranch] = field(default_factory=list)
    tree_blocks: int = 0
    """Contents in it and in all that follows."""


@dataclass(frozen=True, slots=True)
class ContentTree:
    branches: list[ContentBranch]
    contents: int
    is_cut: bool
    """There are more contents than were looked at."""

    def rows(self) -> list[tuple[ContentBranch, str]]:
        """Every branch, parents first, with the lines that lead to it: ``"│  ├─ "``."""
        return rows_of_tree(self.branches)


def content_tree(residency: Residency, scope: Scope) -> ContentTree:
    """The tree of one rank's group of layers. O(contents), MOST_BLOCKS of them at most."""
    nodes = list(residency.walk(scope, MOST_BLOCKS + 1))
    is_cut = len(nodes) > MOST_BLOCKS
    tops: list[ContentBranch] = []
    path: list[tuple[ContentBranch, Node]] = []
    """Each depth's last node and the branch it is in, from the root to here."""
    order: list[ContentBranch] = []
    for node in nodes[:MOST_BLOCKS]:
        del path[node.depth :]
        above = path[-1] if path else None
        if above is not None and above[1].children == 1 and _goes_on(above[1], node):
            branch = above[0]
            branch.contents.append(node.hash)
            branch.certain += node.certain
            branch.at_most += node.at_most
        else:
            branch = ContentBranch(
                [node.hash], node.depth, node.placeholder, node.media, int(node.certain), node.at_most
            )
            (above[0].branches if above is not None else tops).append(branch)
            order.append(branch)
        path.append((branch, node))
    for branch in reversed(order):
        own = 0 if branch.placeholder else len(branch.contents)
        branch.tree_blocks = own + sum(below.tree_blocks for below in branch.branches)
        branch.branches.sort(key=lambda below: -below.tree_blocks)
    tops.sort(key=lambda top: (top.placeholder, -top.tree_blocks))
    return ContentTree(tops, sum(top.tree_blocks for top in tops), is_cut)


def _goes_on(above: Node, node: Node) -> bool:
    """Whether it goes on in the same branch: nothing about it is different."""
    return above.placeholder == node.placeholder and above.media == node.media and above.certain == node.certain
