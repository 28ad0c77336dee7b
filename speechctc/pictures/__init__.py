"""Pictures drawn with matplotlib, which is optional: curves of training, and the inside of a net."""
