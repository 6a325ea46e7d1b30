"""The simulators of the study, by name."""

from __future__ import annotations

from spibb.studies.representations.simulator import Simulator
from spibb.studies.representations.simulators.glucose import GLUCOSE
from spibb.studies.representations.simulators.irrigation import IRRIGATION
from spibb.studies.representations.simulators.machine import MACHINE
from spibb.studies.representations.simulators.plant import PLANT
from spibb.studies.representations.simulators.queue import QUEUE
from spibb.studies.representations.simulators.shop import SHOP
from spibb.studies.representations.simulators.tutor import TUTOR
from spibb.studies.representations.simulators.vitals import VITALS

SIMULATORS: dict[str, Simulator] = {
    one.name: one for one in (QUEUE, MACHINE, IRRIGATION, SHOP, PLANT, GLUCOSE, TUTOR, VITALS)
}
