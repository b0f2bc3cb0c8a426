"""The public names of ``perinstance.training``: one line each, loaded when first used."""

from .odometer_reading import TrainingReading as TrainingReading
from .step_watch import Watch as Watch
