"""Small schemas with the field types of built-in kinds; an API server rejects the same fields while it decodes."""

from typing import Any

from muster.api.resources import Resource

Schema = dict[str, Any]
STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
BOOLEAN: Schema = {"type": "boolean"}
INT_OR_STRING: Schema = {"x-kubernetes-int-or-string": True}
OBJECT: Schema = {"type": "object"}
STRING_MAP: Schema = {"type": "object", "additionalProperties": STRING}


def array(items: Schema) -> Schema:
    """An array of such items."""
    return {"type": "array", "items": items}


def fields(**known: Schema) -> Schema:
    """An object with these fields, among others."""
    return {"type": "object", "properties": known}


_SELECTOR = fields(
    matchLabels=STRING_MAP, matchExpressions=array(fields(key=STRING, operator=STRING, values=array(STRING)))
)
_CONDITIONS = array(fields(type=STRING, status=STRING, reason=STRING, message=STRING, lastTransitionTime=STRING))
_OWNER = fields(apiVersion=STRING, kind=STRING, name=STRING, uid=STRING, controller=BOOLEAN, blockOwnerDeletion=BOOLEAN)
METADATA = fields(
    name=STRING,
    generateName=STRING,
    namespace=STRING,
    uid=STRING,
    resourceVersion=STRING,
    generation=INTEGER,
    creationTimestamp=STRING,
    deletionTimestamp=STRING,
    deletionGracePeriodSeconds=INTEGER,
    labels=STRING_MAP,
    annotations=STRING_MAP,
    finalizers=array(STRING),
    ownerReferences=array(_OWNER),
    managedFields=array(fields(manager=STRING, operation=STRING, subresource=STRING, time=STRING, fieldsV1=OBJECT)),
)
_CONTAINERS = array(
    fields(
        name=STRING,
        image=STRING,
        imagePullPolicy=STRING,
        command=array(STRING),
        args=array(STRING),
        workingDir=STRING,
        ports=array(fields(name=STRING, containerPort=INTEGER, hostPort=INTEGER, protocol=STRING)),
        env=array(fields(name=STRING, value=STRING)),
        resources=fields(requests=OBJECT, limits=OBJECT),
    )
)
_POD_SPEC = fields(
    nodeName=STRING,
    schedulerName=STRING,
    restartPolicy=STRING,
    priorityClassName=STRING,
    priority=INTEGER,
    terminationGracePeriodSeconds=INTEGER,
    containers=_CONTAINERS,
    initContainers=_CONTAINERS,
    tolerations=array(OBJECT),
    nodeSelector=STRING_MAP,
    schedulingGates=array(fields(name=STRING)),
    readinessGates=array(fields(conditionType=STRING)),
)
_TEMPLATE = fields(metadata=METADATA, spec=_POD_SPEC)
_POD = fields(
    spec=_POD_SPEC,
    status=fields(
        phase=STRING,
        reason=STRING,
        startTime=STRING,
        containerStatuses=array(fields(name=STRING, ready=BOOLEAN, restartCount=INTEGER)),
    ),
)
_OBJECT_REFERENCE = fields(kind=STRING, namespace=STRING, name=STRING, uid=STRING)
_EVENT = fields(
    involvedObject=_OBJECT_REFERENCE,
    regarding=_OBJECT_REFERENCE,
    source=fields(component=STRING),
    deprecatedSource=fields(component=STRING),
    series=fields(lastObservedTime=STRING),
    message=STRING,
    note=STRING,
    count=INTEGER,
    deprecatedCount=INTEGER,
    reportingComponent=STRING,
    reportingController=STRING,
)
_REPLICATED_WORKLOAD = fields(
    spec=fields(replicas=INTEGER, selector=_SELECTOR, template=_TEMPLATE),
    status=fields(replicas=INTEGER, readyReplicas=INTEGER),
)
_JOB_SPEC = fields(
    parallelism=INTEGER,
    completions=INTEGER,
    backoffLimit=INTEGER,
    suspend=BOOLEAN,
    selector=_SELECTOR,
    template=_TEMPLATE,
)
_KINDS: dict[tuple[str, str], Schema] = {
    ("", "pods"): _POD,
    ("", "nodes"): fields(
        spec=fields(unschedulable=BOOLEAN, taints=array(fields(key=STRING, effect=STRING))),
        status=fields(capacity=OBJECT, allocatable=OBJECT, addresses=array(fields(type=STRING, address=STRING))),
    ),
    ("", "events"): _EVENT,
    ("events.k8s.io", "events"): _EVENT,
    ("", "configmaps"): fields(data=STRING_MAP, binaryData=STRING_MAP),
    ("", "secrets"): fields(data=STRING_MAP, stringData=STRING_MAP, type=STRING),
    ("", "services"): fields(spec=fields(ports=array(fields(port=INTEGER)), selector=STRING_MAP)),
    ("apps", "deployments"): _REPLICATED_WORKLOAD,
    ("apps", "replicasets"): _REPLICATED_WORKLOAD,
    ("apps", "statefulsets"): _REPLICATED_WORKLOAD,
    ("apps", "daemonsets"): fields(spec=fields(selector=_SELECTOR, template=_TEMPLATE)),
    ("batch", "jobs"): fields(spec=_JOB_SPEC, status=fields(succeeded=INTEGER)),
    ("batch", "cronjobs"): fields(
        spec=fields(schedule=STRING, timeZone=STRING, suspend=BOOLEAN, jobTemplate=fields(spec=_JOB_SPEC))
    ),
    ("policy", "poddisruptionbudgets"): fields(
        spec=fields(
            selector=_SELECTOR,
            minAvailable=INT_OR_STRING,
            maxUnavailable=INT_OR_STRING,
            unhealthyPodEvictionPolicy=STRING,
        ),
        status=fields(disruptionsAllowed=INTEGER, currentHealthy=INTEGER, desiredHealthy=INTEGER, expectedPods=INTEGER),
    ),
    ("scheduling.k8s.io", "priorityclasses"): fields(value=INTEGER, globalDefault=BOOLEAN, preemptionPolicy=STRING),
    ("apiextensions.k8s.io", "customresourcedefinitions"): fields(
        spec=fields(
            group=STRING,
            scope=STRING,
            names=fields(
                plural=STRING,
                singular=STRING,
                kind=STRING,
                listKind=STRING,
                shortNames=array(STRING),
                categories=array(STRING),
            ),
            versions=array(
                fields(
                    name=STRING,
                    served=BOOLEAN,
                    storage=BOOLEAN,
                    schema=fields(openAPIV3Schema=OBJECT),
                    subresources=OBJECT,
                    additionalPrinterColumns=array(
                        fields(
                            name=STRING,
                            jsonPath=STRING,
                            type=STRING,
                            priority=INTEGER,
                            format=STRING,
                            description=STRING,
                        )
                    ),
                )
            ),
        )
    ),
}
_ANY_KIND = fields(spec=OBJECT, status=fields(conditions=_CONDITIONS))


def builtin_schema(resource: Resource) -> tuple[Schema, ...]:
    """The schemas that objects of a built-in kind must match."""
    return (_ANY_KIND, _KINDS.get((resource.group, resource.plural), OBJECT))


def without_nulls(value: Any) -> Any:
    """A value of a built-in kind without its nulls: they mean that a field is not set."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value
