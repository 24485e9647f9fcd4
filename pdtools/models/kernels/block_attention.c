/* Causal attention with score terms (block_attention.py) on one core, tile by tile: TILE rows of one head with all
   the keys that they see, whose scores stay in the cache. Compiled by native_attention.py, for 32-bit numbers or,
   with -DDOUBLE, for 64-bit ones.

   score(i, j) = scale (q_i·k_j + u·k_j + (q_i + v)·r_{i-j} + q_i·e[tape_ij] - slope open_ij + bias_ij), j <= i
   or, of several tapes, (q_i + u)·e[tape_ij] of each of them, in one table.

   What is read of a sentence and head is copied first, as rows that are padded with zeros to whole vectors. Keys,
   values and distances are also copied transposed ("across"), so that neighbouring keys lie side by side.

   Scores by distance are the same memory read otherwise: row i begins one column before the row above it, so the
   step from row to row is one number more. What is then read to the left of a row is a margin of zeros. To the right
   of a tile's last column it is anything: that goes to distances that there are not, which nobody reads. `width` is
   that of the columns with both margins. */

#include "numbers.h"

#define TILE 16 /* rows */
#define DEPTHS 256 /* that a byte tells apart */

typedef struct {
    long batch, heads, n, d, parts;
    long by_sentence, by_head, by_row; /* how far apart sentences, heads and rows of q, k and v lie */
    long depths, tapes;
    double scale, dropout;
    uint64_t seed;
    /* In the order of block_attention.py. A term that there is not is 0. */
    const real *q, *k, *v;                               /* (batch, heads, n, d), strided */
    const real *content_bias, *position_bias, *distance; /* (heads, d) twice, (heads, n, d) farthest first */
    const real *table;                                   /* (heads, depths, d) */
    const uint8_t *tape;                                 /* (batch, tapes, n, n), 1 or 3 tapes */
    const real *slopes;                                  /* (heads) */
    const int16_t *open;                                 /* (batch, n, n) */
    const real *bias;                                    /* (heads, n, n) */
    const int32_t *innermost;                            /* (batch, n) */
    real *mixed;                                         /* (batch, n, heads, d): what attention gives */
    real *softmax;                                       /* (batch, heads, n, 2): each row's maximum and 1 / sum */
    const real *grad;                                    /* (batch, n, heads, d), of mixed */
    real *grad_qkv;                                      /* (batch, n, 3, heads, d) */
    /* As those, but (parts, heads, …); all zero: see `backward`. */
    real *grad_content_bias, *grad_position_bias, *grad_distance, *grad_table, *grad_slopes;
} attention;

typedef struct {
    long d, n, width; /* d in whole vectors, n in whole tiles, and how far apart rows of scores and columns lie */
    /* Of one sentence and head, or of one head: rows (n, d), columns (d, n), gradients of rows, and the table's. */
    real *q, *q_content, *q_distance, *k, *v, *r, *grad;
    real *k_across, *v_across, *r_across, *table_across;
    real *sum_k, *sum_v, *sum_r;
    real *means; /* of the gradients of each row's weights, (n) */
    real *table, *sum_table;
    /* Of a tile: by key or depth, (TILE, width), and what they come to, (TILE, d). */
    real *scores, *weights, *by_depth;
    real *mixed, *by_distance, *from_depths;
    real *factors, *depth_sums; /* of a row: dropout's, and eight sums a depth */
    real *bias_sums;            /* of a sentence: the gradients of both biases, (2, d) */
    real *memory;
} workspace;

