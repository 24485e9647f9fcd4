/* A step of the nondeterministic stack (stacks/nondeterministic_run.py, which has the equations) and its backward
   pass, for strings first to last - 1 of the batch, on one core. Compiled by stacks/nondeterministic.py.

   What takes time are sums of the rows of P's matrices and dot products with them. TOGETHER of them are read at a time, in
   the order in which they lie in memory, as far as the longest of them goes, in whole vectors: so a shorter one has zeros
   behind it, (TOGETHER - 1) C + LANES or up to its end, and what is summed or multiplied has room for LANES more. Where
   rows begin at multiples of LINE, no vector lies in two lines of the cache. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX512F__)
#define LANES 8
#elif defined(__AVX__)
#define LANES 4
#else
#define LANES 2
#endif
/* Bytes of a line of the cache. */
#define LINE 64
/* Rows, and sums or factors, that are taken together: what belongs to them is in registers. */
#define TOGETHER 4
#define INLINE static inline __attribute__((always_inline))

typedef double vector __attribute__((vector_size(8 * LANES), aligned(8), may_alias));

typedef struct {
    long states, symbols;
    long time, first;        /* t and the first i of P[i -> t] */
    long times;              /* that there is room for in all_pops and d_alpha */
    long later;              /* backward: 1 + the last time whose pops may have read P[. -> t] */
    long next;               /* backward: of how many last i the step after this one left gradients in d_column */
    long by_matrix, by_row;  /* how far apart matrices and rows of columns and d_columns lie */
    long by_kind;            /* how far apart rows of d_column lie */
    long unnormalized, states_in_reading;
    double smallest, farthest; /* SMALLEST and FARTHEST */
    const double *logits;      /* (B, C, 2C + Q), the actions */
    const double *last_alpha;  /* (B, C), of the time before */
    double *weights;           /* (B, C, 2C + Q), the transitions'; or 0 where unnormalized */
    double *scaled;            /* the same times α, over the heaviest */
    double *log_factor;        /* (B), the logarithm of the heaviest */
    double *columns;           /* (B · S, … Q, … C) */
    double *all_pops;          /* (B · S, times, times, Q, Q), or 0 */
    double *alpha, *inverse;   /* (B, C) */
    double *total;             /* (B) */
    double *reading;           /* (B, C or S) */
    /* The backward pass: gradients. */
    const double *d_reading;
    double *d_columns;         /* as columns */
    double *d_alpha;           /* (B, times · C) */
    double *d_column;          /* (B, C, by_kind): of P[. -> t], then of P[. -> t - 1], from its first i on */
    double *d_logits;
} stack;

static long in_vectors(long number) { return (number + LANES - 1) / LANES * LANES; }

/* out[r] += Σ_m factors[m · by_factor + r] rows[m], r < n, m < number: constants where this is called. */
INLINE void add_rows(
    const int n, const int number, long length, const double *rows, long by_row, const double *factors, long by_factor,
    double *out, long by_out
) {
    vector factor[TOGETHER][TOGETHER];
    for (int m = 0; m < number; m++)
        for (int r = 0; r < n; r++) factor[m][r] = factors[m * by_factor + r] - (vector){0};
    for (long j = 0; j < length; j += LANES) {
        vector row[TOGETHER];
        for (int m = 0; m < number; m++) row[m] = *(const vector *)(rows + m * by_row + j);
        for (int r = 0; r < n; r++) {
            vector sum = *(vector *)(out + r * by_out + j);
            for (int m = 0; m < number; m++) sum += factor[m][r] * row[m];
            *(vector *)(out + r * by_out + j) = sum;
        }
    }
}

/* out[m · by_out + r] = given[r] · rows[m], r < n, m < number: constants where this is called. */
INLINE void dot_rows(
    const int n, const int number, long length, const double *rows, long by_row, const double *given, long by_given,
    double *out, long by_out
) {
    vector sum[TOGETHER][TOGETHER];
    for (int m = 0; m < number; m++)
        for (int r = 0; r < n; r++) sum[m][r] = (vector){0};
    for (long j = 0; j < length; j += LANES)
        for (int m = 0; m < number; m++) {
            const vector row = *(const vector *)(rows + m * by_row + j);
            for (int r = 0; r < n; r++) sum[m][r] += row * *(const vector *)(given + r * by_given + j);
        }
    for (int m = 0; m < number; m++)
        for (int r = 0; r < n; r++) {
            double dot = 0;
            for (int lane = 0; lane < LANES; lane++) dot += sum[m][r][lane];
            out[m * by_out + r] = dot;
        }
}

