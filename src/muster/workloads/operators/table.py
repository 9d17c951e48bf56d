"""The controllers of the operators' kinds: one table, one line a kind."""

from muster.workloads.operators import job_sets, leader_worker_sets
from muster.workloads.operators.kubeflow import mpi_jobs, training_jobs
from muster.workloads.operators.ray import ray_clusters, ray_jobs, ray_services
from muster.workloads.types import Controller

OPERATORS: tuple[Controller, ...] = (
    leader_worker_sets.CONTROLLER,
    job_sets.CONTROLLER,
    *training_jobs.CONTROLLERS,
    mpi_jobs.CONTROLLER,
    ray_clusters.CONTROLLER,
    ray_jobs.CONTROLLER,
    ray_services.CONTROLLER,
)
