"""PyTorch's DataLoader for a Dataset."""
