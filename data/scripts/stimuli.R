# From pdtools' table of surprisals to a figure and a mixed-effects model.
#   pdtools data get sample
#   pdtools surprisal stimuli.xlsx --model english --model hf:gpt2 -o surprisals.csv
#   Rscript sample/scripts/stimuli.R surprisals.csv 3                       # the column Condition
#   Rscript sample/scripts/stimuli.R surprisals.csv 3 Ambiguity Length      # factors: main effects, interaction
# The critical region, by its number or name, comes second. Without it the script takes the second region, and
# says so. Columns are found whatever their case.
# Needs: install.packages(c("dplyr", "ggplot2", "lme4", "readr"))
library(dplyr, warn.conflicts = FALSE)
library(ggplot2)
library(lme4)
library(readr)

arguments <- commandArgs(trailingOnly = TRUE)
file <- arguments[1]
if (is.na(file)) file <- "surprisals.csv"
delimiter <- if (grepl("[.]tsv$", file)) "\t" else ","
surprisals <- read_delim(file, delimiter, show_col_types = FALSE, name_repair = "unique_quiet")

# The column with a name: as it stands, or else in another case.
found <- function(name) {
  place <- c(which(names(surprisals) == name), which(tolower(names(surprisals)) == tolower(name)))
  if (length(place) == 0) {
    stop(file, ": no column ", name, " (there are ", paste(names(surprisals), collapse = ", "), ")", call. = FALSE)
  }
  surprisals[[place[1]]]
}
has <- function(name) tolower(name) %in% tolower(names(surprisals))
factors <- if (length(arguments) > 2) arguments[-(1:2)] else "condition"
levels_of <- lapply(factors, function(name) {
  cells <- as.character(found(name))
  factor(cells, levels = unique(cells[!is.na(cells)]))  # the first one is the reference, as in pdtools
})
ours <- c("model", "item", "region", "surprisal", "crossing", "cell")
names(levels_of) <- make.unique(c(ours, make.names(factors)))[-seq_along(ours)]
surprisals <- tibble(
  model = factor(found("model")),
  item = factor(found("item")),
  region = if (has("region")) as.character(found("region")) else "1",  # else whole sentences
  surprisal = found("surprisal") / (if (has("unit")) ifelse(found("unit") == "nats", log(2), 1) else 1),  # bits
  crossing = found("crossing"),
  cell = interaction(levels_of, sep = ", ", lex.order = TRUE),
  !!!levels_of
)

# Means with 95% intervals over items (within models), by region and condition.
means <- surprisals |>
  filter(!is.na(surprisal), !is.na(item), !is.na(cell)) |>  # fillers may have none
  group_by(model, cell, region) |>
  summarise(
    bits = mean(surprisal),
    error = if (n() > 1) qt(.975, n() - 1) * sd(surprisal) / sqrt(n()) else NA,  # one item has no interval
    .groups = "drop"
  )

apart <- position_dodge(width = .15)
figure <- ggplot(means, aes(factor(region, unique(surprisals$region)), bits, colour = cell, group = cell)) +
  geom_line(position = apart) +
  geom_point(position = apart) +
  geom_linerange(aes(ymin = bits - error, ymax = bits + error), position = apart, na.rm = TRUE) +
  facet_wrap(~model) +
  labs(x = "region", y = "surprisal (bits)", colour = paste(factors, collapse = ", ")) +
  theme_minimal()
ggsave("surprisals.pdf", figure, width = 7, height = 3.5)

# The effects at one region, with items as random intercepts, for each model. Of a factor of two levels, codes
# of -1/2 and 1/2 make a main effect the difference of its levels, averaged over those of the others.
regions <- unique(surprisals$region)
critical <- arguments[2]
if (is.na(critical)) {
  critical <- regions[min(2, length(regions))]
  cat("no region is given: the effect is that at region", critical, "\n")
}
if (!critical %in% regions) {
  stop("no region ", critical, ": there are ", paste(regions, collapse = ", "), call. = FALSE)
}
terms <- names(levels_of)
formula <- reformulate(c(paste(sprintf("`%s`", terms), collapse = " * "), "(1 | item)"), "surprisal")
for (name in levels(surprisals$model)) {
  own <- surprisals |>
    filter(model == name, region == critical, crossing == 0, !is.na(surprisal), !is.na(cell)) |>
    droplevels()
  cat("\n", name, "\n", sep = "")
  if (n_distinct(own$item) < 2 || any(sapply(own[terms], nlevels) < 2)) {
    cat("one item or one condition: nothing to fit\n")
    next
  }
  if (length(terms) > 1) {
    for (term in terms) {
      codes <- contr.treatment(levels(own[[term]]))
      contrasts(own[[term]]) <- codes - 1 / nrow(codes)
    }
  }
  print(summary(lmer(formula, data = own))$coefficients)
}
