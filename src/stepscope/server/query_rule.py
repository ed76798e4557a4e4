"""The catalogue of rules with the thresholds in force, and how a site sets its own."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Response, get, put
from litestar.datastructures import State
from litestar.params import FromQuery, JSONBody

from stepscope.model.error import UsageError
from stepscope.model.feature import Clause
from stepscope.model.text import Lang
from stepscope.rules.load import Catalog, load_catalog
from stepscope.rules.rule import Rule
from stepscope.server import shape
from stepscope.server.parts import Parts
from stepscope.server.query_job import Id
from stepscope.server.reply import Ask, refusal_of, reply, unknown
from stepscope.server.route import in_thread, needs, responses
from stepscope.store.contract import Store


def effective_catalog(store: Store) -> Catalog:
    """The catalogue with the site's thresholds: what every diagnosis of the server decides by. A threshold
    of a rule that is no longer there is left out."""
    catalog = load_catalog()
    for each in store.documents("threshold"):
        if each.id in catalog.rules:
            catalog = catalog.with_thresholds({each.id: msgspec.json.decode(each.body, type=dict[str, Any])})
    return catalog


def _shown(rule: Rule, lang: Lang) -> shape.RuleOf:
    clauses: dict[str, Clause] = {}
    for clause in (*rule.when, *rule.unless, *rule.corroborated_by):
        clauses.setdefault(clause.feature.name, clause)
    return shape.RuleOf(
        id=rule.id,
        title=rule.title.in_(lang),
        cause=rule.cause,
        layer=rule.layer.value,
        thresholds=[
            shape.Threshold(
                feature=name,
                op=clause.op,
                threshold=clause.threshold,
                unit=clause.feature.unit,
                is_own=clause.overridden,
            )
            for name, clause in clauses.items()
        ],
    )


@get("/api/v1/rules", guards=[needs("viewer")], responses=responses(503), tags=["rules"], summary="Rules")
async def rules(request: Ask, state: State, lang: FromQuery[Lang] = "en") -> Response[shape.Rules]:
    """Every cause that is known, with the thresholds in force."""

    def work() -> shape.Rules:
        return shape.Rules(items=[_shown(each, lang) for each in effective_catalog(state.parts.store)])

    return reply(request, await in_thread(state.querying, work))


@put(
    "/api/v1/rules/{rule:str}/thresholds",
    guards=[needs("admin")],
    responses=responses(404, 408, 413, 503),
    tags=["rules"],
    summary="Set a site's thresholds of a rule",
    description="The body is an object of `feature: number`, and takes the place of what was set before; an "
    "empty one gives the rule its own thresholds back. Every card says where a site's own decided.",
)
async def set_thresholds(
    request: Ask, state: State, rule: Id, data: JSONBody[dict[str, float]]
) -> Response[shape.RuleOf]:
    """Set a site's thresholds of a rule."""
    parts: Parts = state.parts

    def work() -> shape.RuleOf:
        catalog = load_catalog()
        if rule not in catalog.rules:
            raise unknown("rule", "/api/v1/rules")
        try:
            catalog = catalog.with_thresholds({rule: data})
        except UsageError as error:
            raise refusal_of(error, 400) from error
        if data:
            parts.store.put("threshold", rule, msgspec.json.encode(data), at_ns=parts.clock_ns())
        else:
            parts.store.remove("threshold", rule)
        if parts.thresholds_changed is not None:
            parts.thresholds_changed()
        return _shown(catalog[rule], "en")

    return reply(request, await in_thread(state.querying, work))


HANDLERS = (rules, set_thresholds)
