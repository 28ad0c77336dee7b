"""What all rooms stand on: errors, files, notes and progress, devices, work shared among processes."""