/* Those two for any number of both. Rows are `length` long, or, where step is not 0, the first `of_each` rows are step
   numbers long, the next ones 2 · step, and so on. */
#define FOR_ROWS(NAME, CALL)                                                                                       \
    static void NAME(                                                                                              \
        long n, long number, long length, const double *rows, long by_row, const double *factors, long by_factor,  \
        double *out, long by_out, long of_each, long step                                                          \
    ) {                                                                                                            \
        for (long m = 0, now; m < number; m += now) {                                                              \
            now = number - m < TOGETHER ? 1 : TOGETHER;                                                            \
            const long numbers = in_vectors(step ? step * (1 + (m + now - 1) / of_each) : length);                 \
            for (long r = 0; r < n; r += TOGETHER) switch (now == 1 ? r - n : n - r) {                             \
                case 1: CALL(1, TOGETHER); break;                                                                  \
                case 2: CALL(2, TOGETHER); break;                                                                  \
                case 3: CALL(3, TOGETHER); break;                                                                  \
                case -1: CALL(1, 1); break;                                                                        \
                case -2: CALL(2, 1); break;                                                                        \
                case -3: CALL(3, 1); break;                                                                        \
                default:                                                                                           \
                    if (now == 1) CALL(TOGETHER, 1);                                                               \
                    else CALL(TOGETHER, TOGETHER);                                                                 \
                }                                                                                                  \
        }                                                                                                          \
    }

/* factors (number, by_factor) of rows, out (n, by_out). */
#define ADD(N, M)                                                                                                  \
    add_rows(                                                                                                      \
        N, M, numbers, rows + m * by_row, by_row, factors + m * by_factor + r, by_factor, out + r * by_out, by_out \
    )
FOR_ROWS(add_all_rows, ADD)

/* factors (n, by_factor), as long as the longest row, out (number, by_out). */
#define DOT(N, M)                                                                                                  \
    dot_rows(                                                                                                      \
        N, M, numbers, rows + m * by_row, by_row, factors + r * by_factor, by_factor, out + m * by_out + r, by_out \
    )
FOR_ROWS(dot_all_rows, DOT)

static long readings_of(const stack *a) { return a->states_in_reading ? a->states * a->symbols : a->symbols; }

static long actions_of(const stack *a) {
    return a->states * a->symbols * (2 * a->states * a->symbols + a->states);
}

/* NaN where one of them is. */
static double larger(double x, double y) { return y > x || y != y ? y : x; }

/* Where the rows of P[. -> time], (Q, …), with symbol y on top begin. */
static double *rows_of(const stack *a, double *columns, long b, long y, long time) {
    return columns + (b * a->symbols + y) * a->by_matrix + time * a->states * a->by_row + a->first * a->states * a->symbols;
}

/* Weights of pops that uncover time k, at time t and from there on: (…, Q after it, Q uncovered). */
static double *pops_of(const stack *a, long b, long y, long k, long t) {
    return a->all_pops + (((b * a->symbols + y) * a->times + k) * a->times + t) * a->states * a->states;
}

/* Weights of the transitions from each configuration, as exponentials of their logits. The heaviest of those from where
   the automaton may be gets weight 1: a factor of all runs. */
static void weigh(const stack *a, long b) {
    const long c = a->states * a->symbols, kinds = 2 * c + a->states;
    const double *logits = a->logits + b * c * kinds, *alpha = a->last_alpha + b * c;
    double *scaled = a->scaled + b * c * kinds, heaviest = -INFINITY;
    for (long from = 0; from < c; from++, logits += kinds) {
        double most = logits[0], sum = 0;
        for (long kind = 1; kind < kinds; kind++) most = larger(most, logits[kind]);
        double log_sum = 0;
        if (!a->unnormalized) {
            for (long kind = 0; kind < kinds; kind++) sum += exp(logits[kind] - most);
            log_sum = most + log(sum);
            double *weights = a->weights + (b * c + from) * kinds;
            for (long kind = 0; kind < kinds; kind++) weights[kind] = exp(logits[kind] - log_sum);
        }
        for (long kind = 0; kind < kinds; kind++) scaled[from * kinds + kind] = logits[kind] - log_sum;
        heaviest = larger(heaviest, most - log_sum + log(alpha[from]));
    }
    a->log_factor[b] = heaviest;
    for (long from = 0; from < c; from++)
        for (long kind = 0; kind < kinds; kind++) {
            double *weight = scaled + from * kinds + kind;
            const double relative = *weight - heaviest, within = relative < -a->farthest ? -a->farthest : relative;
            *weight = alpha[from] * exp(within > a->farthest ? a->farthest : within);
        }
}

