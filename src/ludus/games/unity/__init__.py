"""Unity simulators over the ROS-TCP protocol: Ludus is the endpoint, Unity builds connect to it. No ROS is needed.

From the bytes up: `cdr` (messages as bytes), `frames`, `endpoint` (one simulator), `simulators` (all of them),
`use_case` and `quantities` (the meaning of a simulator's messages), `episode`, `env` and `vector`.
"""
