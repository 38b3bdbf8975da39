"""The command line: one file per command, wiring only. Nothing here imports torch before a command needs it."""