/* Every part's length is a multiple of the vectors', and so is where it begins. */
static int workspace_made(workspace *w, const attention *a) {
    w->d = in_whole(a->d, LANES);
    w->n = in_whole(a->n, TILE);
    w->width = (w->n > a->depths ? w->n : in_whole(a->depths, TILE)) + 4 * TILE; /* a TILE left, three right */
    const long rows = (w->n + TILE) * w->d, across = w->d * w->width, tile = TILE * w->width, some = TILE * w->d;
    const long depths = in_whole(a->depths, TILE);
    real **parts[] = {&w->q, &w->q_content, &w->q_distance, &w->k, &w->v, &w->r, &w->grad,
                      &w->k_across, &w->v_across, &w->r_across, &w->table_across,
                      &w->sum_k, &w->sum_v, &w->sum_r, &w->means,
                      &w->table, &w->sum_table,
                      &w->scores, &w->weights, &w->by_depth,
                      &w->mixed, &w->by_distance, &w->from_depths,
                      &w->factors, &w->depth_sums, &w->bias_sums};
    const long sizes[] = {rows, rows, rows, rows, rows, rows, rows,
                          across, across, across, across,
                          rows, rows, rows, w->n,
                          depths * w->d, depths * w->d,
                          tile, tile, tile,
                          some, some, some,
                          w->width, 8 * DEPTHS, 2 * w->d};
    const long number = sizeof(sizes) / sizeof(*sizes);
    long all = 0;
    for (long p = 0; p < number; p++) all += sizes[p];
    w->memory = calloc(all + LANES, sizeof(real));
    if (!w->memory) return 0;
    real *next = (real *)(((uintptr_t)w->memory + BYTES - 1) / BYTES * BYTES);
    for (long p = 0; p < number; p++) {
        *parts[p] = next;
        next += sizes[p];
    }
    return 1;
}

/* --- products ---------------------------------------------------------------------------------------- */

#if BYTES == 64 /* as many sums as these processors have registers for */
#define ROWS 8
#else
#define ROWS 4
#endif

/* ROWS rows of score_rows, from column j on, for one or two vectors of columns. */
INLINE void score_some(
    const workspace *w, long j, const long vectors, const real *rows, const real *columns, long step, int adds,
    real *out
) {
    vector sum[ROWS][2];
    for (long i = 0; i < ROWS; i++)
        for (long at = 0; at < vectors; at++)
            sum[i][at] = adds ? OF(out + i * w->width + j + at * LANES) : (vector){0};
    for (long c = 0; c < w->d; c++)
        for (long i = 0; i < ROWS; i++) {
            const real factor = rows[i * w->d + c];
            const real *x = columns + c * w->width + i * step + j;
            for (long at = 0; at < vectors; at++) sum[i][at] += factor * OF(x + at * LANES);
        }
    for (long i = 0; i < ROWS; i++)
        for (long at = 0; at < vectors; at++) AT(out + i * w->width + j + at * LANES) = sum[i][at];
}

/* out (TILE, …) = or += rows (TILE, d) times columns (d, …) begin to end - 1, of which row i begins i * step later. */
INLINE void score_rows(
    const workspace *w, long begin, long end, const real *rows, const real *columns, long step, int adds, real *out
) {
    long j = begin;
    for (; j + 2 * LANES <= end; j += 2 * LANES)
        for (long row = 0; row < TILE; row += ROWS)
            score_some(w, j, 2, rows + row * w->d, columns + row * step, step, adds, out + row * w->width);
    for (long row = 0; j < end && row < TILE; row += ROWS)
        score_some(w, j, 1, rows + row * w->d, columns + row * step, step, adds, out + row * w->width);
}

/* Eight rows of out = or += the sum over `terms` of factors[i * by_row + t * by_term] times row t of x, from column c
   on, for one or two vectors of columns. */
INLINE void sum_some(
    const workspace *w, long c, const long vectors, long terms, const real *factors, long by_row, long by_term,
    const real *x, int adds, real *out
) {
    vector sum[8][2];
    for (long i = 0; i < 8; i++)
        for (long at = 0; at < vectors; at++)
            sum[i][at] = adds ? OF(out + i * w->d + c + at * LANES) : (vector){0};
    for (long t = 0; t < terms; t++)
        for (long at = 0; at < vectors; at++) {
            const vector from = OF(x + t * w->d + c + at * LANES);
            for (long i = 0; i < 8; i++) sum[i][at] += factors[i * by_row + t * by_term] * from;
        }
    for (long i = 0; i < 8; i++)
        for (long at = 0; at < vectors; at++) AT(out + i * w->d + c + at * LANES) = sum[i][at];
}

