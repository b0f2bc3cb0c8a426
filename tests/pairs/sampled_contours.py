"""Any number of sampled steps, proved: an inversion integral along a slanted path in balls, every error charged.

With ``u = r e^{m x}``, ``r = q/(1 - q) e^{-m m/2}``, the likelihood ratio is ``(1 - q)(1 + u)``, x standard normal.
Closing a contour shows, for ``R = epsilon - sum log(1 - q)``, ``c > 0``, ``b = 1``, ``C = prod (1 - q)``, ``d = 1``
(``with``), and for ``R = -sum log(1 - q) - epsilon``, ``c < 0``, ``b = 0``, ``C = 1``, ``d = -1`` (``without``),

    delta(epsilon) = C/(2 pi i) int_{c - i oo}^{c + i oo} e^{-z R} prod E[(1 + u)^{b + z}] dz/(z (z + d)).

The path is bent to the right, ``c -> z_1 = c + rho e^{i theta} -> z_1 + i oo`` and its mirror image: the integrand has
no pole off the real axis and is below ``const/|z|^2`` in every vertical strip, so nothing changes.

* The noise runs along ``x(s)``, straight or bent, which passes between the zeros of ``1 + u``: nothing changes either.
  A trapezoidal sum is off by at most ``(N_+ + N_-)/(e^{2 pi a/h} - 1)``, N the integrals of the absolute value along
  ``x(s +- i a)``; between the two there is no zero (``Line.room``). Nodes left out are charged by their largest value.
* Along ``c -> z_1`` Gauss's rule with n nodes on a panel of half width w is off by
  ``64/15 M w/(p^{2 n} (1 - p^{-2}))``, M the maximum on an ellipse: it takes T_k with odd k and with k < 2 n exactly,
  for others ``|int T_k| <= 2/(k^2 - 1)`` and the rule is at most 2, and the coefficients are below ``2 M p^{-k}``.
* Above z_1 the noise runs along a path with ``arg(1 + u) >= 0``: there ``|(1 + u)^z|`` falls as ``Im z`` grows, and
  what is left is at most the product of the moments' bounds at z_1 over ``Im z_1``.

The bounds are those of ``sampled_noise.py``; the sums are balls. Nothing is shared with the package.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from flint import acb, acb_mat, arb, ctx

from .sampled_noise import LOG_SQRT_2PI, Absolute, Kind, Line, Menu, TooHardError, log_one_plus, log_sum, rising

GOAL = 29.0  # every single charge is e^-29 of delta
ANGLES = (90.0, 84.0, 77.0, 69.0, 60.0, 52.0)

Step = tuple[float, float, int]  # rate, distance, how many


def log_of_one_plus(log_u: acb) -> acb:
    """The same in balls."""
    return (1 + log_u.exp()).log() if log_u.real < 0 else log_u + (1 + (-log_u).exp()).log()


@dataclass(frozen=True)
class Panel:
    """A piece of the path: its middle, half its length; which line the noise of each kind takes; log bounds there."""

    start: float  # of the middle, along the path: exact
    middle: complex
    wide: float
    lines: tuple[Line, ...]
    sizes: tuple[float, ...]  # of each kind's moment
    log_size: float  # of the whole integrand
    log_error: float  # of Gauss's rule


class Inversion:
    """Delta of some steps at an epsilon."""

    def __init__(self, steps: list[Step], epsilon: float, direction: str, most_work: float = 4e6) -> None:
        self.having, self.epsilon, self.most_work = direction == "with", epsilon, most_work
        self.sign = 1.0 if self.having else -1.0
        kinds = [Kind(q, m, k, int(self.having)) for q, m, k in steps]
        most = -math.fsum(kind.count * math.log1p(-kind.rate) for kind in kinds)
        self.R = most + epsilon if self.having else most - epsilon
        if not self.R > 0:
            raise TooHardError("nothing is lost")
        self.kinds = kinds
        self._place()
        self.menus = [Menu(kind, self.c) for kind in self.kinds]

    def _place(self) -> None:
        """The saddle point on the real axis, and each kind's share of R there."""
        octaves = self.sign * 2.0 ** np.arange(-16.0, 40.0, 0.25)
        tables = []
        for kind in self.kinds:
            m = kind.distance
            s = np.unique(np.concatenate([np.linspace(-40, 40 + 2 * m, 1500), kind.turn + np.linspace(-9, 9, 400) / m]))
            s = np.unique(np.concatenate([s, np.geomspace(40, 1e4 * (1 + m), 600)]))
            loss = log_one_plus(kind.log_r + m * s + 0j).real
            base = -s * s / 2 + kind.b * loss - LOG_SQRT_2PI + np.log(np.gradient(s))
            tables.append((loss, base))
        log_F = []
        for c in octaves:
            total = -c * self.R - math.log(abs(c) * (1 + abs(c)))
            for kind, (loss, base) in zip(self.kinds, tables, strict=True):
                power = base + c * loss
                total += kind.count * log_sum(power)
                if power.argmax() == power.size - 1:
                    total = math.inf
            log_F.append(total)
        best = int(np.argmin(log_F))
        if best in (0, len(octaves) - 1):
            raise TooHardError("no saddle point")
        if self.having:  # to the left of where the moments begin to live on noise far away
            best = int(np.flatnonzero(np.array(log_F) <= log_F[best] + 2.5)[0])
        self.c = float(octaves[best])
        mantissa, exponent = math.frexp(self.c)
        self.c = math.ldexp(round(mantissa * 64) / 64, exponent)  # so that places along the path are exact
        self.log_delta = min(log_F) + math.log(abs(self.c)) - 3.0
        means = []
        for loss, base in tables:
            weight = np.exp(base + self.c * loss - (base + self.c * loss).max())
            means.append(float((weight * loss).sum() / weight.sum()))
        count = sum(kind.count for kind in self.kinds)
        rest = (self.R - sum(kind.count * mean for kind, mean in zip(self.kinds, means, strict=True))) / count
        self.kinds = [replace(kind, share=mean + rest) for kind, mean in zip(self.kinds, means, strict=True)]

    def poles(self, z: complex) -> float:
        """``log |z (z + 1)|`` or ``log |z (z - 1)|``."""
        return math.log(abs(z)) + math.log(abs(z + self.sign))

    def path(self) -> tuple[complex, float]:
        """The direction, and how far: the cheapest of some angles, roughly."""
        best, found = math.inf, None
        for angle in ANGLES:
            turn = complex(math.cos(math.radians(angle)), math.sin(math.radians(angle)))
            largest = -math.inf
            for octave in np.arange(-2.0, 30.0, 0.5):
                rho = abs(self.c) * 2.0**octave
                z = self.c + rho * turn
                size = sum(k.count * m.best(z, turn, 0.05 * rho) for k, m in zip(self.kinds, self.menus, strict=True))
                largest = max(largest, size - self.poles(z) + math.log(rho))
                cost = octave * 25 + max(largest - self.log_delta, 0)
                if cost > best or largest - self.log_delta > 2500:
                    break
                if size - math.log(z.imag) < self.log_delta - GOAL - 12:
                    best, found = cost, (turn, rho)
                    break
        if found is None:
            raise TooHardError("it does not die along any of these")
        return found

    def tail(self, z: complex) -> float:
        """The log of a bound of all that lies above z."""
        total = -math.log(z.imag)
        for kind, choice in zip(self.kinds, self.menus, strict=True):
            total += kind.count * rising(choice, z)
        return total

    def panels(self, turn: complex, end: float, n: int) -> list[Panel]:
        """Cover the path by panels on which Gauss's rule is good enough."""
        out: list[Panel] = []
        done, wide, most = 0.0, abs(self.c) / 8, self.c + end * turn
        cache: dict[tuple[int, Line], Absolute] = {}
        lines: list[Line] | None = None
        wide *= 2
        while done < end:
            for _ in range(40):
                start = done + wide
                middle = self.c + start * turn
                chosen = []
                for i, kind in enumerate(self.kinds):
                    sizes = self.menus[i].sizes(middle, turn, wide)
                    keep = lines is not None and sizes[self.menus[i].lines.index(lines[i])] * kind.count
                    if lines is not None and keep < sizes.min() * kind.count + 40:
                        chosen.append(lines[i])
                    else:
                        chosen.append(self.menus[i].lines[int(sizes.argmin())])
                    if (i, chosen[i]) not in cache:
                        cache[i, chosen[i]] = chosen[i].absolute(kind, most)
                panel = self.panel(start, wide, turn, n, [cache[i, line] for i, line in enumerate(chosen)], chosen)
                if panel.log_error < self.log_delta - GOAL - 3:
                    break
                wide /= 2
            else:
                raise TooHardError("no panel is small enough")
            out.append(panel)
            if not (start - done == wide and start + wide - start == wide):
                raise TooHardError("places along the path are not exact")
            lines, done = chosen, start + wide
            wide *= 2
            if len(out) > 150:
                raise TooHardError("too many panels")
        return out

    def panel(self, start, wide, turn, n, bounds, lines) -> Panel:
        """Bounds on one panel, over the best of some ellipses."""
        middle = self.c + start * turn
        sizes = [bound.total(middle, turn, wide) for bound in bounds]
        error, goal = math.inf, self.log_delta - GOAL - 3
        for rough, p in sorted((self.gauss(middle, wide, turn, n, p, lines), p) for p in (1.5, 2.3, 3.6, 6.0, 11.0)):
            if error > goal and rough < goal + 8:
                error = min(error, self.gauss(middle, wide, turn, n, p, bounds))
        low = min(abs(middle) - wide, abs(middle + self.sign) - wide)
        total = sum(kind.count * size for kind, size in zip(self.kinds, sizes, strict=True))
        near = (
            self.poles(middle) if low <= 0 else math.log(abs(middle) - wide) + math.log(abs(middle + self.sign) - wide)
        )
        return Panel(start, middle, wide, tuple(lines), tuple(sizes), total - near, error)

    def gauss(self, middle, wide, turn, n, p, bounds) -> float:
        """Log of a bound of the error of Gauss's rule from the ellipse p; roughly, if lines are given for bounds."""
        a, b = wide * (p + 1 / p) / 2, wide * (p - 1 / p) / 2
        log = math.log(64 / 15 * wide) - 2 * n * math.log(p) - math.log1p(-(p**-2.0))
        for pole in (0.0, -self.sign):
            foci = (abs(pole - middle - wide * turn) + abs(pole - middle + wide * turn)) / 2
            if not foci > a:
                return math.inf
            log -= math.log(foci - a)
        for kind, bound, choice in zip(self.kinds, bounds, self.menus, strict=True):
            if isinstance(bound, Line):
                log += kind.count * choice.size(bound, middle, turn, (a, b))
            else:
                log += kind.count * bound.total(middle, turn, a, b)
        return log

    def delta(self) -> arb:
        """A ball that contains delta: again with a smaller goal where delta is far below Chernoff's bound."""
        result = arb(0)
        first = self.log_delta
        for _ in range(3):
            result = self.attempt()
            if not result.is_finite() or result.rad() < 1e-13 * abs(result.mid()):
                break
            size = float((abs(result.mid()) + result.rad()).log().mid()) - 1
            self.log_delta = min(size, self.log_delta - 5)
            if self.log_delta < first - 60:
                raise TooHardError("delta is far below Chernoff's bound")
        return result

    def attempt(self) -> arb:
        """A ball that contains delta, small if delta is not far below what is thought."""
        turn, rho = self.path()
        n = 40
        for _ in range(8):
            if self.tail(self.c + rho * turn) < self.log_delta - GOAL:
                break
            rho *= 1.4
        panels = self.panels(turn, rho, n)
        worst = max(panel.log_size + math.log(panel.wide) for panel in panels)
        n_again = min(160, 2 * int(10 + (worst - self.log_delta + GOAL) / 8))
        if n_again > n + 8:
            n = n_again
            panels = self.panels(turn, rho, n)
            worst = max(panel.log_size + math.log(panel.wide) for panel in panels)
        tail = self.tail(self.c + (panels[-1].start + panels[-1].wide) * turn)
        bits = int((worst - self.log_delta + GOAL) / math.log(2)) + 70
        ctx.prec = max(bits, 110)
        self.work, self.note = 0.0, (len(panels), n, bits, len({panel.lines for panel in panels}))
        slant = (acb(0, 1) * arb(math.atan2(turn.imag, turn.real))).exp()
        rule = [arb.legendre_p_root(n, k, True) for k in range(n)]
        values = [[acb(1)] * n for _ in panels]
        for i, kind in enumerate(self.kinds):
            for line in dict.fromkeys(panel.lines[i] for panel in panels):
                which = [j for j, panel in enumerate(panels) if panel.lines[i] == line]
                found = self.moments(i, line, [panels[j] for j in which], slant, turn, [x for x, _ in rule])
                for j, row in zip(which, found, strict=True):
                    values[j] = [old * new**kind.count for old, new in zip(values[j], row, strict=True)]
        exact = sum((kind.count * (arb(1) - arb(kind.rate)).log() for kind in self.kinds), arb(0))
        R = self.sign * arb(self.epsilon) - exact - sum((kind.count * arb(kind.share) for kind in self.kinds), arb(0))
        total = acb(0)
        for panel, row in zip(panels, values, strict=True):
            part = acb(0)
            for (x, weight), value in zip(rule, row, strict=True):
                z = self.c + slant * (panel.start + panel.wide * x)
                part += weight * value * (-z * R).exp() / (z * (z + self.sign))
            total += part * panel.wide
        # twice: R is known to a float's last digit in the bounds
        charge = arb(0, (2 * sum((arb(panel.log_error).exp() for panel in panels), arb(tail).exp())).upper())
        result = ((total * slant).imag + charge) / arb.pi()
        return result * exact.exp() if self.having else result

    def moments(
        self, i: int, line: Line, panels: list[Panel], slant: acb, turn: complex, nodes: list[arb]
    ) -> list[list[acb]]:
        """``E[(1 + u)^{b + z}] e^{-z share}`` at every node of some panels, the noise along one line."""
        kind = self.kinds[i]
        largest = max(abs(panel.middle) + panel.wide for panel in panels)
        most = complex(max(panel.middle.real + panel.wide for panel in panels), largest)
        goals = [self.log_delta - GOAL - 8 - (p.log_size - p.sizes[i]) - math.log(p.wide * kind.count) for p in panels]
        goals = [min(goal, p.sizes[i] - math.log(kind.count) - 3) for goal, p in zip(goals, panels, strict=True)]
        room = line.room(kind)
        h, a, worst = self.spacing(kind, line, panels, goals, turn, most, room)
        bounds = line.absolute(kind, most)
        live, outside = np.zeros(bounds.v.size, bool), []
        for panel, goal in zip(panels, goals, strict=True):
            terms = bounds.terms(panel.middle, turn, panel.wide, largest=True)
            # a segment has at most wide/h + 1 nodes
            terms = terms + np.log1p(h / np.diff(bounds.edges))
            left, right = np.logaddexp.accumulate(terms), np.logaddexp.accumulate(terms[::-1])[::-1]
            live |= (left > goal) & (right > goal)
            outside.append(terms)
        if not live.any():
            live[:] = True
        first, last = np.flatnonzero(live)[[0, -1]]
        low, high = bounds.edges[first], bounds.edges[last + 1]
        count = int((high - low) / h) + 2
        self.work += count * len(nodes) * len(panels)
        if self.work > self.most_work or count * max(len(nodes), len(panels)) > 1_500_000:
            raise TooHardError("too much work")
        errors = []
        for panel, terms, log in zip(panels, outside, worst, strict=True):
            beyond = np.concatenate([terms[:first], terms[last + 1 :]])
            cut = np.logaddexp(log_sum(beyond), bounds.beyond(abs(panel.middle) + panel.wide) + math.log1p(h))
            turns = 2 * math.pi * a / h
            errors.append(float(np.logaddexp(cut, log - turns - math.log(-math.expm1(-turns)))))
        return self.sums(kind, line, panels, self.c, slant, nodes, (low, h, count), errors)

    def spacing(self, kind, line, panels, goals, turn, most, room) -> tuple[float, float, list[float]]:
        """The widest spacing h whose error is small enough, the half strip a that shows it, and the integrals N."""
        best = (0.0, 0.0, [math.inf])
        for a in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.96, 1.5, 2.5, 4.0, 6.0, 9.0, 13.0, 18.0):
            a = a * room if a < 1 else a
            if a > 0.97 * room or a > 30:
                continue
            sides = [line.absolute(kind, most, side) for side in (a, -a)]
            logs = [float(np.logaddexp(*[s.total(p.middle, turn, p.wide) for s in sides])) for p in panels]
            need = max(log - goal for log, goal in zip(logs, goals, strict=True))
            h = 2 * math.pi * a / max(need + 1, 5.0)
            if h > best[0]:
                best = (h, a, logs)
        if not best[0] > 0:
            raise TooHardError("no strip")
        return best

    @staticmethod
    def sums(kind, line, panels, c, slant, nodes, grid, errors) -> list[list[acb]]:
        """The trapezoidal sums, as products of matrices: panels by noise times noise by nodes of a panel."""
        low, h, count = arb(float(grid[0])), arb(grid[1]), grid[2]
        q, m = arb(kind.rate), arb(kind.distance)
        log_r = (q / (1 - q)).log() - m * m / 2
        tilt, bend = acb(1, line.slope), None if line.bend is None else arb(line.bend)
        heads, losses = [], []
        for j in range(count):
            s = acb(low + j * h)
            if bend is None:
                x, turned = s * tilt + acb(0, line.high), tilt
            else:
                p = m * (s - bend)
                x = s + acb(0, line.high) + acb(0, line.slope) * log_of_one_plus(p) / m
                turned = 1 + acb(0, line.slope) / (1 + (-p).exp())
            loss = log_of_one_plus(log_r + m * x)
            heads.append(kind.b * loss - x * x / 2 + turned.log())
            losses.append(loss - kind.share)
        scale = h / (2 * arb.pi()).sqrt()
        out: list[list[acb]] = [[] for _ in panels]
        widths = sorted({panel.wide for panel in panels})
        columns: list[list[acb]] = []
        half = len(nodes) // 2
        for n, wide in enumerate(widths):
            if n and wide == 2 * widths[n - 1]:
                columns = [[value * value for value in column] for column in columns]
            else:
                moved = [slant * wide * loss for loss in losses]
                columns = [[(v * x).exp() for v in moved] for x in nodes[:half]]
            right = columns + [[1 / value for value in column] for column in reversed(columns)]
            which = [j for j, panel in enumerate(panels) if panel.wide == wide]
            places = [c + slant * panels[j].start for j in which]
            left = [[(a + z * v).exp() for a, v in zip(heads, losses, strict=True)] for z in places]
            product = acb_mat(left) * acb_mat(right).transpose()
            for row, j in enumerate(which):
                ball = arb(0, arb(errors[j]).exp().upper())
                out[j] = [product[row, k] * scale + acb(ball, ball) for k in range(len(nodes))]
        return out


def steps_delta(steps: list[Step], epsilon: float, direction: str) -> arb:
    """A ball that contains the delta of some steps (rate, distance, how many) at an epsilon."""
    return Inversion(steps, epsilon, direction).delta()
