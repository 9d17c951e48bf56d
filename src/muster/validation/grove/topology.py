"""Topology constraints of a PodCliqueSet (R5): which binding they name, whether its domains exist, and how they nest.

A set without its binding would run without its constraints, so a missing one is refused, not awaited.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from muster.api.fields import mapping, text
from muster.api.grove.pod_clique_set import PackConstraint, PackTopologyConstraint
from muster.api.grove.topology_binding import ClusterTopologyBinding
from muster.validation.grove.places import CLIQUES, GROUPS, TEMPLATE, SetOutline, parts
from muster.validation.grove.topology_bindings import DOMAIN
from muster.validation.problem import Problem, listed

USUAL = ("region", "zone", "datacenter", "block", "rack", "host", "numa")  # Grove's own names, broadest first


class ConstrainedPart(Struct, frozen=True):
    """The set, a group or a clique with a constraint, and the parts above it that have one, nearest first."""

    at: str
    called: str
    constraint: PackTopologyConstraint
    above: tuple["ConstrainedPart", ...] = ()

    @property
    def topology_name(self) -> str:
        """The binding: its own, else that of the nearest part above; empty: there is none."""
        own = self.constraint.topology_name
        return own or next((part.topology_name for part in self.above if part.topology_name), "")

    @property
    def required(self) -> str:
        """The domain that is required, in either form."""
        pack = self.constraint.pack
        return (pack.required if pack else "") or self.constraint.pack_domain

    @property
    def preferred(self) -> str:
        """The domain that is preferred."""
        return self.constraint.pack.preferred if self.constraint.pack else ""

    def domains(self) -> Iterator[tuple[str, str]]:
        """Every domain that is named, with its path."""
        pack = self.constraint.pack or PackConstraint()
        named = (
            ("pack.required", pack.required),
            ("pack.preferred", pack.preferred),
            ("packDomain", self.constraint.pack_domain),
        )
        return ((f"{self.at}.{field}", domain) for field, domain in named if domain)


def constrained_parts(outline: SetOutline) -> tuple[ConstrainedPart, ...]:
    """Every part with a constraint, the set first."""
    above: tuple[ConstrainedPart, ...] = ()
    if outline.template.topology_constraint:
        above = (ConstrainedPart(f"{TEMPLATE}.topologyConstraint", "the set", outline.template.topology_constraint),)
    groups = {
        group.name: ConstrainedPart(f"{at}.topologyConstraint", f"group `{group.name}`", constraint, above)
        for at, group in outline.placed_groups()
        if (constraint := group.topology_constraint)
    }
    cliques = []
    for at, clique in outline.placed_cliques():
        if clique.topology_constraint:
            group = outline.group_of.get(clique.name)
            parents = (*([groups[group.name]] if group and group.name in groups else ()), *above)
            place, called = f"{at}.topologyConstraint", f"clique `{clique.name}`"
            cliques.append(ConstrainedPart(place, called, clique.topology_constraint, parents))
    return (*above, *groups.values(), *cliques)


def judge(outline: SetOutline, bindings: Mapping[str, ClusterTopologyBinding] | None) -> Iterator[Problem]:
    """Every problem of a constraint; `bindings` are all that exist, or None where they are not known."""
    constrained = constrained_parts(outline)
    for part in constrained:
        yield from _form(part)
    yield from _names(constrained)
    names = {part.topology_name for part in constrained} - {""}
    if len(names) != 1:
        return
    (name,) = names
    if bindings is not None and name not in bindings:
        yield from _missing(constrained, name, bindings)
        return
    binding = bindings[name] if bindings is not None else None
    for part in constrained:
        yield from _known(part, binding)
        yield from _nested(part, binding)


def judge_form(raw: Any) -> Iterator[Problem]:
    """Constraints in their older form; `raw` is the set as it is written, without defaults."""
    groups, cliques = ([(f"{at}[{i}]", part) for i, part in enumerate(parts(raw, at))] for at in (GROUPS, CLIQUES))
    for at, part in ((TEMPLATE, mapping(raw, TEMPLATE)), *groups, *cliques):
        if domain := text(part, "topologyConstraint.packDomain"):
            yield Problem(
                f"{at}.topologyConstraint.packDomain",
                "is the older form of `pack.required`",
                hint=f"`pack: {{required: {domain[:63]}}}`",
                severity="warning",
                rule="R5",
            )


def _form(part: ConstrainedPart) -> Iterator[Problem]:
    constraint = part.constraint
    if not any(part.domains()):
        says, hint = "names no domain", "set `pack.required` or `pack.preferred`"
        yield Problem(f"{part.at}.pack", says, hint=hint, rule="R5")
    if constraint.pack_domain and constraint.pack and constraint.pack.required:
        says, hint = "is not what `packDomain` says, its older form", "leave out `packDomain`"
        yield Problem(f"{part.at}.pack.required", says, hint=hint, rule="R5")
    for at, domain in part.domains():
        if not DOMAIN.fullmatch(domain) or len(domain) > 63:
            yield Problem(at, f"`{domain[:80]}` is not the name of a domain", hint="such as `rack`", rule="R5")


def _names(constrained: Sequence[ConstrainedPart]) -> Iterator[Problem]:
    first = next((part for part in constrained if part.topology_name), None)
    for part in constrained:
        name = part.topology_name
        if not name:
            yield Problem(
                f"{part.at}.topologyName",
                f"{part.called} has a constraint, but names no ClusterTopologyBinding, nor does a part above it",
                hint="name one here, or in the constraint of the set",
                rule="R5",
            )
        elif first is not None and name != first.topology_name:
            says = f"is `{name[:80]}`, but {first.called} names `{first.topology_name[:80]}`"
            yield Problem(f"{part.at}.topologyName", says, hint="one binding holds for a whole set", rule="R5")


def _missing(constrained: Sequence[ConstrainedPart], name: str, bindings: Mapping[str, object]) -> Iterator[Problem]:
    part = next(part for part in constrained if part.constraint.topology_name)
    says = f"ClusterTopologyBinding `{name[:80]}` does not exist"
    yield Problem(f"{part.at}.topologyName", says, hint=f"known: {listed(bindings)}", rule="R5")


def _known(part: ConstrainedPart, binding: ClusterTopologyBinding | None) -> Iterator[Problem]:
    if binding is None:
        return
    known = [level.domain for level in binding.spec.levels]
    for at, domain in part.domains():
        if domain not in known:
            says = f"ClusterTopologyBinding `{binding.metadata.name}` has no domain `{domain[:63]}`"
            yield Problem(at, says, hint=f"known: {', '.join(known[:16])}", rule="R5")


def _nested(part: ConstrainedPart, binding: ClusterTopologyBinding | None) -> Iterator[Problem]:
    """A part lies inside the parts above it; without the binding, only Grove's own names say which is broader."""
    order = tuple(level.domain for level in binding.spec.levels) if binding else USUAL
    for above in part.above:
        for field, domain, other in (
            ("required", part.required, above.required),
            ("preferred", part.preferred, above.preferred),
        ):
            if _is_broader(domain, other, order):
                yield Problem(
                    f"{part.at}.pack.{field}",
                    f"`{domain}` is broader than `{other}`, in which {above.called} lies",
                    hint=f"`{other}` or narrower; or a broader domain for {above.called}",
                    severity="error" if binding else "warning",
                    rule="R5",
                )
    if _is_broader(part.preferred, part.required, order):
        yield Problem(
            f"{part.at}.pack.preferred",
            f"`{part.preferred}` is broader than the required `{part.required}` and says nothing more",
            hint=f"prefer a domain narrower than `{part.required}`, or leave it out",
            severity="warning",
            rule="R5",
        )


def _is_broader(domain: str, other: str, order: Sequence[str]) -> bool:
    return domain in order and other in order and order.index(domain) < order.index(other)