/* All columns of such sums, for `rows` rows; rows of factors and of out lie side by side. */
INLINE void sum_rows(
    const workspace *w, const long rows, long terms, const real *factors, long by_row, long by_term, const real *x,
    int adds, real *out
) {
    long c = 0;
    if (BYTES == 64) /* 16 sums: so many registers only these processors have */
        for (; c + 2 * LANES <= w->d; c += 2 * LANES)
            for (long row = 0; row < rows; row += 8)
                sum_some(w, c, 2, terms, factors + row * by_row, by_row, by_term, x, adds, out + row * w->d);
    for (; c < w->d; c += LANES)
        for (long row = 0; row < rows; row += 8)
            sum_some(w, c, 1, terms, factors + row * by_row, by_row, by_term, x, adds, out + row * w->d);
}

/* out (TILE, d) = the sum over keys from first to last of weights (rows are stride apart) times x (keys, d). */
INLINE void sum_over_keys(
    const workspace *w, long first, long last, const real *weights, long stride, const real *x, real *out
) {
    sum_rows(w, TILE, last + 1 - first, weights + first, stride, 1, x + first * w->d, 0, out);
}

/* out (keys, d) += the sum over a tile's rows of weights times x (TILE, d); up to seven keys more are written. */
INLINE void add_over_rows(
    const workspace *w, long first, long last, const real *weights, long stride, const real *x, real *out
) {
    for (long j = first; j <= last; j += 8) sum_rows(w, 8, TILE, weights + j, 1, stride, x, 1, out + j * w->d);
}

/* --- weights ----------------------------------------------------------------------------------------- */

/* The keys that the rows of a tile see: each those from first to last, of keys from begin, a whole number of tiles, to
   end - 1. Their depths are 0 to depths - 1: most tables go deeper than most trees. */
typedef struct {
    long first[TILE], last[TILE], begin, end, depths;
} range;

INLINE const uint8_t *tape_row(const attention *a, long b, long tape, long i) {
    return a->tape + ((b * a->tapes + tape) * a->n + i) * a->n;
}

INLINE void read_range(const attention *a, long b, long h, long row, range *seen) {
    const int is_all = a->distance || a->table || a->slopes || a->bias; /* whose loops are not narrowed */
    const long end = row + TILE < a->n ? row + TILE : a->n;
    seen->begin = is_all ? 0 : end;
    seen->end = is_all ? end : 0;
    for (long i = row; i < row + TILE; i++) {
        const long opener = a->innermost && h < 2 && i < end ? a->innermost[b * a->n + i] : 0;
        const long first = h == 1 && opener > 0 ? opener : 0, last = h == 0 && opener > 0 ? opener - 1 : i;
        seen->first[i - row] = i < end ? first : end;
        seen->last[i - row] = i < end ? last : end - 1;
        if (i < end && first < seen->begin) seen->begin = first;
        if (i < end && last >= seen->end) seen->end = last + 1;
    }
    seen->begin = seen->begin / TILE * TILE;
    uint8_t deepest = 0;
    for (long t = 0; a->table && t < a->tapes; t++) {
        const uint8_t *tape = tape_row(a, b, t, row);
        _Pragma("omp simd reduction(max : deepest)")
        for (long at = 0; at < (end - row) * a->n; at++) deepest = tape[at] > deepest ? tape[at] : deepest;
    }
    seen->depths = deepest + 1;
}

/* The queries that meet depths: those with a bias for several tapes only. */
INLINE const real *depth_queries(const attention *a, const workspace *w, long row) {
    return (a->content_bias && a->tapes == 1 ? w->q : w->q_content) + row * w->d;
}

