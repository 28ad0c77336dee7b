# Adds a command to the menu of a selected Sound.
Add action command: "Sound", 1, "", 0, "", 0, "Recognise phones (speechctc)...", "", 0, "recognise.praat"
