from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvtop.view.owner_slots import GLYPHS, NO_SLOT, OwnerSlots, glyph


def test_a_sequence_keeps_its_slot_until_it_ends() -> None:
    slots = OwnerSlots()
    assert [slots.assign(seq) for seq in (5, 9, 5)] == [0, 1, 0]
    slots.release(5)
    assert slots.slot_of(9) == 1


def test_a_free_slot_is_used_again_as_late_as_possible() -> None:
    slots = OwnerSlots()
    slots.assign(1)
    slots.release(1)
    assert [slots.assign(seq) for seq in range(2, 63)] == list(range(1, 62))
    assert slots.assign(63) == 0


def test_an_ended_owner_has_its_slot_until_somebody_takes_it() -> None:
    slots = OwnerSlots()
    for seq in range(62):
        slots.assign(seq)
    slots.release(7)
    assert slots.slot_of(7) == 7
    assert slots.assign(100) == 7
    assert slots.slot_of(7) == NO_SLOT


def test_more_owners_than_glyphs_get_slots_of_their_own_and_low_slots_are_preferred_again() -> None:
    slots = OwnerSlots()
    assigned = [slots.assign(seq) for seq in range(70)]
    assert len(set(assigned)) == 70
    assert glyph(assigned[62]) == glyph(0) == "A"
    slots.release(65)
    slots.release(3)
    assert slots.assign(70) == 3
    assert slots.assign(71) == 65


@given(st.lists(st.tuples(st.integers(1, 120), st.booleans()), max_size=200))
def test_living_sequences_never_share_a_slot_and_arrays_agree_with_single_answers(
    moves: list[tuple[int, bool]],
) -> None:
    slots, alive = OwnerSlots(), set()
    for seq, starts in moves:
        if starts:
            slots.assign(seq)
            alive.add(seq)
        elif seq in alive:
            slots.release(seq)
            alive.remove(seq)
    taken = [slots.slot_of(seq) for seq in sorted(alive)]
    assert len(set(taken)) == len(taken) and NO_SLOT not in taken
    asked = np.arange(0, 130)
    assert slots.slots_of(asked).tolist() == [slots.slot_of(seq) for seq in asked.tolist()]
    again = OwnerSlots.restored(*slots.save())
    assert again.slots_of(asked).tolist() == slots.slots_of(asked).tolist()
    assert again.assign(1000) == slots.assign(1000)


def test_no_slot_is_drawn_as_a_dot() -> None:
    assert glyph(NO_SLOT) == "·"
    assert len(set(GLYPHS)) == 62
