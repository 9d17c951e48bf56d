"""The types of what is read of built-in kinds, as small schemas; an API server refuses the same while it decodes."""

from typing import Any

from muster.api.resources import Resource

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
TRUTH: Schema = {"type": "boolean"}
EITHER: Schema = {"x-kubernetes-int-or-string": True}
MAP: Schema = {"type": "object"}
TEXTS: Schema = {"type": "object", "additionalProperties": TEXT}


def many(items: Schema) -> Schema:
    """A list of such values."""
    return {"type": "array", "items": items}


def fields(**known: Schema) -> Schema:
    """An object that has such fields, among others."""
    return {"type": "object", "properties": known}


_SELECTOR = fields(matchLabels=TEXTS, matchExpressions=many(fields(key=TEXT, operator=TEXT, values=many(TEXT))))
_CONDITIONS = many(fields(type=TEXT, status=TEXT, reason=TEXT, message=TEXT, lastTransitionTime=TEXT))
_OWNER = fields(apiVersion=TEXT, kind=TEXT, name=TEXT, uid=TEXT, controller=TRUTH, blockOwnerDeletion=TRUTH)
METADATA = fields(
    name=TEXT,
    generateName=TEXT,
    namespace=TEXT,
    uid=TEXT,
    resourceVersion=TEXT,
    generation=NUMBER,
    creationTimestamp=TEXT,
    deletionTimestamp=TEXT,
    deletionGracePeriodSeconds=NUMBER,
    labels=TEXTS,
    annotations=TEXTS,
    finalizers=many(TEXT),
    ownerReferences=many(_OWNER),
    managedFields=many(fields(manager=TEXT, operation=TEXT, subresource=TEXT, time=TEXT, fieldsV1=MAP)),
)
_CONTAINERS = many(
    fields(
        name=TEXT,
        image=TEXT,
        imagePullPolicy=TEXT,
        command=many(TEXT),
        args=many(TEXT),
        workingDir=TEXT,
        ports=many(fields(name=TEXT, containerPort=NUMBER, hostPort=NUMBER, protocol=TEXT)),
        env=many(fields(name=TEXT, value=TEXT)),
        resources=fields(requests=MAP, limits=MAP),
    )
)
_POD_SPEC = fields(
    nodeName=TEXT,
    schedulerName=TEXT,
    restartPolicy=TEXT,
    priorityClassName=TEXT,
    priority=NUMBER,
    terminationGracePeriodSeconds=NUMBER,
    containers=_CONTAINERS,
    initContainers=_CONTAINERS,
    tolerations=many(MAP),
    nodeSelector=TEXTS,
    schedulingGates=many(fields(name=TEXT)),
    readinessGates=many(fields(conditionType=TEXT)),
)
_TEMPLATE = fields(metadata=METADATA, spec=_POD_SPEC)
_POD = fields(
    spec=_POD_SPEC,
    status=fields(
        phase=TEXT,
        reason=TEXT,
        startTime=TEXT,
        containerStatuses=many(fields(name=TEXT, ready=TRUTH, restartCount=NUMBER)),
    ),
)
_ABOUT = fields(kind=TEXT, namespace=TEXT, name=TEXT, uid=TEXT)
_EVENT = fields(
    involvedObject=_ABOUT,
    regarding=_ABOUT,
    source=fields(component=TEXT),
    deprecatedSource=fields(component=TEXT),
    series=fields(lastObservedTime=TEXT),
    message=TEXT,
    note=TEXT,
    count=NUMBER,
    deprecatedCount=NUMBER,
    reportingComponent=TEXT,
    reportingController=TEXT,
)
_REPLICATED = fields(
    spec=fields(replicas=NUMBER, selector=_SELECTOR, template=_TEMPLATE),
    status=fields(replicas=NUMBER, readyReplicas=NUMBER),
)
_JOB_SPEC = fields(
    parallelism=NUMBER, completions=NUMBER, backoffLimit=NUMBER, suspend=TRUTH, selector=_SELECTOR, template=_TEMPLATE
)
_KINDS: dict[tuple[str, str], Schema] = {
    ("", "pods"): _POD,
    ("", "nodes"): fields(
        spec=fields(unschedulable=TRUTH, taints=many(fields(key=TEXT, effect=TEXT))),
        status=fields(capacity=MAP, allocatable=MAP, addresses=many(fields(type=TEXT, address=TEXT))),
    ),
    ("", "events"): _EVENT,
    ("events.k8s.io", "events"): _EVENT,
    ("", "configmaps"): fields(data=TEXTS, binaryData=TEXTS),
    ("", "secrets"): fields(data=TEXTS, stringData=TEXTS, type=TEXT),
    ("", "services"): fields(spec=fields(ports=many(fields(port=NUMBER)), selector=TEXTS)),
    ("apps", "deployments"): _REPLICATED,
    ("apps", "replicasets"): _REPLICATED,
    ("apps", "statefulsets"): _REPLICATED,
    ("apps", "daemonsets"): fields(spec=fields(selector=_SELECTOR, template=_TEMPLATE)),
    ("batch", "jobs"): fields(spec=_JOB_SPEC, status=fields(succeeded=NUMBER)),
    ("batch", "cronjobs"): fields(spec=fields(schedule=TEXT, suspend=TRUTH, jobTemplate=fields(spec=_JOB_SPEC))),
    ("policy", "poddisruptionbudgets"): fields(
        spec=fields(selector=_SELECTOR, minAvailable=EITHER, maxUnavailable=EITHER, unhealthyPodEvictionPolicy=TEXT),
        status=fields(disruptionsAllowed=NUMBER, currentHealthy=NUMBER, desiredHealthy=NUMBER, expectedPods=NUMBER),
    ),
    ("scheduling.k8s.io", "priorityclasses"): fields(value=NUMBER, globalDefault=TRUTH, preemptionPolicy=TEXT),
    ("apiextensions.k8s.io", "customresourcedefinitions"): fields(
        spec=fields(
            group=TEXT,
            scope=TEXT,
            names=fields(
                plural=TEXT, singular=TEXT, kind=TEXT, listKind=TEXT, shortNames=many(TEXT), categories=many(TEXT)
            ),
            versions=many(
                fields(
                    name=TEXT,
                    served=TRUTH,
                    storage=TRUTH,
                    schema=fields(openAPIV3Schema=MAP),
                    subresources=MAP,
                    additionalPrinterColumns=many(
                        fields(name=TEXT, jsonPath=TEXT, type=TEXT, priority=NUMBER, format=TEXT, description=TEXT)
                    ),
                )
            ),
        )
    ),
}
_PLAIN = fields(spec=MAP, status=fields(conditions=_CONDITIONS))


def builtin_schema(resource: Resource) -> tuple[Schema, ...]:
    """What objects of a built-in kind look like."""
    return (_PLAIN, _KINDS.get((resource.group, resource.plural), MAP))


def without_nulls(value: Any) -> Any:
    """A built-in kind knows no null: it means that nothing is said."""
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value