/* Of numbers with zeros behind them, to the end of a vector. */
static double sum_of(long length, const double *numbers) {
    vector sum = {0};
    double all = 0;
    for (long j = 0; j < length; j += LANES) sum += *(const vector *)(numbers + j);
    for (int lane = 0; lane < LANES; lane++) all += sum[lane];
    return all;
}

/* G[. -> t], then P[. -> t]. column (C, width) and popped (Q, width) and what follows them are zero; factors has
   Q² (t - first) numbers of room. */
static void forward_row(const stack *a, long b, long width, double *column, double *popped, double *factors) {
    const long q = a->states, s = a->symbols, c = q * s, t = a->time, first = a->first;
    const long kinds = 2 * c + q, length = (t - first) * c, before = length - c;
    const double *scaled = a->scaled + b * c * kinds;
    weigh(a, b);
    for (long y = 0; y < s && before; y++) {
        const double *previous = rows_of(a, a->columns, b, y, t - 1), *weights = scaled + y * q * kinds + c;
        add_all_rows(c, q, before, previous, a->by_row, weights, kinds, column, width, 0, 0); /* replace */
        add_all_rows(q, q, before, previous, a->by_row, weights + c, kinds, popped, width, 0, 0); /* γ' */
    }
    for (long y = 0; y < s && before > c; y++) {
        double *weights = factors;
        for (long k = first + 1; k < t - 1; k++, weights += q * q) {
            double *kept = a->all_pops ? pops_of(a, b, y, k, t) : 0;
            for (long r = 0; r < q; r++)
                for (long u = 0; u < q; u++) {
                    const double weight = popped[r * width + (k - first) * c + y * q + u];
                    weights[u * q + r] = weight;
                    if (kept) *kept++ = weight;
                }
        }
        const double *rows = rows_of(a, a->columns, b, y, first + 1);
        add_all_rows(q, (t - first - 2) * q, 0, rows, a->by_row, factors, q, column + y * q * width, width, q, c);
    }
    double total = 0, sum[c];
    for (long to = 0; to < c; to++) {
        double *share = column + to * width;
        for (long from = 0; from < c; from++) share[before + from] = scaled[from * kinds + to]; /* push */
        sum[to] = sum_of(length, share);
        total += sum[to];
    }
    a->total[b] = total;
    for (long to = 0; to < c; to++) {
        const double *share = column + to * width, alpha = sum[to] / total;
        const double inverse = alpha > a->smallest ? 1 / sum[to] : 0;
        double *row = rows_of(a, a->columns, b, to / q, t) + to % q * a->by_row;
        a->alpha[b * c + to] = alpha;
        a->inverse[b * c + to] = inverse;
        for (long j = 0; j < length; j++) {
            const double each = share[j] * inverse;
            row[j] = each <= a->smallest ? 0 : each;
        }
        /* Later steps read that much further, if there is as much of the row. */
        const long rest = a->by_row - first * c - length, zeros = (TOGETHER - 1) * c + LANES;
        memset(row + length, 0, (size_t)(rest < zeros ? rest : zeros) * sizeof(double));
    }
    double *reading = a->reading + b * readings_of(a);
    for (long to = 0; to < readings_of(a); to++) reading[to] = 0;
    for (long to = 0; to < c; to++) reading[a->states_in_reading ? to : to / q] += a->alpha[b * c + to];
}

