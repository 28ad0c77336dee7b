"""Pages: self-contained HTML, pictures and sound in it."""
