# What the scripts beside it share.

# Makes an empty file for a recording, which other users cannot read and which Praat fills. It comes first in a script:
# where Praat 7 asks whether it trusts the script, and is told no, nothing has been done yet.
procedure begin
    .stem$ = temporaryDirectory$ + "/speechctc-" + string$ (randomInteger (1, 1000000000))
    .wav$ = .stem$ + ".wav"
    nocheck runSubprocess: "@PYTHON@", @MODULE@, "speechctc.studio.plugins", "praat", .wav$
    if not fileReadable (.wav$)
        exitScript: "speechctc: it cannot be run. Praat 7 asks whether you trust the script: choose the last answer ",
        ... "(in a terminal: praat --FULL-TRUST --run). If Python was moved, run speechctc plugins again."
    endif
endproc

# Lets speechctc work on a Sound, in the intervals of a TextGrid `stretches`, or 0. Its answer is the TextGrid .grid, 0 if
# there is none; what it said if something was wrong is .message$.
procedure speechctc: .sound, .command$, .model$, .symbols$, .language$, .stretches
    .answer$ = begin.stem$ + ".TextGrid"
    .error$ = begin.stem$ + ".error"
    .labels$ = ""
    .grid = 0
    .message$ = "it ended without an answer; speechctc decode in a terminal may say why."
    selectObject: .sound
    nocheck Save as WAV file: begin.wav$
    if .stretches
        .labels$ = begin.stem$ + "-labels.TextGrid"
        nocheck runSubprocess: "@PYTHON@", @MODULE@, "speechctc.studio.plugins", "praat", .labels$
        selectObject: .stretches
        nocheck Save as text file: .labels$
    endif
    nocheck runSubprocess: "@PYTHON@", @MODULE@, "speechctc.studio.plugins", "praat", begin.wav$, .answer$, .error$,
    ... .command$, .model$, .symbols$, .language$, .labels$
    if fileReadable (.answer$)
        .grid = Read from file: .answer$
        .message$ = ""
    endif
    if fileReadable (.error$)
        .message$ = readFile$ (.error$)
    endif
    @gone: .labels$
    @gone: .answer$
    @gone: .error$
    selectObject: .sound
endproc

# Deletes a file, if it is still there: Praat 7 asks before it deletes one.
procedure gone: .file$
    if .file$ <> "" and fileReadable (.file$)
        deleteFile: .file$
    endif
endproc

# Shows what speechctc said.
procedure tell
    @gone: begin.wav$
    if speechctc.message$ <> ""
        exitScript: "speechctc: ", speechctc.message$
    endif
endproc

# .number: the tier of intervals with a name, or 0.
procedure tierNamed: .grid, .name$
    selectObject: .grid
    .number = 0
    .tiers = Get number of tiers
    for .k to .tiers
        .this$ = Get tier name: .k
        .intervals = Is interval tier: .k
        if .this$ = .name$ and .intervals and not .number
            .number = .k
        endif
    endfor
endproc

# .text$: the labels of a tier, or of none (0), between two times, with spaces between them; "" if it has none there.
procedure labels: .grid, .tier, .from, .to
    .text$ = ""
    if .tier
        selectObject: .grid
        .k = Get interval at time: .tier, .from
        .last = Get number of intervals: .tier
        .start = .from
        while .k >= 1 and .k <= .last and .start < .to - 0.0005
            .start = Get start time of interval: .tier, .k
            .end = Get end time of interval: .tier, .k
            .label$ = Get label of interval: .tier, .k
            if .label$ <> "" and .start < .to - 0.0005 and .end > .from + 0.0005
                .text$ = .text$ + " " + .label$
            endif
            .k += 1
        endwhile
    endif
endproc

# Labels the time between two boundaries, which are put there where the tier has none.
procedure put: .grid, .tier, .from, .to, .label$
    selectObject: .grid
    for .side to 2
        .time = if .side = 1 then .from else .to fi
        .k = Get interval at time: .tier, .time
        if .k
            .start = Get start time of interval: .tier, .k
            .end = Get end time of interval: .tier, .k
            if .time > .start + 0.0005 and .time < .end - 0.0005
                Insert boundary: .tier, .time
            endif
        endif
    endfor
    .k = Get interval at time: .tier, (.from + .to) / 2
    Set interval text: .tier, .k, .label$
