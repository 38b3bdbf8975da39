"""Metrics and their displays. JSONL files are the source; TensorBoard, W&B and the terminal follow them."""