/* Scores of a tile's rows from `row` on, where they see keys; elsewhere they may be anything. */
INLINE void tile_scores(const attention *a, workspace *w, long b, long h, long row, const range *seen, real *scores) {
    const long end = in_whole(seen->end, TILE);
    score_rows(w, seen->begin, end, w->q_content + row * w->d, w->k_across, 0, 0, scores);
    if (a->distance)
        score_rows(
            w, 0, end, w->q_distance + row * w->d, w->r_across + TILE + a->n - 1 - row, -1, 1, scores
        );
    if (a->table)
        score_rows(w, 0, in_whole(seen->depths, LANES), depth_queries(a, w, row), w->table_across, 0, 0, w->by_depth);
    for (long i = row; i < row + TILE && i < a->n; i++) {
        real *at = scores + (i - row) * w->width;
        const long cells = (b * a->n + i) * a->n;
        if (a->table) {
            const real *by_depth = w->by_depth + (i - row) * w->width;
            const uint8_t *tape = tape_row(a, b, 0, i);
            if (a->tapes == 3) {
                const uint8_t *second = tape_row(a, b, 1, i), *third = tape_row(a, b, 2, i);
                _Pragma("omp simd")
                for (long j = 0; j <= i; j++) at[j] += by_depth[tape[j]] + by_depth[second[j]] + by_depth[third[j]];
            } else {
                _Pragma("omp simd")
                for (long j = 0; j <= i; j++) at[j] += by_depth[tape[j]];
            }
        }
        if (a->slopes) {
            const real slope = a->slopes[h] * (real)a->scale;
            const int16_t *open = a->open + cells;
            _Pragma("omp simd")
            for (long j = 0; j <= i; j++) at[j] -= slope * open[j];
        }
        if (a->bias) {
            const real *bias = a->bias + (h * a->n + i) * a->n, scale = a->scale;
            _Pragma("omp simd")
            for (long j = 0; j <= i; j++) at[j] += scale * bias[j];
        }
    }
}

/* --- copies ------------------------------------------------------------------------------------------ */

/* One head's rows (n, d), a row by_row after the other, times a factor and plus a bias. */
static void copy_rows(
    const attention *a, const workspace *w, const real *from, long by_row, double factor, const real *bias, real *to
) {
    for (long i = 0; i < a->n; i++)
        for (long c = 0; c < a->d; c++)
            to[i * w->d + c] = (from[i * by_row + c] + (bias ? bias[c] : 0)) * (real)factor;
}

typedef real four __attribute__((vector_size(4 * sizeof(real)), aligned(4), may_alias));

/* The same rows transposed, TILE by TILE: so many lie in the cache. */
static void copy_across(const attention *a, const workspace *w, const real *from, long by_row, real *to) {
    for (long row = 0; row < a->n; row += TILE) {
        const long end = row + TILE < a->n ? row + TILE : a->n;
        long c = 0;
        for (; row + TILE <= a->n && c + 4 <= a->d; c += 4)
            for (long i = row; i < row + TILE; i += 4) {
                four x[4];
                for (long k = 0; k < 4; k++) x[k] = *(const four *)(from + (i + k) * by_row + c);
                for (long k = 0; k < 4; k++)
                    *(four *)(to + (c + k) * w->width + i) = (four){x[0][k], x[1][k], x[2][k], x[3][k]};
            }
        for (; c < a->d; c++)
            for (long i = row; i < end; i++) to[c * w->width + i] = from[i * by_row + c];
    }
}

static void copy_back(const workspace *w, long number, long d, const real *rows, long by_row, real *to) {
    for (long i = 0; i < number; i++) memcpy(to + i * by_row, rows + i * w->d, d * sizeof(real));
}

/* What is the same for all sentences. */
static void read_head(const attention *a, workspace *w, long h) {
    if (a->distance) {
        copy_rows(a, w, a->distance + h * a->n * a->d, a->d, 1, 0, w->r);
        copy_across(a, w, w->r, w->d, w->r_across + TILE);
    }
    for (long depth = 0; depth < a->depths; depth++)
        for (long c = 0; c < a->d; c++)
            w->table[depth * w->d + c] = w->table_across[c * w->width + depth] =
                a->table[(h * a->depths + depth) * a->d + c];
}

