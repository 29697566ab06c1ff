"""Who may teach the model, and what an operator takes back."""
