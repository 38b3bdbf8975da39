"""What `ludus analyze` found, as a page and as pictures; what there is to draw comes from `evaluation/analysis`."""