/* gradient (C + Q, width) is zero; factors has Q² times numbers of room, and (C + Q) C. */
static void backward_row(const stack *a, long b, long width, double *gradient, double *factors) {
    const long q = a->states, s = a->symbols, c = q * s, t = a->time, first = a->first;
    const long kinds = 2 * c + q, length = (t - first) * c, before = length - c, later = a->later - (t + 2);
    const double *scaled = a->scaled + b * c * kinds;
    const double *d_reading = a->d_reading + b * readings_of(a);
    double *d_scaled = a->d_logits + b * c * kinds, *d_alpha = a->d_alpha + b * a->times * c;
    double *d_column = a->d_column + b * c * a->by_kind;
    double mean = 0;
    for (long to = 0; to < c; to++) mean += a->alpha[b * c + to] * d_reading[a->states_in_reading ? to : to / q];

    /* Of P[. -> t]: by α of time t, by the next step, and, gathered, by later pops. */
    for (long to = 0; to < c; to++) {
        const double by_reading = a->alpha[b * c + to] * (d_reading[a->states_in_reading ? to : to / q] - mean);
        const double alpha = d_alpha[t * c + to] + by_reading;
        const double *share = rows_of(a, a->columns, b, to / q, t) + to % q * a->by_row;
        double *out = gradient + to * width;
        for (long j = 0; j < length; j++) {
            d_alpha[first * c + j] += alpha * share[j];
            out[j] = alpha;
        }
        for (long j = 0; j < a->next * c; j++) out[length - a->next * c + j] += d_column[to * a->by_kind + j];
    }
    for (long y = 0; y < s && later > 0; y++) {
        const double *rows = rows_of(a, a->d_columns, b, y, t + 2), *pops = pops_of(a, b, y, t, t + 2);
        add_all_rows(q, later * q, length, rows, a->by_row, pops, q, gradient + y * q * width, width, 0, 0);
    }
    /* Of G[. -> t]. Gradients of its last numbers, the pushes, are taken away. */
    for (long to = 0; to < c; to++) {
        double *out = gradient + to * width, *row = rows_of(a, a->d_columns, b, to / q, t) + to % q * a->by_row;
        for (long j = 0; j < length; j++) row[j] = out[j] *= a->inverse[b * c + to];
        for (long from = 0; from < c; from++) d_scaled[from * kinds + to] = out[before + from];
        memset(out + before, 0, (size_t)(width - before) * sizeof(double));
    }

    /* Of the products that give replacements and γ', and through them. */
    double *by_pops = gradient + c * width;
    for (long y = 0; y < s && before > c; y++) {
        const double *rows = rows_of(a, a->columns, b, y, first + 1);
        dot_all_rows(q, (t - first - 2) * q, 0, rows, a->by_row, gradient + y * q * width, width, factors, q, q, c);
        const double *of = factors;
        for (long k = first + 1; k < t - 1; k++)
            for (long u = 0; u < q; u++)
                for (long r = 0; r < q; r++) by_pops[r * width + (k - first) * c + y * q + u] = *of++;
    }
    for (long from = 0; from < c; from++) {
        for (long kind = 0; kind < c + q; kind++) factors[kind * c + from] = scaled[from * kinds + c + kind];
        memset(d_column + from * a->by_kind, 0, (size_t)in_vectors(before) * sizeof(double));
    }
    add_all_rows(c, c + q, before, gradient, width, factors, c, d_column, a->by_kind, 0, 0);
    for (long y = 0; y < s; y++) {
        const double *previous = rows_of(a, a->columns, b, y, t - 1);
        dot_all_rows(
            c + q, q, before, previous, a->by_row, gradient, width, d_scaled + y * q * kinds + c, kinds, 0, 0
        );
    }

    for (long from = 0; from < c; from++) {
        double *d_logits = d_scaled + from * kinds, sum = 0;
        for (long kind = 0; kind < kinds; kind++) sum += d_logits[kind] *= scaled[from * kinds + kind];
        if (a->unnormalized) continue;
        const double *weights = a->weights + (b * c + from) * kinds;
        for (long kind = 0; kind < kinds; kind++) d_logits[kind] -= weights[kind] * sum;
    }
}

/* Numbers of room that a row and time take: zeros, before the others. */
static long sums_of(const stack *a, long *width) {
    *width = in_vectors((a->time - a->first) * a->states * a->symbols) + LANES;
    return (a->states * a->symbols + a->states) * *width;
}

static void forward_step(const stack *a, long b, double *memory) {
    long width;
    const long sums = sums_of(a, &width);
    memset(memory, 0, (size_t)sums * sizeof(double));
    forward_row(a, b, width, memory, memory + a->states * a->symbols * width, memory + sums);
}

