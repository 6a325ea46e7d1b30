"""The study of run time: time to convergence against the number of actions."""

from spibb.studies.complexity.page import complexity_pages, draw_complexity
from spibb.studies.complexity.study import PLANS, ComplexityPlan, run
from spibb.studies.complexity.timings import FILE, ensure_timings
from spibb.studies.study import Study

_PAGE = (draw_complexity, complexity_pages)
COMPLEXITY = Study(ComplexityPlan, run, PLANS, *_PAGE, keeps=(FILE,), finish=ensure_timings)
