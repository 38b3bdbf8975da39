"""GridWalk: walk to the goal on a small grid. The example plugin of docs/tutorials/write-a-plugin.md."""
