"""The public names of ``perinstance.releases``: one line each, loaded when first used."""

from .adaops.estimator import AdaOPS as AdaOPS
from .adassp.estimator import AdaSSP as AdaSSP
from .base.release import Release as Release
from .descent.estimator import NoisyDescent as NoisyDescent
from .gaussian_process_sample import GaussianProcessSample as GaussianProcessSample
from .laplace_posterior import LaplacePosterior as LaplacePosterior
from .logistic.estimator import PrivateLogisticRegression as PrivateLogisticRegression
from .noisy_mean import NoisyMean as NoisyMean
from .objective_perturbation import ObjectivePerturbation as ObjectivePerturbation
from .output_perturbation import OutputPerturbation as OutputPerturbation
from .output_perturbation import StudentPerturbation as StudentPerturbation
from .posterior_sample import PosteriorSample as PosteriorSample
from .second_moments import PrivateGram as PrivateGram
from .second_moments import private_gram as private_gram
from .transformed_sum import SlowScalingSum as SlowScalingSum
