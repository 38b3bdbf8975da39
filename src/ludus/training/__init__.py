"""The training loop, the trainers that set it up, and the factory that picks one."""
