"""Jobs in parts, on any executor of `concurrent.futures`; docs/how-to/executors.md.

from concurrent.futures import ProcessPoolExecutor

with ProcessPoolExecutor(2) as executor:
rows = penstock.scvi.latent(model, cells, executor=executor)
"""

from .parts import PartFailed
from .ray_executor import RayExecutor

__all__ = ["PartFailed", "RayExecutor"]
