"""Plans for Apache Ranger: tags on resources, and tag policies that mask or deny."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from pydantic import Field

from lily.connectors.plans import Bound, Kept, Planner, Task
from lily.sdk.enforcers import Finding

MASKS = {"hash": "MASK_HASH", "null": "MASK_NULL", "year": "MASK_DATE_SHOW_YEAR",
         "partial": "MASK_SHOW_FIRST_4", "constant": "MASK"}  # fmt: skip
TAGS = "/service/tags/importservicetags"
POLICY = "/service/public/v2/api/policy"
MASKING, ROWS = 1, 2  # types of policies


class Ranger(Planner):
    """Plans tags and tag policies for Ranger; Lily itself changes nothing there."""

    parts = 2

    class Options(Planner.Options):
        service: Annotated[str, Field(description="The service of the resources.")] = "cl_hive"
        tag_service: Annotated[str, Field(description="The tag service bound to it.")] = "cl_tag"
        component: Annotated[str, Field(description="In a tag service, types begin with it.")] = (
            "hive"
        )

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._service, self._tag_service = options.service, options.tag_service
        self._component = options.component

    def plan(self, task: Task) -> tuple[list[str], list[Finding]]:
        plan: list[str] = []
        if task.gone:  # adding alone would leave the old ones
            plan.append(_call("PUT", TAGS, self._tags("delete", task.place, task.gone)))
        if task.kept:
            labels = [(column, one.label) for column, one in task.kept.items()]
            plan.append(_call("PUT", TAGS, self._tags("add_or_update", task.place, labels)))
        for one in {each.label: each for each in task.kept.values()}.values():
            plan.append(_call("POST", POLICY, self._policy(one)))
        plan += [self._rows(task.place, task.filters)] if task.filters else []
        findings = [
            Finding("planned", "a custom mask has no expression here; null is used", column)
            for column, one in task.kept.items()
            if one.kind == "custom" and not one.expression
        ]
        return plan, findings

    def _tags(self, op: str, place: Sequence[str], labels: Sequence[Bound]) -> dict[str, Any]:
        names = sorted({label for _, label in labels})
        numbers = {name: number for number, name in enumerate(names)}
        resources = [
            {"id": number, "serviceName": self._service,
             "resourceElements": {"database": {"values": [place[0]]},
                                  "table": {"values": [place[1]]},
                                  "column": {"values": [column]}}}
            for number, (column, _) in enumerate(labels)
        ]  # fmt: skip
        return {
            "op": op, "serviceName": self._service, "tagVersion": 1,
            "tagDefinitions": {str(n): {"id": n, "name": name, "source": "lily"}
                               for name, n in numbers.items()},
            "tags": {str(n): {"id": n, "type": name} for name, n in numbers.items()},
            "serviceResources": resources,
            "resourceToTagIds": {str(number): [numbers[label]]
                                 for number, (_, label) in enumerate(labels)},
        }  # fmt: skip

    def _policy(self, one: Kept) -> dict[str, Any]:
        access = [{"type": f"{self._component}:select", "isAllowed": True}]
        policy: dict[str, Any] = {
            "service": self._tag_service, "name": one.label, "isEnabled": True,
            "resources": {"tag": {"values": [one.label]}},
        }  # fmt: skip
        everybody = {"groups": ["public"], "accesses": access}
        if one.kind == "deny":
            policy |= {"policyType": 0, "denyPolicyItems": [everybody]}
            if one.exempt:
                policy["denyExceptions"] = [{"groups": list(one.exempt), "accesses": access}]
            return policy
        items = [{**everybody, "dataMaskInfo": self._mask(one)}]
        if one.exempt:  # the first item that fits counts
            free = {"dataMaskType": f"{self._component}:MASK_NONE"}
            items.insert(0, {"groups": list(one.exempt), "accesses": access, "dataMaskInfo": free})
        return policy | {"policyType": MASKING, "dataMaskPolicyItems": items}

    def _mask(self, one: Kept) -> dict[str, str]:
        if one.kind == "custom" and one.expression:
            expression = one.expression.replace("{column}", "{col}")
            return {"dataMaskType": f"{self._component}:CUSTOM", "valueExpr": expression}
        return {"dataMaskType": f"{self._component}:{MASKS.get(one.kind, 'MASK_NULL')}"}

    def _rows(self, place: Sequence[str], filters: Sequence[str]) -> str:
        condition = " AND ".join(f"({each})" for each in filters)
        item = {"groups": ["public"], "accesses": [{"type": "select", "isAllowed": True}],
                "rowFilterInfo": {"filterExpr": condition}}  # fmt: skip
        return _call("POST", POLICY, {
            "service": self._service, "name": f"lily_rows_{'_'.join(place)}", "isEnabled": True,
            "policyType": ROWS, "rowFilterPolicyItems": [item],
            "resources": {"database": {"values": [place[0]]}, "table": {"values": [place[1]]}},
        })  # fmt: skip


def _call(method: str, path: str, body: dict[str, Any]) -> str:
    return f"{method} {path} {msgspec.json.encode(body).decode()}"
