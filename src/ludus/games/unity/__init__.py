"""Unity simulators over the ROS-TCP protocol: Ludus is the endpoint, Unity builds connect to it. No ROS is needed.

From the wire up: `cdr` (messages as bytes), `frames`, `endpoint` (one simulator), `simulators` (all of them),
`use_case` and `quantities` (what a simulator's messages mean), `episode`, `env` and `vector`.
"""
