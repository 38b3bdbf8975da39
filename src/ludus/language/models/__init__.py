"""Language models that play: weights, tokenizers, adapters, and the samplers that draw completions from them."""
