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
sound = selected ("Sound")
name$ = selected$ ("Sound")
start = Get start time

stem$ = temporaryDirectory$ + "/speechctc-" + string$ (randomInteger (1, 1000000000))
wav$ = stem$ + ".wav"
grid$ = stem$ + ".TextGrid"
error$ = stem$ + ".error"

Save as WAV file: wav$
runSubprocess: "@PYTHON@", "-m", "speechctc.studio.praat", wav$, grid$, error$, model$, symbols$
deleteFile: wav$
if fileReadable (error$)
    message$ = readFile$ (error$)
    deleteFile: error$
    selectObject: sound
    exitScript: "speechctc: ", message$
endif

textgrid = Read from file: grid$
deleteFile: grid$
Rename: name$
Shift times to: "start time", start
selectObject: sound, textgrid