static void read_sentence(const attention *a, workspace *w, long b, long h, int backward) {
    const long at = b * a->by_sentence + h * a->by_head;
    const real *content = a->content_bias ? a->content_bias + h * a->d : 0;
    copy_rows(a, w, a->q + at, a->by_row, a->scale, content, w->q_content);
    if (a->table && content && a->tapes == 1) copy_rows(a, w, a->q + at, a->by_row, a->scale, 0, w->q);
    if (a->distance) copy_rows(a, w, a->q + at, a->by_row, a->scale, a->position_bias + h * a->d, w->q_distance);
    copy_across(a, w, a->k + at, a->by_row, w->k_across);
    if (backward) {
        copy_rows(a, w, a->k + at, a->by_row, 1, 0, w->k);
        copy_across(a, w, a->v + at, a->by_row, w->v_across);
    } else {
        copy_rows(a, w, a->v + at, a->by_row, 1, 0, w->v);
    }
}

/* Make scores after `keys` those of keys that are not seen, up to whole vectors from `first` on; return that end. Else
   the rest of a row would be computed number by number. */
INLINE long unseen_after(real *scores, long first, long keys) {
    const long end = first + in_whole(keys - first, LANES);
    for (long j = keys; j < end; j++) scores[j] = -INFINITY;
    return end;
}

/* --- the two passes ---------------------------------------------------------------------------------- */

static void forward_sentence(const attention *a, workspace *w, long b, long h) {
    read_sentence(a, w, b, h, 0);
    for (long row = 0; row < a->n; row += TILE) {
        real *tile = w->scores + TILE; /* after a margin */
        const long rows = row + TILE < a->n ? TILE : a->n - row;
        range seen;
        read_range(a, b, h, row, &seen);
        tile_scores(a, w, b, h, row, &seen, tile);
        for (long i = row; i < row + TILE; i++) {
            real *scores = tile + (i - row) * w->width;
            real most = -INFINITY, sum = 0;
            const long first = seen.first[i - row], keys = seen.last[i - row] + 1;
            for (long j = seen.begin; j < first; j++) scores[j] = 0;
            if (i >= row + rows) continue;
            const long whole = unseen_after(scores, first, keys);
            _Pragma("omp simd reduction(max : most)")
            for (long j = first; j < whole; j++) most = scores[j] > most ? scores[j] : most;
            _Pragma("omp simd reduction(+ : sum)")
            for (long j = first; j < whole; j++) {
                scores[j] = exponential(scores[j] - most);
                sum += scores[j];
            }
            for (long j = whole; j < seen.end; j++) scores[j] = 0;
            const long place = (b * a->heads + h) * a->n + i;
            const real factor = 1 / sum;
            a->softmax[2 * place] = most;
            a->softmax[2 * place + 1] = factor;
            if (a->dropout > 0) {
                multipliers(a->seed, a->dropout, place, keys, w->factors);
                for (long j = first; j < keys; j++) scores[j] *= factor * w->factors[j];
            } else {
                for (long j = first; j < keys; j++) scores[j] *= factor;
            }
        }
        sum_over_keys(w, seen.begin, seen.end - 1, tile, w->width, w->v, w->mixed);
        for (long i = row; i < row + rows; i++)
            memcpy(a->mixed + ((b * a->n + i) * a->heads + h) * a->d, w->mixed + (i - row) * w->d,
                   a->d * sizeof(real));
    }
}

/* The gradients of by_depth (TILE, …) from those of scores. */
INLINE void sum_by_depth(
    const attention *a, workspace *w, long b, long row, const range *seen, const real *scores
) {
    const long depths = in_whole(seen->depths, 8);
    for (long i = row; i < row + TILE; i++, scores += w->width) {
        real *sums = w->by_depth + (i - row) * w->width;
        memset(sums, 0, depths * sizeof(real));
        if (i >= a->n) continue;
        /* Eight sums in turn: neighbours mostly have the same depth, and would wait for each other. */
        for (long t = 0; t < a->tapes; t++) {
            const uint8_t *tape = tape_row(a, b, t, i);
            long j = 0;
            for (; j + 8 <= i + 1; j += 8)
                for (long part = 0; part < 8; part++) w->depth_sums[part * DEPTHS + tape[j + part]] += scores[j + part];
            for (; j <= i; j++) w->depth_sums[(j & 7) * DEPTHS + tape[j]] += scores[j];
        }
        for (long part = 0; part < 8; part++) {
            real *more = w->depth_sums + part * DEPTHS;
            _Pragma("omp simd")
            for (long depth = 0; depth < depths; depth++) {
                sums[depth] += more[depth];
                more[depth] = 0; /* for the next row */
            }
        }
    }
}

