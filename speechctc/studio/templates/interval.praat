# In the window of a TextGrid: fills its tiers in the selected interval, or in all intervals of the selected tier.

form Phones of intervals (speechctc)
    optionmenu Do: 1
        option recognise phones
        option place the phones of the labels
        option score phones
    optionmenu In: 1
        option the selected interval
        option all intervals of its tier
    sentence Model @MODEL@
    sentence Language_of_words
    optionmenu Symbols: 1
        option own
        option ipa
        option xsampa
        option arpabet
endform

info$ = Editor info
name$ = extractLine$ (info$, "Data name: ")
tier = extractNumber (info$, "Selected tier: ")
cursor = Get start of selection
cursorEnd = Get end of selection
start = Get starting point of interval
finish = Get end point of interval
if in = 2
    start = extractNumber (info$, "Editor start: ")
    finish = extractNumber (info$, "Editor end: ")
endif
endeditor

selected# = selected# ()
select all
number = 0
for k to numberOfSelected ("TextGrid")
    if selected$ ("TextGrid", k) = name$
        number += 1
        grid = selected ("TextGrid", k)
    endif
endfor
selectObject: selected#
if number <> 1
    exitScript: "speechctc: there are ", number, " TextGrids with the name ", name$, "; rename the others."
endif

@begin
editor: grid
    Select: start, finish
    Extract selected sound (preserve times)
    Select: cursor, cursorEnd
endeditor
sound = selected ("Sound")
interval = 0
if in = 1
    selectObject: grid
    interval = Get interval at time: tier, (start + finish) / 2
endif
@fill: sound, grid, do, tier, interval, model$, symbols$, language_of_words$
removeObject: sound
selectObject: selected#
@tell

include procedures.praat
