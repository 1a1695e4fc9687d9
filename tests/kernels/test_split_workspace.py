import pytest
import torch

from kvtop.kernels.paged import AttentionRule
from kvtop.kernels.triton_decode import decode_attention
from kvtop.kernels.triton_splits import SplitWorkspace
from kvtop.kernels.triton_tuning import DecodeTuning
from tests.kernels.ahead_of_time import meta, record_launches

TUNING = DecodeTuning(tile=64, num_warps=4, num_stages=3, programs_per_sm=3, min_split=256)


def workspace(max_num_seqs: int) -> SplitWorkspace:
    return SplitWorkspace(
        meta(max_num_seqs + 6, 8, 64, dtype=torch.float32), meta(max_num_seqs + 6, 8, 2, dtype=torch.float32), 6
    )


def decode(num_seqs: int, room: SplitWorkspace | None) -> None:
    pool = meta(10, 16, 2, 64)
    decode_attention(
        meta(num_seqs, 8, 64),
        pool,
        pool,
        meta(num_seqs, 4, dtype=torch.int32),
        meta(num_seqs, dtype=torch.int32),
        AttentionRule(0.125),
        workspace=room,
        tuning=TUNING,
    )


def test_a_batch_larger_than_the_workspace_is_refused_with_both_numbers():
    with pytest.raises(ValueError, match="for 4 sequences, the batch has 5"):
        record_launches(lambda: decode(5, workspace(4)))


def test_without_a_workspace_one_kernel_writes_the_output_itself():
    launches = record_launches(lambda: decode(5, None))
    assert [launch.keywords["SPLIT"] for launch in launches] == [False]


def test_the_grid_depends_on_the_batch_and_the_workspace_alone():
    (decoding, joining) = record_launches(lambda: decode(5, workspace(5)))
    assert decoding.grid == (2, 5 + 6)
    assert joining.grid == (8, 5)


def test_every_multiprocessor_gets_its_programs_when_one_sequence_decodes():
    room = SplitWorkspace.allocate(4, 8, 2, 64, TUNING, torch.device("cpu"))
    assert room.spare_items * 2 >= TUNING.programs_per_sm
    assert room.values.shape == (4 + room.spare_items, 8, 64)