static void backward_sentence(const attention *a, workspace *w, long b, long h, real *grad_slope) {
    const long all = w->n * w->d, by_part = a->heads * a->d, by_row = 3 * by_part;
    real *grad_q = a->grad_qkv + b * a->n * by_row + h * a->d;
    const real *grad = a->grad + b * a->n * by_part + h * a->d, *mixed = a->mixed + b * a->n * by_part + h * a->d;
    const real scale = a->scale;
    read_sentence(a, w, b, h, 1);
    copy_rows(a, w, grad, by_part, 1, 0, w->grad);
    for (long i = 0; i < a->n; i++) {
        real mean = 0;
        _Pragma("omp simd reduction(+ : mean)")
        for (long c = 0; c < a->d; c++) mean += w->grad[i * w->d + c] * mixed[i * by_part + c];
        w->means[i] = mean;
    }
    memset(w->sum_k, 0, all * sizeof(real));
    memset(w->sum_v, 0, all * sizeof(real));
    memset(w->bias_sums, 0, 2 * w->d * sizeof(real));
    for (long row = 0; row < a->n; row += TILE) {
        real *tile = w->scores + TILE, *mixing = w->weights + TILE;
        const long rows = row + TILE < a->n ? TILE : a->n - row;
        range seen;
        read_range(a, b, h, row, &seen);
        tile_scores(a, w, b, h, row, &seen, tile);
        /* Gradients of weights first. */
        score_rows(w, seen.begin, in_whole(seen.end, TILE), w->grad + row * w->d, w->v_across, 0, 0, mixing);
        for (long i = row; i < row + TILE; i++) {
            /* From scores and the gradients of weights: those of scores, and the weights that were mixed. */
            real *scores = tile + (i - row) * w->width, *weights = mixing + (i - row) * w->width;
            const long first = seen.first[i - row], keys = seen.last[i - row] + 1;
            const long place = (b * a->heads + h) * a->n + i;
            if (i < row + rows) {
                const real most = a->softmax[2 * place], factor = a->softmax[2 * place + 1];
                const real mean = w->means[i];
                const long whole = unseen_after(scores, first, keys);
                if (a->dropout > 0) {
                    multipliers(a->seed, a->dropout, place, keys, w->factors);
                } else {
                    for (long j = first; j < whole; j++) w->factors[j] = 1;
                }
                const real *factors = w->factors;
                _Pragma("omp simd")
                for (long j = first; j < whole; j++) {
                    const real weight = exponential(scores[j] - most) * factor;
                    scores[j] = weight * (weights[j] * factors[j] - mean);
                    weights[j] = weight * factors[j];
                }
            }
            for (long j = seen.begin; j < first; j++) scores[j] = weights[j] = 0;
            for (long j = keys; j < in_whole(seen.end, 8); j++) scores[j] = weights[j] = 0;
        }
        add_over_rows(w, seen.begin, seen.end - 1, mixing, w->width, w->grad + row * w->d, w->sum_v);
        add_over_rows(w, seen.begin, seen.end - 1, tile, w->width, w->q_content + row * w->d, w->sum_k);
        sum_over_keys(w, seen.begin, seen.end - 1, tile, w->width, w->k, w->mixed);
        if (a->distance) {
            /* The same scores by distance: row i begins a column before the row above it. */
            const long first = a->n - row - TILE > 0 ? a->n - row - TILE : 0;
            const real *shifted = tile - (a->n - 1 - row);
            add_over_rows(w, first, a->n - 1, shifted, w->width + 1, w->q_distance + row * w->d, w->sum_r);
            sum_over_keys(w, first, a->n - 1, shifted, w->width + 1, w->r, w->by_distance);
        }
        if (a->table) {
            sum_by_depth(a, w, b, row, &seen, tile);
            add_over_rows(w, 0, seen.depths - 1, w->by_depth, w->width, depth_queries(a, w, row), w->sum_table);
            sum_over_keys(w, 0, seen.depths - 1, w->by_depth, w->width, w->table, w->from_depths);
        }
        for (long i = row; i < row + rows; i++) {
            real *by_key = w->mixed + (i - row) * w->d;
            const real *scores = tile + (i - row) * w->width, *by_distance = w->by_distance + (i - row) * w->d;
            if (a->content_bias)
                for (long c = 0; c < a->d; c++) w->bias_sums[c] += by_key[c];
            if (a->distance)
                for (long c = 0; c < a->d; c++) {
                    w->bias_sums[w->d + c] += by_distance[c];
                    by_key[c] += by_distance[c];
                }
            const long cells = (b * a->n + i) * a->n;
            if (a->table)
                for (long c = 0; c < a->d; c++) {
                    const real from_depths = w->from_depths[(i - row) * w->d + c];
                    if (a->content_bias && a->tapes > 1) w->bias_sums[c] += from_depths;
                    by_key[c] += from_depths;
                }
            if (a->slopes) {
                real sum = 0;
                _Pragma("omp simd reduction(+ : sum)")
                for (long j = 0; j <= i; j++) sum += scores[j] * a->open[cells + j];
                *grad_slope -= scale * sum;
            }
            for (long c = 0; c < a->d; c++) grad_q[i * by_row + c] = scale * by_key[c];
        }
    }
    copy_back(w, a->n, a->d, w->sum_k, by_row, grad_q + by_part);
    copy_back(w, a->n, a->d, w->sum_v, by_row, grad_q + 2 * by_part);
}

