"""Kubernetes' protobuf, as far as kubectl sends it: `create namespace`, `create configmap` …, `drain`, `auth`.

kubectl reads JSON responses, and `apply` and `create -f` send JSON; these few commands always send protobuf.
Rule: a field that is not in the table rejects the request (415). No field is dropped silently.
"""

from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from muster.api.moment import format_time
from muster.embedded.rest.responses import status_error
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError

PROTOBUF = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\0"
MAX_DEPTH = 20  # of nested messages; a Deployment has 6

# message: number name type, …   s string, i integer, b boolean, x bytes, - ignored, else a message; `[]`: repeated,
# `{}`: a map, `?`: kept when it is zero
_TABLE = """
Unknown: 1 type TypeMeta, 2 raw x, 3 contentEncoding s, 4 contentType s
TypeMeta: 1 apiVersion s, 2 kind s
ObjectMeta: 1 name s, 2 generateName s, 3 namespace s, 4 selfLink s, 5 uid s, 6 resourceVersion s, 7 generation i, \
8 creationTimestamp Time, 9 deletionTimestamp Time, 10 deletionGracePeriodSeconds i?, 11 labels s{}, \
12 annotations s{}, 13 ownerReferences OwnerReference[], 14 finalizers s[]
OwnerReference: 1 kind s, 3 name s, 4 uid s, 5 apiVersion s, 6 controller b?, 7 blockOwnerDeletion b?
LabelSelector: 1 matchLabels s{}, 2 matchExpressions Requirement[]
Requirement: 1 key s, 2 operator s, 3 values s[]
DeleteOptions: 1 gracePeriodSeconds i?, 2 preconditions Preconditions, 3 orphanDependents b?, 4 propagationPolicy s, \
5 dryRun s[]
Preconditions: 1 uid s, 2 resourceVersion s
Eviction: 1 metadata ObjectMeta, 2 deleteOptions DeleteOptions
Namespace: 1 metadata ObjectMeta, 2 spec NamespaceSpec, 3 status -
NamespaceSpec: 1 finalizers s[]
ConfigMap: 1 metadata ObjectMeta, 2 data s{}, 3 binaryData x{}, 4 immutable b?
Secret: 1 metadata ObjectMeta, 2 data x{}, 3 type s, 4 stringData s{}, 5 immutable b?
ServiceAccount: 1 metadata ObjectMeta, 4 automountServiceAccountToken b?
PriorityClass: 1 metadata ObjectMeta, 2 value i?, 3 globalDefault b, 4 description s, 5 preemptionPolicy s
PodDisruptionBudget: 1 metadata ObjectMeta, 2 spec BudgetSpec, 3 status -
BudgetSpec: 1 minAvailable IntOrString, 2 selector LabelSelector, 3 maxUnavailable IntOrString, \
4 unhealthyPodEvictionPolicy s
Deployment: 1 metadata ObjectMeta, 2 spec DeploymentSpec, 3 status -
DeploymentSpec: 1 replicas i?, 2 selector LabelSelector, 3 template PodTemplate, 4 strategy Strategy, \
5 minReadySeconds i, 6 revisionHistoryLimit i?, 7 paused b, 9 progressDeadlineSeconds i?
Strategy: 1 type s, 2 rollingUpdate RollingUpdate
RollingUpdate: 1 maxUnavailable IntOrString, 2 maxSurge IntOrString
Job: 1 metadata ObjectMeta, 2 spec JobSpec, 3 status -
JobSpec: 1 parallelism i?, 2 completions i?, 3 activeDeadlineSeconds i?, 4 selector LabelSelector, \
5 manualSelector b?, 6 template PodTemplate, 7 backoffLimit i?, 8 ttlSecondsAfterFinished i?, 9 completionMode s, \
10 suspend b?, 12 backoffLimitPerIndex i?, 13 maxFailedIndexes i?, 14 podReplacementPolicy s, 15 managedBy s
CronJob: 1 metadata ObjectMeta, 2 spec CronJobSpec, 3 status -
CronJobSpec: 1 schedule s, 2 startingDeadlineSeconds i?, 3 concurrencyPolicy s, 4 suspend b?, \
5 jobTemplate JobTemplate, 6 successfulJobsHistoryLimit i?, 7 failedJobsHistoryLimit i?, 8 timeZone s
JobTemplate: 1 metadata ObjectMeta, 2 spec JobSpec
Service: 1 metadata ObjectMeta, 2 spec ServiceSpec, 3 status -
ServiceSpec: 1 ports ServicePort[], 2 selector s{}, 3 clusterIP s, 4 type s, 5 externalIPs s[], 7 sessionAffinity s, \
8 loadBalancerIP s, 10 externalName s, 11 externalTrafficPolicy s, 12 healthCheckNodePort i, \
13 publishNotReadyAddresses b, 17 ipFamilyPolicy s, \
18 clusterIPs s[], 19 ipFamilies s[], 22 internalTrafficPolicy s
ServicePort: 1 name s, 2 protocol s, 3 port i, 4 targetPort IntOrString, 5 nodePort i, 6 appProtocol s
PodTemplate: 1 metadata ObjectMeta, 2 spec PodSpec
PodSpec: 2 containers Container[], 3 restartPolicy s, 4 terminationGracePeriodSeconds i?, 5 activeDeadlineSeconds i?, \
6 dnsPolicy s, 7 nodeSelector s{}, 8 serviceAccountName s, 9 serviceAccount s, 10 nodeName s, 11 hostNetwork b, \
12 hostPID b, 13 hostIPC b, 14 securityContext Nothing, 16 hostname s, 17 subdomain s, 19 schedulerName s, \
20 initContainers Container[], 24 priorityClassName s, 25 priority i?
Container: 1 name s, 2 image s, 3 command s[], 4 args s[], 5 workingDir s, 6 ports Port[], 7 env Env[], \
8 resources Requirements, 13 terminationMessagePath s, 14 imagePullPolicy s, 16 stdin b, 17 stdinOnce b, 18 tty b, \
20 terminationMessagePolicy s
Port: 1 name s, 2 hostPort i, 3 containerPort i, 4 protocol s, 5 hostIP s
Env: 1 name s, 2 value s
Requirements: 1 limits Quantity{}, 2 requests Quantity{}
Nothing:
"""
# supported kinds; the content of reviews is ignored
_REVIEWS = frozenset(("SelfSubjectReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"))
_KINDS = frozenset(("DeleteOptions", "Eviction", "Namespace", "ConfigMap", "Secret", "ServiceAccount")) | frozenset(
    ("PriorityClass", "PodDisruptionBudget", "Deployment", "Job", "CronJob", "Service")
)


