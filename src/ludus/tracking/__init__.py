"""Metrics and what shows them: JSONL files are the truth; TensorBoard, W&B and the terminal follow them."""
