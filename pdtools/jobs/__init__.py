"""Work in pieces: in one process, in several, in the jobs of a cluster's array, or on a Dask cluster.

The input of a command is cut into pieces by rules that know nothing of workers, and what becomes of each
piece is kept beside the output until that is whole. So it does not matter who does a piece, or when.
"""

from pdtools.jobs.folder import (
    JobFolder,
    Pieces,
    begun,
    finished,
    is_to_replace,
    job_folder,
    job_path,
    read_job,
)
from pdtools.jobs.plan import Done, Plan, Slice, SliceDone, independent_passes, only_merging
from pdtools.jobs.run import Work, cut, map_pieces

__all__ = [
    "Done",
    "JobFolder",
    "Pieces",
    "Plan",
    "Slice",
    "SliceDone",
    "Work",
    "begun",
    "cut",
    "finished",
    "independent_passes",
    "is_to_replace",
    "job_folder",
    "job_path",
    "map_pieces",
    "only_merging",
    "read_job",
]
