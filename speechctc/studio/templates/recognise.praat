# Recognises the phones of the selected Sound with speechctc, and opens them as a TextGrid beside it.

form Recognise phones (speechctc)
    sentence Model @MODEL@
    optionmenu Symbols: 1
        option own
        option ipa
        option xsampa
        option arpabet
endform

if numberOfSelected ("Sound") <> 1
    exitScript: "Select one Sound first."
endif
@begin
sound = selected ("Sound")
name$ = selected$ ("Sound")
start = Get start time
@speechctc: sound, "decode", model$, symbols$, "", 0
@tell
selectObject: speechctc.grid
Rename: name$
Shift times to: "start time", start
selectObject: sound, speechctc.grid

include procedures.praat
