"""Many runs: how fast Ludus is beside its peers, and later comparisons and sweeps."""
