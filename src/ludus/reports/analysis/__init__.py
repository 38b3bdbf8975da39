"""Output of `ludus analyze` as a page and as pictures; `evaluation/analysis` provides the charts."""
