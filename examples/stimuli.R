# From pdtools' table of surprisals to a figure and a mixed-effects model.
#   pdtools surprisal stimuli.csv --model runs/pushdown --model gpt2/ -o surprisals.csv
#   Rscript stimuli.R surprisals.csv 2
# The number (or name) of the critical region comes last. Without it the script takes the second region, and
# says so.
# Needs: install.packages(c("dplyr", "ggplot2", "lme4", "readr"))
library(dplyr)
library(ggplot2)
library(lme4)
library(readr)

arguments <- commandArgs(trailingOnly = TRUE)
file <- arguments[1]
surprisals <- read_csv(if (is.na(file)) "surprisals.csv" else file, show_col_types = FALSE) |>
  rename_with(tolower) |>  # Item and Condition are found too
  mutate(across(c(item, condition, model), factor))
if (!"region" %in% names(surprisals)) surprisals$region <- 1  # whole sentences

# Means with 95% intervals over items (within models), by region and condition.
means <- surprisals |>
  filter(!is.na(surprisal), !is.na(item)) |>  # fillers may have no item
  group_by(model, condition, region) |>
  summarise(
    bits = mean(surprisal),
    error = if (n() > 1) qt(.975, n() - 1) * sd(surprisal) / sqrt(n()) else NA,  # one item has no interval
    .groups = "drop"
  )

apart <- position_dodge(width = .15)
figure <- ggplot(means, aes(factor(region), bits, colour = condition, group = condition)) +
  geom_line(position = apart) +
  geom_point(position = apart) +
  geom_linerange(aes(ymin = bits - error, ymax = bits + error), position = apart, na.rm = TRUE) +
  facet_wrap(~model) +
  labs(x = "region", y = "surprisal (bits)") +
  theme_minimal()
ggsave("surprisals.pdf", figure, width = 7, height = 3.5)

# The effect of the condition at one region, with items as random intercepts, for each model.
regions <- unique(as.character(surprisals$region))
critical <- arguments[2]
if (is.na(critical)) {
  critical <- regions[min(2, length(regions))]
  cat("no region is given: the effect is that at region", critical, "\n")
}
if (!critical %in% regions) stop("no region ", critical, ": there are ", paste(regions, collapse = ", "))
for (name in levels(surprisals$model)) {
  own <- filter(surprisals, model == name, as.character(region) == critical, crossing == 0)
  cat("\n", name, "\n", sep = "")
  if (n_distinct(own$item) < 2 || n_distinct(own$condition) < 2) {
    cat("one item or one condition: nothing to fit\n")
    next
  }
  print(summary(lmer(surprisal ~ condition + (1 | item), data = own))$coefficients)
}