static void backward_step(const stack *a, long b, double *memory) {
    long width;
    const long sums = sums_of(a, &width);
    memset(memory, 0, (size_t)sums * sizeof(double));
    backward_row(a, b, width, memory, memory + sums);
}

/* Room for either, behind extra numbers, whole vectors; 0 where there is no memory. */
static double *room_for_step(const stack *a, long extra) {
    long width;
    const long q = a->states, c = q * a->symbols, sums = sums_of(a, &width);
    const size_t bytes = (size_t)(sums + q * q * a->times + (c + q) * c + extra) * sizeof(double);
    return aligned_alloc(LINE, (bytes + LINE - 1) / LINE * LINE);
}

/* 0 where there is no memory. */
int forward(const stack *a, long first, long last) {
    double *memory = room_for_step(a, 0);
    if (!memory) return 0;
    for (long b = first; b < last; b++) forward_step(a, b, memory);
    free(memory);
    return 1;
}

int backward(const stack *a, long first, long last) {
    double *memory = room_for_step(a, 0);
    if (!memory) return 0;
    for (long b = first; b < last; b++) backward_step(a, b, memory);
    free(memory);
    return 1;
}

/* --- A whole sequence, with an LSTM for a controller, from an empty stack on: one row after the other, so that what
   belongs to a row stays in the cache from step to step. --- */

typedef struct {
    stack stack;       /* time and times are those of the last step; arrays of steps are (B, T, …), of time 0 to T - 1 */
    long steps, width; /* T and H */
    const double *recurrent, *recurrent_across;          /* (4H, H + R) and transposed */
    const double *action, *action_across, *action_bias;  /* (A, H), transposed, and (A) */
    double *gates;              /* (B, T, 4H): input, forget, output, cell; at first what the inputs add to them */
    double *hidden, *memory;    /* (B, T + 1, H), from before the first step on */
    const double *d_hidden;     /* (B, T, H) */
    double *d_inputs;           /* (B, T, 4H) */
} sequence;

/* The stack of row b, as if it were the only one, for its step to a time. */
static stack step_of(const sequence *a, long b, long time, double *columns) {
    stack now = a->stack;
    const long c = now.states * now.symbols, at = b * a->steps + time, side = now.times * now.states;
    now.time = time;
    now.columns = columns;
    if (now.all_pops) now.all_pops += b * now.symbols * side * side;
    now.scaled += at * actions_of(&now);
    if (now.weights) now.weights += at * actions_of(&now);
    now.last_alpha = time ? now.alpha + (at - 1) * c : 0;
    now.alpha += at * c;
    now.inverse += at * c;
    now.log_factor += b;
    now.total += b;
    now.reading += at * readings_of(&now);
    return now;
}

/* out[j] += Σ_m factors[m] rows[m][j] */
static void add_product(long length, long number, const double *rows, const double *factors, double *restrict out) {
    for (long m = 0; m < number; m++, rows += length)
        for (long j = 0; j < length; j++) out[j] += factors[m] * rows[j];
}

static void sequence_forward_row(const sequence *a, long b, double *columns, double *logits, double *room) {
    const long h = a->width, readings = readings_of(&a->stack), actions = actions_of(&a->stack);
    double *hidden = a->hidden + b * (a->steps + 1) * h, *memory = a->memory + b * (a->steps + 1) * h;
    for (long t = 0; t < a->steps; t++, hidden += h, memory += h) {
        stack now = step_of(a, b, t, columns);
        if (t == 0) { /* empty */
            memset(now.alpha, 0, (size_t)(now.states * now.symbols) * sizeof(double));
            memset(now.reading, 0, (size_t)readings * sizeof(double));
            now.alpha[0] = now.reading[0] = 1;
        } else {
            memcpy(logits, a->action_bias, (size_t)actions * sizeof(double));
            add_product(actions, h, a->action_across, hidden, logits);
            now.logits = logits;
            forward_step(&now, 0, room);
        }
        double *gates = a->gates + (b * a->steps + t) * 4 * h;
        add_product(4 * h, h, a->recurrent_across, hidden, gates);
        add_product(4 * h, readings, a->recurrent_across + h * 4 * h, now.reading, gates);
        for (long j = 0; j < 3 * h; j++) gates[j] = 1 / (1 + exp(-gates[j]));
        for (long j = 3 * h; j < 4 * h; j++) gates[j] = tanh(gates[j]);
        for (long j = 0; j < h; j++) {
            memory[h + j] = gates[h + j] * memory[j] + gates[j] * gates[3 * h + j];
            hidden[h + j] = gates[2 * h + j] * tanh(memory[h + j]);
        }
    }
}

