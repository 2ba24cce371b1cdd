"""PyTorch's DataLoader over a Dataset."""
