"""Several policies at once: their models, and what their sessions say of them."""