/* gradients has d_columns, d_alpha and d_column of the row; d_hidden (H) and d_memory (H) are zero, d_joined (H + R) is
   anything. */
static void sequence_backward_row(
    const sequence *a, long b, const stack *gradients, double *d_hidden, double *d_memory, double *d_joined, double *room
) {
    const long h = a->width, joined = h + readings_of(gradients), actions = actions_of(gradients);
    double *columns = a->stack.columns + b * gradients->symbols * gradients->by_matrix;
    long next = 0;
    for (long t = a->steps - 1; t >= 0; t--) {
        const long at = b * a->steps + t;
        const double *gates = a->gates + at * 4 * h, *memory = a->memory + (at + b) * h;
        double *d_gates = a->d_inputs + at * 4 * h;
        for (long j = 0; j < h; j++) {
            const double in = gates[j], forget = gates[h + j], out = gates[2 * h + j], cell = gates[3 * h + j];
            const double squashed = tanh(memory[h + j]), d = d_hidden[j] + a->d_hidden[at * h + j];
            const double d_cell = d_memory[j] + d * out * (1 - squashed * squashed);
            d_gates[j] = d_cell * cell * in * (1 - in);
            d_gates[h + j] = d_cell * memory[j] * forget * (1 - forget);
            d_gates[2 * h + j] = d * squashed * out * (1 - out);
            d_gates[3 * h + j] = d_cell * in * (1 - cell * cell);
            d_memory[j] = d_cell * forget;
        }
        memset(d_joined, 0, (size_t)joined * sizeof(double));
        add_product(joined, 4 * h, a->recurrent, d_gates, d_joined);
        memcpy(d_hidden, d_joined, (size_t)h * sizeof(double));
        if (t == 0) break;
        stack now = step_of(a, b, t, columns);
        now.d_columns = gradients->d_columns;
        now.d_alpha = gradients->d_alpha;
        now.d_column = gradients->d_column;
        now.by_kind = gradients->by_kind;
        now.d_reading = d_joined + h;
        now.d_logits = a->stack.d_logits + at * actions;
        now.later = a->steps;
        now.next = next;
        backward_step(&now, 0, room);
        next = t - 1;
        add_product(h, actions, a->action, now.d_logits, d_hidden);
    }
}

int sequence_forward(const sequence *a, long first, long last) {
    const long in_columns = a->stack.symbols * a->stack.by_matrix, actions = in_vectors(actions_of(&a->stack));
    const int keep = a->stack.columns != 0;
    double *memory = room_for_step(&a->stack, actions + (keep ? 0 : in_columns));
    if (!memory) return 0;
    for (long b = first; b < last; b++) {
        double *columns = keep ? a->stack.columns + b * in_columns : memory + actions;
        sequence_forward_row(a, b, columns, memory, memory + actions + (keep ? 0 : in_columns));
    }
    free(memory);
    return 1;
}

int sequence_backward(const sequence *a, long first, long last) {
    const long c = a->stack.states * a->stack.symbols, h = a->width, by_kind = in_vectors(a->steps * c) + LANES;
    const long in_columns = a->stack.symbols * a->stack.by_matrix, joined = in_vectors(h + readings_of(&a->stack));
    const long zero = in_vectors(2 * h + a->steps * c), extra = zero + joined + in_columns + c * by_kind;
    double *memory = room_for_step(&a->stack, extra);
    if (!memory) return 0;
    for (long b = first; b < last; b++) {
        stack gradients = a->stack;
        double *d_joined = memory + zero;
        gradients.d_alpha = memory + 2 * h;
        gradients.d_columns = d_joined + joined;
        gradients.d_column = gradients.d_columns + in_columns;
        gradients.by_kind = by_kind;
        memset(memory, 0, (size_t)zero * sizeof(double));
        sequence_backward_row(a, b, &gradients, memory, memory + h, d_joined, memory + extra);
    }
    free(memory);
    return 1;
}
