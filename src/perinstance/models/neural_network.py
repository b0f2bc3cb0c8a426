"""Small smooth neural networks at a local minimum: estimates of how far each person moves it (torch, an extra).

    F(theta) = sum_j loss(f(x_j; theta), y_j) + alpha |theta|^2 / 2

At a strict local minimum the implicit function theorem gives the step to the neighbouring minimum to first order,
``D_i = (H - H_i + damping)^-1 g_i``, with per-example gradients g_i and Hessians H_i; the system is solved with one
factor of H and products ``H_i D`` (never a Hessian per person). Nothing says that retraining would end in the same
valley: this is an estimate and is called one everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from perinstance.errors import InvalidInput, NumericalTrouble, RefusedModel
from perinstance.folds.block import Block, GatheredRows, gather
from perinstance.folds.sweep import Sweep
from perinstance.models.interface import ConfidentialFit, MovedByPerson, Movement
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import CONJUGATE_LEFT, NETWORK_GRADIENT, NETWORK_MINIMUM, NETWORK_OBJECTIVE
from perinstance.pairs.kinds import check_method

#: layers with two continuous derivatives; everything else is refused by name
SMOOTH_LAYERS = ("Linear", "Bilinear", "Tanh", "Sigmoid", "Softplus", "GELU", "SiLU", "LogSigmoid", "Softmax")
CONTAINERS = ("Sequential", "Identity", "Flatten")
#: a dense Hessian of so many parameters is formed and factorised
MAX_PARAMETERS = 3000
CHUNK = 256
#: why all rows are held at once, and what to do instead
HELD = "a network is trained on all rows at once; use a linear model"
INNER = 50  #: iterations at most; a person's own Hessian has few ranks, so a handful does


@dataclass(frozen=True, slots=True, repr=False)
class NetworkFit(ConfidentialFit):
    """The confidential state of one audit."""

    theta: Floats
    factor: Floats  #: lower Cholesky factor of H + damping
    gradient_norm: float
    precision: Floats | None
    n_people: int


@dataclass(frozen=True, slots=True, eq=False)
class NetworkProblem:
    """A torch module, trained here from its present weights to a local minimum of F.

    ``loss`` is ``"squared"`` or ``"logistic"`` (targets 0 and 1, one output). The module is not changed.
    """

    moved: ClassVar[MovedByPerson] = "smooth"
    module: Any
    loss: Literal["squared", "logistic"] = "squared"
    alpha: float = 1e-2
    damping: float = 0.0
    steps: int = 500
    published: str = field(default="parameters_", init=False)

    def __post_init__(self) -> None:
        if self.loss not in ("squared", "logistic"):
            raise InvalidInput(f"loss must be 'squared' or 'logistic', got {self.loss!r}")
        if not (self.alpha >= 0 and self.damping >= 0):
            raise InvalidInput(f"alpha and damping must be >= 0, got {self.alpha:g} and {self.damping:g}")
        check_layers(self.module)

    def fit(self, sweep: Sweep, precision: Floats | None = None, method: str = "auto") -> NetworkFit:
        """Gather the rows and train to a local minimum."""
        check_method(method)
        if method in ("exact", "upper"):
            raise InvalidInput("a network has local minima: only estimates are offered; use method='estimate'")
        rows: GatheredRows = sweep.fold(partial(gather, why=HELD))
        x, y = rows.table()
        objective = _Torch(self, x, y)
        theta = objective.train(self.steps)
        gradient, H = objective.slopes(theta)
        values = np.linalg.eigvalsh(H)
        if not values[0] + self.damping > 1e-7 * values[-1]:
            raise NumericalTrouble(
                "training did not end in a strict local minimum: the Hessian has a direction that does not curve "
                "upwards; train longer (steps), use a larger alpha, or a damping"
            )
        factor = np.asarray(np.linalg.cholesky(H + self.damping * np.eye(len(H))), dtype=np.float64)
        return NetworkFit(theta, factor, float(np.linalg.norm(gradient)), precision, len(x))

    def movement(self, fit: NetworkFit, block: Block, inside: bool = True) -> Movement:
        """Map: estimates for the people of one block."""
        X, y = block.X, block.y
        from scipy.linalg import cho_solve

        x, t = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        objective = _Torch(self, x, t)
        D, residual = np.zeros((len(x), len(fit.theta))), np.zeros(len(x))
        leverage = np.zeros(len(x))
        sign = -1.0 if inside else 1.0
        for start in range(0, len(x), CHUNK):
            part = slice(start, start + CHUNK)
            g, residual[part] = objective.per_example(fit.theta, x[part], t[part])
            own = partial(objective.own_curvature, fit.theta, x[part], t[part])
            D[part] = step = _conjugate(fit.factor, own, g, sign)
            with np.errstate(invalid="ignore", divide="ignore"):
                plain = np.einsum("ij,ij->i", g, cho_solve((fit.factor, True), g.T).T)
                # by how much the person's own curvature lengthens the step
                leverage[part] = np.nan_to_num(np.abs(np.einsum("ij,ij->i", g, step) / plain - 1), posinf=np.inf)
        lost = np.isinf(D).any(axis=1)
        D[lost] = 0.0
        if fit.precision is not None:
            D = D @ np.linalg.cholesky(fit.precision)
        return Movement(leverage, residual, np.where(lost, np.inf, np.linalg.norm(D, axis=1)), "estimate")

    def refine(self, fit: NetworkFit, sweep: Sweep, block: Block, inside: bool = True) -> Movement:
        """Nobody is left open; the same answer."""
        return self.movement(fit, block, inside)


def _conjugate(factor: Floats, own: Callable[[Floats], Floats], g: Floats, sign: float) -> Floats:
    """Solve ``(H + sign H_i) D = g`` for everyone at once by conjugate gradients, H itself the preconditioner.

    A person without whom the valley does not curve upwards any more has no neighbouring minimum: infinite.
    """
    from scipy.linalg import cho_solve

    D, r = np.zeros_like(g), g.copy()
    z = cho_solve((factor, True), r.T).T
    p, rz = z.copy(), np.einsum("ij,ij->i", r, z)
    first, lost = rz.copy(), np.zeros(len(g), dtype=bool)
    for _ in range(INNER):
        live = (rz > CONJUGATE_LEFT * first) & ~lost
        if not live.any():
            break
        Ap = (p @ factor) @ factor.T + sign * own(p)
        curvature = np.einsum("ij,ij->i", p, Ap)
        lost |= live & (curvature <= 0)
        live &= ~lost
        step = np.where(live, rz / np.where(live, curvature, 1.0), 0.0)
        D += step[:, None] * p
        r -= step[:, None] * Ap
        z = cho_solve((factor, True), r.T).T
        new = np.einsum("ij,ij->i", r, z)
        p = z + np.where(live, new / np.where(live, rz, 1.0), 0.0)[:, None] * p
        rz = np.where(live, new, 0.0)
    D[lost] = np.inf
    return D


def check_layers(module: Any) -> None:
    """Refuse layers that are not smooth, not deterministic or that look at other people."""
    for layer in module.modules():
        name = type(layer).__name__
        if len(list(layer.children())) and name in CONTAINERS:
            continue
        if name not in SMOOTH_LAYERS and name not in CONTAINERS:
            raise RefusedModel(
                f"a layer {name} is refused: the theory needs two continuous derivatives and no randomness; "
                "use Linear, Tanh, Sigmoid, Softplus, GELU or SiLU in a Sequential"
            )
    count = sum(p.numel() for p in module.parameters())
    if not 0 < count <= MAX_PARAMETERS:
        raise RefusedModel(f"the network has {count} parameters; 1 to {MAX_PARAMETERS} are possible")


class _Torch:
    """F and its derivatives in torch; numpy in, numpy out."""

    def __init__(self, problem: NetworkProblem, x: Floats, y: Floats) -> None:
        import copy

        import torch

        self.torch, self.problem = torch, problem
        self.module = copy.deepcopy(problem.module).double()
        self.shapes = {name: p.shape for name, p in self.module.named_parameters()}
        self.x, self.y = torch.from_numpy(x), torch.from_numpy(y)

    def _outputs(self, theta: Any, x: Any) -> Any:
        parts = theta.split([shape.numel() for shape in self.shapes.values()])
        parameters = {name: part.reshape(shape) for part, (name, shape) in zip(parts, self.shapes.items(), strict=True)}
        return self.torch.func.functional_call(self.module, parameters, (x,))[..., 0]

    def _one(self, theta: Any, x: Any, y: Any) -> Any:
        """The loss of some rows, summed."""
        torch, out = self.torch, self._outputs(theta, x)
        if self.problem.loss == "squared":
            return ((out - y) ** 2).sum() / 2
        return (torch.nn.functional.softplus(out) - y * out).sum()

    def _all(self, theta: Any) -> Any:
        return self._one(theta, self.x, self.y) + self.problem.alpha * (theta * theta).sum() / 2

    def train(self, steps: int) -> Floats:
        """Quasi-Newton, then damped Newton steps until the gradient is gone."""
        torch = self.torch
        theta = torch.cat([p.detach().reshape(-1) for p in self.module.parameters()]).clone().requires_grad_(True)
        options = {"max_iter": steps, "history_size": 50, "tolerance_grad": NETWORK_GRADIENT, "tolerance_change": 0.0}
        optimiser = torch.optim.LBFGS([theta], line_search_fn="strong_wolfe", **options)

        def closure() -> Any:
            optimiser.zero_grad()
            value = self._all(theta)
            value.backward()
            return value

        optimiser.step(closure)
        at = theta.detach().numpy().copy()
        for _ in range(20):
            gradient, H = self.slopes(at)
            if np.linalg.norm(gradient) <= NETWORK_MINIMUM * (1 + np.linalg.norm(at)):
                break
            values, V = np.linalg.eigh(H)
            step = -V @ ((V.T @ gradient) / np.maximum(np.abs(values), 1e-8 * values[-1]))
            before, length = float(self._all(torch.from_numpy(at))), 1.0
            most = before + NETWORK_OBJECTIVE * abs(before)
            while length > 1e-6 and float(self._all(torch.from_numpy(at + length * step))) > most:
                length /= 2
            at = at + length * step
        return at

    def slopes(self, theta: Floats) -> tuple[Floats, Floats]:
        """Gradient and Hessian of F, column by column in chunks."""
        torch = self.torch
        at = torch.from_numpy(theta)
        gradient = torch.func.grad(self._all)
        value, product = torch.func.vjp(gradient, at)  # the Hessian is symmetric: a row is a column
        columns = torch.func.vmap(lambda v: product(v)[0], chunk_size=CHUNK)
        H = columns(torch.eye(len(theta), dtype=torch.float64)).numpy()
        return value.detach().numpy(), (H + H.T) / 2

    def per_example(self, theta: Floats, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Each person's gradient, and their target less the prediction."""
        torch = self.torch
        at, rows, targets = torch.from_numpy(theta), torch.from_numpy(x), torch.from_numpy(y)
        gradients = torch.func.vmap(torch.func.grad(self._one), (None, 0, 0))(at, rows, targets)
        out = self._outputs(at, rows).detach()
        mean = torch.sigmoid(out) if self.problem.loss == "logistic" else out
        return gradients.numpy(), (targets - mean).numpy()

    def own_curvature(self, theta: Floats, x: Floats, y: Floats, steps: Floats) -> Floats:
        """``H_i D_i`` of each person."""
        torch = self.torch
        at = torch.from_numpy(theta)

        def product(row: Any, target: Any, step: Any) -> Any:
            return torch.func.vjp(partial(torch.func.grad(self._one), x=row, y=target), at)[1](step)[0]

        many = torch.func.vmap(product)
        return many(torch.from_numpy(x), torch.from_numpy(y), torch.from_numpy(np.ascontiguousarray(steps))).numpy()
