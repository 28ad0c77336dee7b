# Fills tiers of the selected TextGrid, in intervals of one of its tiers, from the selected Sound.

form Phones of intervals (speechctc)
    optionmenu Do: 1
        option recognise phones
        option place the phones of the labels
        option score phones
    sentence Tier 1
    integer Interval 0 (= all)
    sentence Model @MODEL@
    sentence Language_of_words
    optionmenu Symbols: 1
        option own
        option ipa
        option xsampa
        option arpabet
endform

if numberOfSelected ("Sound") <> 1 or numberOfSelected ("TextGrid") <> 1
    exitScript: "Select one Sound and its TextGrid first."
endif
sound = selected ("Sound")
grid = selected ("TextGrid")
selectObject: grid
tier = number (tier$)
if tier = undefined
    @tierNamed: grid, tier$
    tier = tierNamed.number
endif
tiers = Get number of tiers
if tier < 1 or tier > tiers
    selectObject: sound, grid
    exitScript: "speechctc: the TextGrid has no tier ", tier$, "."
endif
@begin
@fill: sound, grid, do, tier, interval, model$, symbols$, language_of_words$
selectObject: sound, grid
@tell

include procedures.praat