/* --- what is called: units first to end - 1, each a part of the sentences with one head; 0 if there is no memory --- */

/* Units that are computed together, sentence by sentence: those of a part, as heads of a sentence lie side by side, and
   those of a batch far apart. Where something is read for each head, they are computed one by one. */
static long together(const attention *a, long unit, long end) {
    const long heads = a->heads - unit % a->heads;
    return a->distance || a->table ? 1 : heads < end - unit ? heads : end - unit;
}

int forward(const attention *a, long first, long end) {
    workspace w;
    if (!workspace_made(&w, a)) return 0;
    for (long unit = first, heads; unit < end; unit += heads) {
        const long part = unit / a->heads, h = unit % a->heads;
        heads = together(a, unit, end);
        read_head(a, &w, h);
        for (long b = part * a->batch / a->parts; b < (part + 1) * a->batch / a->parts; b++)
            for (long head = 0; head < heads; head++) forward_sentence(a, &w, b, h + head);
    }
    free(w.memory);
    return 1;
}

int backward(const attention *a, long first, long end) {
    workspace w;
    if (!workspace_made(&w, a)) return 0;
    for (long unit = first, heads; unit < end; unit += heads) {
        const long part = unit / a->heads, h = unit % a->heads;
        heads = together(a, unit, end);
        read_head(a, &w, h);
        memset(w.sum_r, 0, (w.n + TILE) * w.d * sizeof(real));
        memset(w.sum_table, 0, in_whole(a->depths, TILE) * w.d * sizeof(real));
        for (long b = part * a->batch / a->parts; b < (part + 1) * a->batch / a->parts; b++)
            for (long head = 0; head < heads; head++) {
                const long at = (unit + head) * a->d;
                backward_sentence(a, &w, b, h + head, a->grad_slopes + unit + head);
                for (long c = 0; c < a->d; c++) {
                    if (a->content_bias) a->grad_content_bias[at + c] += (real)a->scale * w.bias_sums[c];
                    if (a->distance) a->grad_position_bias[at + c] += (real)a->scale * w.bias_sums[w.d + c];
                }
            }
        if (a->distance) copy_back(&w, a->n, a->d, w.sum_r, a->d, a->grad_distance + unit * a->n * a->d);
        if (a->table) copy_back(&w, a->depths, a->d, w.sum_table, a->d, a->grad_table + unit * a->depths * a->d);
    }
    free(w.memory);
    return 1;
}
