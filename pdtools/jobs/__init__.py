"""Work in chunks: in one process, in several, in the jobs of a cluster's array, or on a Dask cluster.

A command's input is cut into chunks by rules that do not depend on workers, and each chunk's result is
kept beside the output until that is complete. So it does not matter which worker does a chunk, or when.
"""

from pdtools.jobs.folder import (
    Chunks,
    JobFolder,
    begun,
    finished,
    is_to_replace,
    job_folder,
    job_path,
    read_job,
)
from pdtools.jobs.plan import Done, Plan, Slice, SliceDone, independent_passes, only_merging
from pdtools.jobs.run import Work, cut, map_chunks
