"""A scenario to start from, with a comment on every part. The tests run it."""

STARTER = """\
# A scenario of `muster simulate`. Durations are such as 90s, 15m or 168h; plain numbers are seconds.
name: starter
seed: 1            # all chance comes from it: the same scenario gives the same result
horizon: 12h       # when the simulation ends

cluster:           # exactly one of: nodes, nodesFile, snapshot
  nodes: 16
  gpus: 8          # of each node; it has 96 cpu and 1Ti of memory as well
  topology: zone=2,rack=4
  # nodesFile: {file: nodes.csv, format: csv, columns: {name: host, cpu: cores, gpu: gpus}}
  # snapshot: captured/        # a folder that `muster snapshot` wrote

priorityClasses: {low: 40, high: 90}

queues:            # none: one queue `default` without limits
  - name: research
    resources: {gpu: {quota: 64}, cpu: {quota: -1}, memory: {quota: -1}}
  - name: inference
    resources: {gpu: {quota: 64}, cpu: {quota: -1}, memory: {quota: -1}}

workloads:
  - name: train    # all or nothing, in one rack
    queue: research
    priorityClass: low
    arrivals: {interval: {kind: exponential, mean: 15m}}
    duration: {kind: lognormal, median: 40m, sigma: 0.8, most: 6h}
    onEviction: restart        # or resume: what was done is kept
    gang: {pods: 8, requests: {nvidia.com/gpu: 2, cpu: 8}, level: rack}

  - name: sweep    # elastic: 2 of 8 pods are enough to start
    queue: research
    priorityClass: low
    arrivals: {interval: {kind: uniform, least: 20m, most: 60m}}
    duration: {kind: constant, value: 1h}   # with all pods
    speed: linear              # with half of them it takes twice as long; or fixed
    gang: {pods: 8, minPods: 2, requests: {nvidia.com/gpu: 1}}

  - name: serve    # 2 of 3 replicas of a leader and its workers, each replica in a rack; its core is not evicted
    queue: inference
    priorityClass: high
    preemptibility: semi-preemptible
    arrivals: {interval: {kind: exponential, mean: 3h}, first: 30m, count: 3}
    gang:
      replicas: 3
      minReplicas: 2
      replicaLevel: rack
      roles:
        - {name: leader, pods: 1, requests: {cpu: 4}}
        - {name: worker, pods: 4, requests: {nvidia.com/gpu: 2}}

# traces:          # gangs of CSV files, beside or instead of workloads
#   - name: jobs
#     file: jobs.csv
#     queue: research
#     columns: {name: job, arrival: submitted, duration: seconds, pods: workers, gpu: gpus}

failures:          # nodes, or a whole domain, that fail with their pods
  - {nodes: [node-003], at: 2h, lasts: 30m}

# randomFailures: {interval: {kind: exponential, mean: 2000h}, repair: {kind: constant, value: 1h}}   # of each node

drains:            # nodes, or a whole domain, whose pods are evicted
  - {domain: rack=r0, at: 6h, lasts: 1h}

kubelet: {start: 5s, stop: 30s}          # from bound to running, from evicted to gone

policy:            # as in the configuration of muster
  consolidation: {maxPods: 16}
  disturbance: {maxShare: 5}
"""
