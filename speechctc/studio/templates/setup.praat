# Adds commands to the menu of a selected Sound, of a Sound with its TextGrid, and to the window of a TextGrid.
Add action command: "Sound", 1, "", 0, "", 0, "Recognise phones (speechctc)...", "", 0, "recognise.praat"
Add action command: "Sound", 1, "TextGrid", 1, "", 0, "Phones of intervals (speechctc)...", "", 0, "fill.praat"
Add menu command: "TextGridEditor", "Interval", "Phones of intervals (speechctc)...", "", 0, "interval.praat"