class Field(Struct, frozen=True):
    """How one field is decoded."""

    name: str
    type: str
    cardinality: str = ""  # empty, `[]` or `{}`
    keeps_zero: bool = False


def _field(words: str) -> tuple[int, Field]:
    number, name, kind = words.split()
    base = kind.rstrip("?[]{}")
    rest = kind[len(base) :]
    return int(number), Field(name, base, rest.strip("?"), "?" in rest)


def _message(line: str) -> tuple[str, dict[int, Field]]:
    name, _, fields = line.partition(":")
    return name, dict(_field(words) for words in fields.split(",") if words.strip())


MESSAGES = dict(_message(line) for line in _TABLE.strip().splitlines())


def read(data: bytes) -> Raw:
    """The object in a body; ApiError 400 where it is malformed, 415 where it has unsupported fields."""
    if not data.startswith(MAGIC):
        raise status_error(400, "the body is not Kubernetes' protobuf")
    try:
        envelope = _fields(data[len(MAGIC) :], "Unknown")
        type_meta, raw = envelope.get("type", {}), envelope.get("raw", b"")
        kind = type_meta.get("kind", "")
        if kind in _REVIEWS:
            return dict(type_meta)
        if kind not in _KINDS:
            raise unsupported(f"a `{kind[:60]}`")
        return {**type_meta, **_fields(raw, kind)}
    except (IndexError, OverflowError, OSError, ValueError):  # OSError: a time out of range
        raise status_error(400, "the body is broken: it ends too early, or is not protobuf") from None


def unsupported(what: str) -> ApiError:
    """The ApiError 415 for content that is not supported."""
    return status_error(415, f"this server does not read {what} in protobuf: send JSON, as `kubectl apply -f` does")


def _fields(data: bytes, message: str, depth: int = 0) -> Raw:
    if depth > MAX_DEPTH:
        raise ValueError(message)
    fields: Raw = {}
    for number, value in _records(data):
        field = MESSAGES[message].get(number)
        if field is None:
            raise unsupported(f"field {number} of a {message}")
        _put(fields, field, value, message, depth)
    return fields


def _put(fields: Raw, field: Field, value: bytes | int, message: str, depth: int) -> None:
    if field.cardinality == "{}":
        key, item = _entry(value, field, depth)
        fields.setdefault(field.name, {})[key] = item
        return
    if field.type == "-":
        return
    decoded = value if message == "Unknown" and field.type == "x" else _value(value, field.type, depth)
    if field.cardinality == "[]":
        fields.setdefault(field.name, []).append(decoded)
    elif decoded not in ("", 0, {}, None) or field.keeps_zero or field.type == "IntOrString":
        fields[field.name] = decoded


def _entry(value: bytes | int, field: Field, depth: int) -> tuple[str, Any]:
    """Key and value of a map entry."""
    key, item = "", _value(b"", field.type, depth)
    for number, part in _records(_bytes(value)):
        if number == 1:
            key = _bytes(part).decode()
        else:
            item = _value(part, field.type, depth)
    return key, item


def _value(value: bytes | int, kind: str, depth: int) -> Any:
    match kind:
        case "s":
            return _bytes(value).decode()
        case "x":
            return b64encode(_bytes(value)).decode()
        case "i":
            return _number(value)
        case "b":
            return _number(value) != 0
        case "IntOrString":
            parts = dict(_records(_bytes(value)))
            return _bytes(parts.get(3, b"")).decode() if parts.get(1) else _number(parts.get(2, 0))
        case "Quantity":
            return _bytes(dict(_records(_bytes(value))).get(1, b"")).decode()
        case "Time":
            seconds = dict(_records(_bytes(value))).get(1, 0)
            return format_time(datetime.fromtimestamp(_number(seconds), UTC)) if seconds else None
        case _:
            return _fields(_bytes(value), kind, depth + 1)


def _bytes(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise ValueError(value)
    return value


def _number(value: bytes | int) -> int:
    if isinstance(value, bytes):
        raise ValueError(value)
    return value - 2**64 if value >= 2**63 else value


def _records(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Field numbers with their values: a varint, or bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                number, at = _varint(data, at)
                yield tag >> 3, number
            case 2:
                size, at = _varint(data, at)
                if at + size > len(data):
                    raise IndexError(size)
                yield tag >> 3, data[at : at + size]
                at += size
            case wire_type:
                raise ValueError(wire_type)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number & (2**64 - 1), at
        shift += 7
    raise ValueError("a number of more than ten bytes")
