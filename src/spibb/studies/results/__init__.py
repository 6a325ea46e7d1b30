"""What a study has found, from the rows of its jobs to one set of statistics for each cell.

A **row** is the score of one setting in one cell (one value of each factor) of one run. A job hands
over the rows of its runs (:mod:`.cells`), which are stored as one part, whole or not at all
(:mod:`spibb.runner.store`).

A study of many runs is **folded** while it runs (:mod:`.recording`): of each cell and setting
remain the number of runs, exact sums of scores and squares, and the worst runs as rows
(:mod:`.kept`). What remains depends neither on the order of the runs nor on how they are grouped,
and leads to the same statistics as all rows would. Studies whose statistics need every row are
never folded.

Pieces of a study, and studies of other settings on the same draws, are **merged**
(:mod:`.merging`) into what one go would have left; :mod:`.run_set` tells which runs are in a piece.

**Aggregates** (:mod:`.aggregates`) are the statistics of each cell and setting: all that figures
and pages need, in a file that is published; results hold them together with the plan.

Folders of version 1 are read under the present names (:mod:`spibb.studies.version1`).
"""
