"""Whether an assistant finds the culprit in recordings, with kernel-delay's tools and without.

`stage` makes recordings of staged causes and healthy programs, and writes what is true of them.
`question.md` is what an assistant is asked, and `arms` makes a folder for each of the two ways to
read the recordings: `client` asks the server, and `command_line` runs the command. Both write a
transcript. `score` compares the answers with the truth.
"""
