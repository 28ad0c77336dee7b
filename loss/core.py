"""What the distribution of the loss has in place of the package's room `core`: what needs that room says so."""

raise ImportError("speechctc-loss is the CTC loss alone; pip install . in a clone of speechctc has the rest")
