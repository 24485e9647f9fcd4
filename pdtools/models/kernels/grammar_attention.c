/* Attention to lists of keys (grammar_attention.py) on one core, query by query: what it costs goes with the cells, which
   are the keys of all queries. Compiled by native_attention.py, for 32-bit numbers or, with -DDOUBLE, for 64-bit
   ones.

   score(cell) = scale (q_i·k_j + u·k_j + (q_i + v)·r_distance), of query i and a key j of its list

   Rows are copied first, padded with zeros to pairs of vectors. */

#include "numbers.h"

#define DISTANCES 64 /* as in grammar_attention.py */
#define PAIR (2 * LANES)

typedef struct {
    long batch, heads, n, d, parts;
    long by_sentence, by_head, by_row; /* how far apart sentences, heads and rows of q, k and v lie */
    long cells;
    double scale, dropout;
    uint64_t seed;
    /* In the order of grammar_attention.py. */
    const int64_t *offsets;                              /* (batch * n + 1) */
    const int32_t *keys;                                 /* (cells) */
    const uint8_t *distances;                            /* (cells) */
    const real *q, *k, *v;                               /* (batch, heads, n, d), strided */
    const real *distance, *content_bias, *position_bias; /* (heads, DISTANCES, d), (heads, d) twice */
    real *mixed;                                         /* (batch, n, heads, d): what attention gives */
    real *weights;                                       /* (heads, cells): the softmax, before dropout */
    const real *grad;                                    /* (batch, n, heads, d), of mixed */
    real *grad_qkv;                                      /* (batch, n, 3, heads, d) */
    real *grad_distance, *grad_content_bias, *grad_position_bias; /* as those, but (parts, heads, …) */
} attention;

typedef struct {
    long d;                       /* in whole pairs of vectors */
    real *q_content, *q_distance, *grad; /* of a sentence and head: (n, d) */
    real *k, *v, *sum_k, *sum_v;  /* and their gradients */
    real *r, *sum_r;              /* of heads: (DISTANCES, d) each, and gradients */
    real *sum_u, *sum_v_bias;     /* of heads: gradients of the biases, (d) each */
    real *row; /* of a query: (d) */
    real *scores, *factors; /* of a query's cells, and what dropout multiplies their weights by */
    real *memory;
} workspace;

