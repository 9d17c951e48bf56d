"""Published formats as mappings of columns, and what units mean.

`openb`: nodes and pods of the 2023 GPU cluster trace. `disaggregated`: instances of services with a CPU and a GPU role,
2025. `gpu-nodes`: the node list of the 2026 spot GPU trace, which states neither memory nor disks.
"""

from muster.simulator.scenario.types import JobColumns, NodeColumns, NodesFile, Trace, Units

GPU_MODEL = "gpu-model"  # node label
JOBS: dict[str, tuple[JobColumns, Units]] = {
    "openb": (
        JobColumns(
            name="name",
            arrival="creation_time",
            start="scheduled_time",
            end="deletion_time",
            cpu="cpu_milli",
            memory="memory_mib",
            gpu="num_gpu",
            model="gpu_spec",
            class_name="qos",
        ),
        Units(cpu="milli", memory="MiB"),
    ),
    "disaggregated": (
        JobColumns(
            name="instance_sn",
            gang="app_name",
            role="role",
            arrival="creation_time",
            end="deletion_time",
            cpu="cpu_request",
            memory="memory_request",
            gpu="gpu_request",
        ),
        Units(),
    ),
}
NODES: dict[str, tuple[NodeColumns, Units]] = {
    "openb": (
        NodeColumns(name="sn", cpu="cpu_milli", memory="memory_mib", gpu="gpu", model="model"),
        Units(cpu="milli", memory="MiB"),
    ),
    "gpu-nodes": (NodeColumns(name="node_name", cpu="cpu_num", gpu="gpu_capacity_num", model="gpu_model"), Units()),
}
CPU_MILLI = {"cores": 1000, "milli": 1}
BYTES = {"bytes": 1, "MiB": 2**20, "GiB": 2**30}
MILLISECONDS = {"s": 1000, "ms": 1, "h": 3_600_000}


def job_columns(trace: Trace) -> tuple[JobColumns, Units]:
    """The columns of a trace and their units."""
    return JOBS.get(trace.format, (trace.columns, trace.units))


def node_columns(nodes: NodesFile) -> tuple[NodeColumns, Units]:
    """The columns of a file of nodes and their units."""
    return NODES.get(nodes.format, (nodes.columns, nodes.units))
