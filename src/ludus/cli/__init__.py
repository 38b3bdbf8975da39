"""The command line: one file per command, wiring only. Nothing here imports torch before a command needs it.

Importing it takes empty and relative entries off the import path: they mean the working directory, or a folder in it.
This happens before any other module is imported, because modules of Python try to import some that do not exist.
"""

import os
import sys

if "PYTHONPATH" in os.environ:
    for _entry in os.environ["PYTHONPATH"].split(os.pathsep):
        # Python has made it absolute
        if not os.path.isabs(_entry) and os.path.abspath(_entry) in sys.path:
            sys.path.remove(os.path.abspath(_entry))
sys.path[:] = [entry for entry in sys.path if os.path.isabs(entry)]
