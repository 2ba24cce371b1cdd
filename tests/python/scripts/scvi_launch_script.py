"""A script without a main guard that test_scvi_session.py kills and restarts.

scvi_launch_script.py PATH FOLDER EPOCHS
"""

import sys
from pathlib import Path

import penstock.scvi as pscvi
import torch

folder = Path(sys.argv[2])
torch.manual_seed(0)
data = pscvi.DataModule(sys.argv[1], batch_size=40)
model = pscvi.train(
    {"n_latent": 4, "n_hidden": 16}, data, devices=2, accelerator="cpu", seed=1, progress=False,
    max_epochs=int(sys.argv[3]), checkpoint=folder, resume=True,
)  # fmt: skip
print(len(model.history["elbo_validation"]), "epochs")
