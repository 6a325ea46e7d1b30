"""The study of run time: time to convergence against the number of actions."""

from spibb.studies.complexity.claims import complexity_pages
from spibb.studies.complexity.figures import draw_complexity
from spibb.studies.complexity.plan import PLANS, ComplexityPlan
from spibb.studies.complexity.run import run
from spibb.studies.complexity.timings import FILE, ensure_timings
from spibb.studies.study import Study

COMPLEXITY = Study(
    ComplexityPlan,
    run,
    PLANS,
    draw=draw_complexity,
    pages=complexity_pages,
    keeps=(FILE,),
    finish=ensure_timings,
)
