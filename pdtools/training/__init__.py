"""Training: recipes, batches, the loop, and runs that can be stopped and resumed."""

from pdtools.training.batches import BatchLimits
from pdtools.training.distributed import ALONE, ParallelModel, Ranks, local_device, torchrun_ranks
from pdtools.training.interruption import Interruption
from pdtools.training.loss import LossSums, evaluate
from pdtools.training.metrics import METRICS, read_metrics
from pdtools.training.optimizer import build_optimizer, learning_rate
from pdtools.training.recipe import RECIPES, Recipe, TrainConfig, read_recipe
from pdtools.training.run_state import RunState, run_state
from pdtools.training.shard_input import Sentences, ShardInput
from pdtools.training.sweep import Outcome, SweepRun, make_runs, sweep
from pdtools.training.train import TrainOptions, complete_recipe, open_run, train
