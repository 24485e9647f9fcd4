"""Training: recipes, batches, the loop, and runs that can be stopped and resumed."""

from pdtools.training.batches import BatchLimits, BatchStream, padding_share, plan_epoch, plan_in_order
from pdtools.training.config import Recipe, TrainConfig, bundled_recipes, read_recipe
from pdtools.training.data import Sentences, ShardInput
from pdtools.training.distributed import ALONE, Ranks, local_device, torchrun_ranks
from pdtools.training.evaluate import LossSums, evaluate
from pdtools.training.interruption import Interruption
from pdtools.training.loop import Listener, TrainingLoop
from pdtools.training.metrics import METRICS, read_metrics
from pdtools.training.optimizer import build_optimizer, learning_rate
from pdtools.training.parallel import ParallelModel
from pdtools.training.run_state import RunState, run_state
from pdtools.training.sources import BatchSource, TrainingData, TrainingInput, ValidationData
from pdtools.training.sweep import Outcome, Plan, SweepListener, make_plans, sweep
from pdtools.training.task_data import TaskInput
from pdtools.training.train import OpenRun, complete_recipe, open_run, train

__all__ = [
    "ALONE",
    "METRICS",
    "BatchLimits",
    "BatchSource",
    "BatchStream",
    "Interruption",
    "Listener",
    "LossSums",
    "OpenRun",
    "Outcome",
    "ParallelModel",
    "Plan",
    "Ranks",
    "Recipe",
    "RunState",
    "Sentences",
    "ShardInput",
    "SweepListener",
    "TaskInput",
    "TrainConfig",
    "TrainingData",
    "TrainingInput",
    "TrainingLoop",
    "ValidationData",
    "build_optimizer",
    "bundled_recipes",
    "complete_recipe",
    "evaluate",
    "learning_rate",
    "local_device",
    "make_plans",
    "open_run",
    "padding_share",
    "plan_epoch",
    "plan_in_order",
    "read_metrics",
    "read_recipe",
    "run_state",
    "sweep",
    "torchrun_ranks",
    "train",
]