endproc

# Fills tiers of a TextGrid in one interval of a tier, or in all (0), with what speechctc finds in the Sound there:
# 1 recognises phones, 2 places the phones of the labels, 3 scores phones. Where a tier has labels it stays as it is.
procedure fill: .sound, .grid, .do, .tier, .interval, .model$, .symbols$, .language$
    speechctc.message$ = ""
    selectObject: .sound
    .begins = Get start time
    .ends = Get end time
    .stretches = To TextGrid: "stretches", ""
    @tierNamed: .grid, "phones"
    .phones = tierNamed.number
    @tierNamed: .grid, if .do = 3 then "score" else "phones" fi
    .goal = tierNamed.number
    .first = .interval
    .last = .interval
    if .interval = 0
        selectObject: .grid
        .first = 1
        .last = Get number of intervals: .tier
    endif
    .count = 0
    for .k from .first to .last
        selectObject: .grid
        .start = Get start time of interval: .tier, .k
        .end = Get end time of interval: .tier, .k
        .label$ = Get label of interval: .tier, .k
        .start = max (.start, .begins)
        .end = min (.end, .ends)
        .wanted = .label$ <> "" or (.do = 1 and (.interval > 0 or .tier = .phones))
        if .do = 3 and .phones
            @labels: .grid, .phones, .start, .end
            .label$ = labels.text$
            .language$ = ""
            .wanted = .label$ <> ""
        endif
        @labels: .grid, .goal, .start, .end
        if .wanted and labels.text$ = "" and .end > .start
            .count += 1
            .from [.count] = .start
            .to [.count] = .end
            @put: .stretches, 1, .start, .end, if .label$ = "" then "x" else .label$ fi
        endif
    endfor
    if .count
        selectObject: .stretches
        Shift times to: "start time", 0
        .commands$# = { "decode", "align", "score-phones" }
        @speechctc: .sound, .commands$# [.do], .model$, .symbols$, .language$, .stretches
        if speechctc.grid
            selectObject: speechctc.grid
            Shift times to: "start time", .begins
            .names$# = { "phones", "words", "score", "said instead" }
            for .name to size (.names$#)
                @copy: speechctc.grid, .grid, .names$# [.name]
            endfor
            removeObject: speechctc.grid
        endif
    else
        speechctc.message$ = "nothing to do: the intervals have no labels to work with, or the tier " +
        ... (if .do = 3 then "score" else "phones" fi) + " has labels there, which are kept."
    endif
    removeObject: .stretches
    selectObject: .sound, .grid
endproc

# Copies the labels of a tier into the tier of the same name, in the intervals of `fill` where that one has none.
procedure copy: .answer, .grid, .name$
    @tierNamed: .answer, .name$
    .source = tierNamed.number
    @tierNamed: .grid, .name$
    .tier = tierNamed.number
    if .source and not .tier
        .tier = Get number of tiers
        .tier += 1
        Insert interval tier: .tier, .name$
    endif
    if .source
        for .stretch to fill.count
            .from = fill.from [.stretch]
            .to = fill.to [.stretch]
            @labels: .grid, .tier, .from, .to
            .start = if labels.text$ = "" then .from else .to fi
            selectObject: .answer
            .k = Get interval at time: .source, .from
            .last = Get number of intervals: .source
            while .k >= 1 and .k <= .last and .start < .to - 0.0005
                selectObject: .answer
                .start = Get start time of interval: .source, .k
                .end = Get end time of interval: .source, .k
                .label$ = Get label of interval: .source, .k
                if .label$ <> "" and (.start + .end) / 2 > .from and (.start + .end) / 2 < .to
                    @put: .grid, .tier, max (.start, .from), min (.end, .to), .label$
                endif
                .k += 1
            endwhile
        endfor
    endif
endproc