/* Every part's length is a multiple of the vectors', and so is where it begins. */
static int workspace_made(workspace *w, const attention *a) {
    w->d = in_whole(a->d, PAIR);
    const long rows = a->n * w->d, cells = in_whole(a->n, PAIR), of_heads = a->heads * w->d;
    real **parts[] = {&w->k, &w->v, &w->sum_k, &w->sum_v, &w->r, &w->sum_r, &w->sum_u, &w->sum_v_bias,
                      &w->q_content, &w->q_distance, &w->grad, &w->row, &w->scores, &w->factors};
    const long sizes[] = {rows, rows, rows, rows, DISTANCES * of_heads, DISTANCES * of_heads, of_heads, of_heads,
                          rows, rows, rows, w->d, cells, cells};
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

/* out[cell] = x·row of its key, and, where there is y, + y·vector of its distance; four cells at a time. */
INLINE void products(
    const workspace *w, long cells, const int32_t *keys, const uint8_t *distances, const real *x, const real *rows,
    const real *y, const real *vectors, real *out
) {
    for (long cell = 0; cell < cells; cell += 4) {
        vector sum[4] = {{0}};
        const real *row[4], *r[4];
        for (long i = 0; i < 4; i++) {
            const long at = cell + i < cells ? cell + i : cells - 1;
            row[i] = rows + keys[at] * w->d;
            r[i] = vectors + distances[at] * w->d;
        }
        for (long c = 0; c < w->d; c += LANES)
            for (long i = 0; i < 4; i++) {
                sum[i] += OF(x + c) * OF(row[i] + c);
                if (y) sum[i] += OF(y + c) * OF(r[i] + c);
            }
        totals(sum, out + cell);
    }
}

static void copy_rows(const attention *a, const workspace *w, const real *from, long by_row, real *to) {
    for (long i = 0; i < a->n; i++) {
        memcpy(to + i * w->d, from + i * by_row, a->d * sizeof(real));
        for (long c = 0; c < a->d; c += LANES) __builtin_prefetch(from + i * by_row + a->by_head + c);
    }
}

static void read_sentence(const attention *a, workspace *w, long b, long h) {
    const long at = b * a->by_sentence + h * a->by_head;
    const real *u = a->content_bias + h * a->d, *v = a->position_bias + h * a->d, scale = a->scale;
    copy_rows(a, w, a->k + at, a->by_row, w->k);
    copy_rows(a, w, a->v + at, a->by_row, w->v);
    for (long i = 0; i < a->n; i++) {
        const real *q = a->q + at + i * a->by_row;
        for (long c = 0; c < a->d; c += LANES) __builtin_prefetch(q + a->by_head + c);
        real *restrict content = w->q_content + i * w->d, *restrict distance = w->q_distance + i * w->d;
        for (long c = 0; c < a->d; c++) {
            content[c] = (q[c] + u[c]) * scale;
            distance[c] = (q[c] + v[c]) * scale;
        }
    }
}

/* --- the two passes ---------------------------------------------------------------------------------- */

/* Of head first_head + head. */
static void forward_sentence(const attention *a, workspace *w, long b, long first_head, long head) {
    const long h = first_head + head;
    const real *r = w->r + head * DISTANCES * w->d;
    read_sentence(a, w, b, h);
    for (long i = 0; i < a->n; i++) {
        const long first = a->offsets[b * a->n + i], cells = a->offsets[b * a->n + i + 1] - first;
        const int32_t *keys = a->keys + first;
        const real *content = w->q_content + i * w->d, *distance = w->q_distance + i * w->d;
        real *weights = a->weights + h * a->cells + first, most = -INFINITY, sum = 0;
        products(w, cells, keys, a->distances + first, content, w->k, distance, r, w->scores);
        const long whole = in_whole(cells, LANES);
        for (long cell = cells; cell < whole; cell++) w->scores[cell] = -INFINITY;
        _Pragma("omp simd reduction(max : most)")
        for (long cell = 0; cell < whole; cell++) most = w->scores[cell] > most ? w->scores[cell] : most;
        _Pragma("omp simd reduction(+ : sum)")
        for (long cell = 0; cell < whole; cell++) {
            w->scores[cell] = exponential(w->scores[cell] - most);
            sum += w->scores[cell];
        }
        const real factor = 1 / sum;
        for (long cell = 0; cell < whole; cell++) w->scores[cell] *= factor;
        memcpy(weights, w->scores, cells * sizeof(real));
        if (a->dropout > 0) {
            multipliers(a->seed, a->dropout, (b * a->heads + h) * a->n + i, whole, w->factors);
            for (long cell = 0; cell < whole; cell++) w->scores[cell] *= w->factors[cell];
        }
        for (long c = 0; c < w->d; c += PAIR) {
            vector low = {0}, high = {0};
            for (long cell = 0; cell < cells; cell++) {
                const real *v = w->v + keys[cell] * w->d + c;
                low += w->scores[cell] * OF(v);
                high += w->scores[cell] * OF(v + LANES);
            }
            AT(w->row + c) = low;
            AT(w->row + c + LANES) = high;
        }
        memcpy(a->mixed + ((b * a->n + i) * a->heads + h) * a->d, w->row, a->d * sizeof(real));
    }
}

static void backward_sentence(const attention *a, workspace *w, long b, long first_head, long head) {
    const long h = first_head + head;
    const real *vectors = w->r + head * DISTANCES * w->d;
    real *sum_r = w->sum_r + head * DISTANCES * w->d;
    const long by_part = a->heads * a->d, by_row = 3 * by_part;
    real *grad_q = a->grad_qkv + b * a->n * by_row + h * a->d;
    const real scale = a->scale;
    read_sentence(a, w, b, h);
    copy_rows(a, w, a->grad + b * a->n * by_part + h * a->d, by_part, w->grad);
    memset(w->sum_k, 0, a->n * w->d * sizeof(real));
    memset(w->sum_v, 0, a->n * w->d * sizeof(real));
    for (long i = 0; i < a->n; i++) {
        const long first = a->offsets[b * a->n + i], cells = a->offsets[b * a->n + i + 1] - first;
        const int32_t *keys = a->keys + first;
        const uint8_t *distances = a->distances + first;
        const real *weights = a->weights + h * a->cells + first;
        real mean = 0;
        /* Gradients of what values are mixed by. */
        products(w, cells, keys, distances, w->grad + i * w->d, w->v, 0, 0, w->scores);
        if (a->dropout > 0) {
            multipliers(a->seed, a->dropout, (b * a->heads + h) * a->n + i, cells, w->factors);
        } else {
            for (long cell = 0; cell < cells; cell++) w->factors[cell] = 1;
        }
        /* From those the gradients of scores; and the weights that were mixed. */
        _Pragma("omp simd reduction(+ : mean)")
        for (long cell = 0; cell < cells; cell++) {
            w->factors[cell] *= weights[cell];
            mean += w->scores[cell] * w->factors[cell];
        }
        _Pragma("omp simd")
        for (long cell = 0; cell < cells; cell++)
            w->scores[cell] = w->scores[cell] * w->factors[cell] - mean * weights[cell];
        for (long c = 0; c < w->d; c += LANES) {
            const long at = i * w->d + c;
            const vector grad = OF(w->grad + at), content = OF(w->q_content + at), distance = OF(w->q_distance + at);
            vector by_key = {0}, by_distance = {0};
            for (long cell = 0; cell < cells; cell++) {
                const long key = keys[cell] * w->d + c, r = distances[cell] * w->d + c;
                const real score = w->scores[cell];
                AT(w->sum_v + key) += w->factors[cell] * grad;
                AT(w->sum_k + key) += score * content;
                AT(sum_r + r) += score * distance;
                by_key += score * OF(w->k + key);
                by_distance += score * OF(vectors + r);
            }
            AT(w->sum_u + head * w->d + c) += by_key;
            AT(w->sum_v_bias + head * w->d + c) += by_distance;
            AT(w->row + c) = scale * (by_key + by_distance);
        }
        memcpy(grad_q + i * by_row, w->row, a->d * sizeof(real));
    }
    for (long i = 0; i < a->n; i++) {
        memcpy(grad_q + i * by_row + by_part, w->sum_k + i * w->d, a->d * sizeof(real));
        memcpy(grad_q + i * by_row + 2 * by_part, w->sum_v + i * w->d, a->d * sizeof(real));
    }
}

/* --- what is called: units first to end - 1, each a part of the sentences with one head; 0 if there is no memory --- */

/* Sentence by sentence: heads of a sentence lie side by side, those of a batch far apart. */
INLINE int units(const attention *a, long first, long end, int is_backward) {
    workspace w;
    if (!workspace_made(&w, a)) return 0;
    for (long unit = first, heads; unit < end; unit += heads) {
        const long part = unit / a->heads, h = unit % a->heads;
        heads = a->heads - h < end - unit ? a->heads - h : end - unit;
        for (long i = 0; i < heads * DISTANCES; i++)
            memcpy(w.r + i * w.d, a->distance + (h * DISTANCES + i) * a->d, a->d * sizeof(real));
        memset(w.sum_r, 0, heads * DISTANCES * w.d * sizeof(real));
        memset(w.sum_u, 0, heads * w.d * sizeof(real));
        memset(w.sum_v_bias, 0, heads * w.d * sizeof(real));
        for (long b = part * a->batch / a->parts; b < (part + 1) * a->batch / a->parts; b++)
            for (long head = 0; head < heads; head++) {
                if (is_backward)
                    backward_sentence(a, &w, b, h, head);
                else
                    forward_sentence(a, &w, b, h, head);
            }
        if (!is_backward) continue;
        for (long i = 0; i < heads * DISTANCES; i++)
            memcpy(a->grad_distance + (unit * DISTANCES + i) * a->d, w.sum_r + i * w.d, a->d * sizeof(real));
        for (long head = 0; head < heads; head++)
            for (long c = 0; c < a->d; c++) {
                const long at = (unit + head) * a->d + c;
                a->grad_content_bias[at] = (real)a->scale * w.sum_u[head * w.d + c];
                a->grad_position_bias[at] = (real)a->scale * w.sum_v_bias[head * w.d + c];
            }
    }
    free(w.memory);
    return 1;
}

int forward(const attention *a, long first, long end) { return units(a, first, end, 0); }

int backward(const attention *a, long first, long end) { return units(a, first, end, 1); }
