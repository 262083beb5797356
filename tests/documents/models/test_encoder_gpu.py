"""The packed encoders on a real GPU: every family in half precision beside transformers in fp32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from anyrig.documents.models.encoder import load_encoder
from tests.documents.models.test_encoder import FAMILIES, model, texts

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_vectors_are_near_those_of_transformers(
    family: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    theirs = model(family)
    theirs.save_pretrained(tmp_path)
    theirs = theirs.cuda()
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    ours = load_encoder(tmp_path, torch.device("cuda"), dtype)
    assert ours.varlen is (dtype is not torch.float32 and family != "mpnet")
    rows = [np.array(text, np.int32) for text in texts(40)]
    got = ours.embed(np.concatenate(rows), np.array([len(row) for row in rows], np.int32))
    with torch.inference_mode():
        wanted = torch.stack([
            theirs(input_ids=torch.from_numpy(row).long()[None].cuda()).last_hidden_state[0].mean(0)
            for row in rows
        ])  # fmt: skip
    near = torch.nn.functional.cosine_similarity(got, wanted)
    assert near.min() > 0.9999
    if dtype is torch.float32:
        torch.testing.assert_close(got, wanted, atol=1e-4, rtol=1e-4)
