/* Of a step of decoding (decoding.py), on one core: attention of each hypothesis' newest token, the products of its
   vectors with others, and the normalisers of logits. Vectors of tokens are read where they lie in the cache: those that
   hypotheses share are still near when the next one reads them. Compiled by decoding.py, for 32-bit numbers or,
   with -DDOUBLE, for 64-bit ones.

   score(j) = scale (q·k_j + u·k_j + (q + v)·r_j + q·e[tape_j] + (q + u)·Σ_f g[graph_fj] - slope open_j + bias_j)

   of the keys that are seen; r_j is the vector of a distance, of j's place or of what `apart` says.

   What is computed of a row depends on nothing of others, nor on where its tokens' vectors lie. */

#include "numbers.h"

typedef struct {
    long heads, n, d, depths, table_heads; /* n: tokens read, the newest among them */
    long distances, seen_heads;            /* vectors r of each head; heads that `seen` tells apart, or 1 */
    long values_of_graphs;                 /* vectors g of each head */
    long width, by_query;                  /* how far apart rows of the cache, and of q, lie */
    double scale;
    /* In the order of decoding.py. A term that there is not is 0. */
    const int64_t *entries;                              /* (rows, n) */
    const real *values;                                  /* (entries, width): keys of all heads, then values */
    const real *q;                                       /* (rows, heads, d), rows strided */
    const real *content_bias, *position_bias, *distance; /* (heads, d) twice, (heads, distances, d) */
    const real *table;                                   /* (table_heads, depths, d): heads, or 1 for all alike */
    const uint8_t *tape;                                 /* (rows, n) */
    const real *slopes;                                  /* (heads) */
    const int16_t *open;                                 /* (rows, n) */
    const real *bias;                                    /* (heads, n) */
    const uint8_t *seen;                                 /* (rows, seen_heads, n) */
    const int16_t *apart;                                /* (rows, n): which distance; 0: j, the farthest first */
    const real *graph_table;                             /* (heads, values_of_graphs, d) */
    const int16_t *graph;                                /* (rows, 3, n) */
    real *out;                                           /* (rows, heads, d): what attention gives */
} attention;

/* out[j] = x·key j, and, where they are, + y·vector j or apart j, + q·vector tape j; four at a time, so out has room
   for those. */
INLINE void products(
    long n, long d, const real *const *keys, long at, const real *x, const real *y, const real *vectors,
    const int16_t *apart, const real *q, const real *table, const uint8_t *tape, real *out
) {
    for (long j = 0; j < n; j += 4) {
        vector sum[4] = {{0}};
        const real *k[4], *r[4] = {0}, *e[4] = {0};
        for (long i = 0; i < 4; i++) {
            const long key = j + i < n ? j + i : n - 1;
            k[i] = keys[key] + at;
            if (vectors) r[i] = vectors + (apart ? apart[key] : key) * d;
            if (table) e[i] = table + tape[key] * d;
        }
        long c = 0;
        for (; c + LANES <= d; c += LANES)
            for (long i = 0; i < 4; i++) {
                sum[i] += OF(x + c) * OF(k[i] + c);
                if (vectors) sum[i] += OF(y + c) * OF(r[i] + c);
                if (table) sum[i] += OF(q + c) * OF(e[i] + c);
            }
        totals(sum, out + j);
        for (; c < d; c++)
            for (long i = 0; i < 4; i++) {
                out[j + i] += x[c] * k[i][c];
                if (vectors) out[j + i] += y[c] * r[i][c];
                if (table) out[j + i] += q[c] * e[i][c];
            }
    }
}

/* Weights that are not yet divided by their sum, which is given back, for scores of n keys; n is filled up to whole
   vectors, which short rows would else be little of. */
INLINE real exponentials(long n, real *scores) {
    const long all = in_whole(n, LANES);
    for (long j = n; j < all; j++) scores[j] = -INFINITY;
    real most = scores[0], sum = 0, sums[LANES] = {0};
    for (long j = 0; j < n; j++) most = scores[j] > most ? scores[j] : most;
    for (long j = 0; j < all; j += LANES) {
        _Pragma("omp simd")
        for (long lane = 0; lane < LANES; lane++) {
            scores[j + lane] = exponential(scores[j + lane] - most);
            sums[lane] += scores[j + lane];
        }
    }
    for (long lane = 0; lane < LANES; lane++) sum += sums[lane];
    return sum;
}

/* out (d) = the sum of the values times their weights, over `total`. */
INLINE void mix(long n, long d, const real *const *keys, long at, const real *weights, real total, real *out) {
    long c = 0;
    for (; c + LANES <= d; c += LANES) {
        vector sum[4] = {{0}};
        long j = 0;
        for (; j + 4 <= n; j += 4)
            for (long i = 0; i < 4; i++) sum[i] += weights[j + i] * OF(keys[j + i] + at + c);
        for (; j < n; j++) sum[0] += weights[j] * OF(keys[j] + at + c);
        AT(out + c) = ((sum[0] + sum[1]) + (sum[2] + sum[3])) / total;
    }
    for (; c < d; c++) {
        real sum = 0;
        for (long j = 0; j < n; j++) sum += weights[j] * keys[j][at + c];
        out[c] = sum / total;
    }
}

static void find(long n, long width, const int64_t *entries, const real *values, const real **keys) {
    for (long j = 0; j < n; j++) keys[j] = values + entries[j] * width;
}

/* Rows first to last - 1. 0 if there is no memory. */
int attend(const attention *a, long first, long last) {
    const long n = a->n, d = a->d;
    real *scores = malloc((in_whole(n, LANES) + 4 + 2 * d) * sizeof(real)), *more = malloc((n + 4) * sizeof(real));
    const real **keys = malloc(2 * n * sizeof(*keys)), **found = keys + n;
    const int made = scores && more && keys;
    for (long row = first; made && row < last; row++) {
        find(n, a->width, a->entries + row * n, a->values, keys);
        const uint8_t *tape = a->tape ? a->tape + row * n : 0;
        for (long h = 0; h < a->heads; h++) {
            const real *q = a->q + row * a->by_query + h * d;
            real *x = scores + in_whole(n, LANES) + 4, *y = x + d;
            for (long c = 0; c < d; c++) {
                x[c] = a->content_bias ? q[c] + a->content_bias[h * d + c] : q[c];
                y[c] = a->position_bias ? q[c] + a->position_bias[h * d + c] : q[c];
            }
            const uint8_t *seen = a->seen ? a->seen + (row * a->seen_heads + (a->seen_heads > 1 ? h : 0)) * n : 0;
            /* The keys from the first to the last that are seen: of action models often few. */
            long from = 0, to = n;
            if (seen) {
                while (from < n - 1 && !seen[from]) from++;
                while (to > from + 1 && !seen[to - 1]) to--;
            }
            const long m = to - from;
            const int16_t *apart = a->apart ? a->apart + row * n + from : 0;
            const real *vectors = a->distance ? a->distance + (h * a->distances + (apart ? 0 : from)) * d : 0;
            const real *table = a->table ? a->table + (a->table_heads > 1 ? h * a->depths * d : 0) : 0;
            products(m, d, keys + from, h * d, x, y, vectors, apart, q, table, tape ? tape + from : 0, scores);
            for (long f = 0; a->graph && f < 3; f++) {
                const int16_t *graph = a->graph + (row * 3 + f) * n + from;
                for (long j = 0; j < m; j++) found[j] = a->graph_table + (h * a->values_of_graphs + graph[j]) * d;
                products(m, d, found, 0, x, 0, 0, 0, 0, 0, 0, more);
                for (long j = 0; j < m; j++) scores[j] += more[j];
            }
            if (a->slopes) {
                const real slope = a->slopes[h];
                const int16_t *open = a->open + row * n + from;
                _Pragma("omp simd")
                for (long j = 0; j < m; j++) scores[j] -= slope * open[j];
            }
            const real scale = a->scale, *bias = a->bias ? a->bias + h * n + from : 0;
            if (bias) {
                _Pragma("omp simd")
                for (long j = 0; j < m; j++) scores[j] += bias[j];
            }
            _Pragma("omp simd")
            for (long j = 0; j < m; j++) scores[j] *= scale;
            if (seen)
                for (long j = 0; j < m; j++)
                    if (!seen[from + j]) scores[j] = -INFINITY;
            const real total = exponentials(m, scores);
            mix(m, d, keys + from, (a->heads + h) * d, scores, total, a->out + (row * a->heads + h) * d);
        }
    }
    free(scores);
    free(more);
    free(keys);
    return made;
}

/* out (rows, n) = the products of x (rows, d), strided, with the vectors (entries, d) of a row's entries (rows, n); rows
   first to last - 1. 0 if there is no memory. */
int multiply(
    long n, long d, long by_x, const int64_t *entries, const real *values, const real *x, real *out, long first, long last
) {
    real *row_out = malloc(in_whole(n, 4) * sizeof(real));
    const real **keys = malloc(n * sizeof(*keys));
    const int made = row_out && keys;
    for (long row = first; made && row < last; row++) {
        find(n, d, entries + row * n, values, keys);
        products(n, d, keys, 0, x + row * by_x, 0, 0, 0, 0, 0, 0, row_out);
        memcpy(out + row * n, row_out, n * sizeof(real));
    }
    free(row_out);
    free(keys);
    return made;
}

/* most, total (rows): the largest of the numbers of a row and, over its exponential, the sum of theirs; the numbers x
   (rows, n) are added to those before them. Rows first to last - 1. */
int normalise(long n, const real *x, real *most, double *total, long first, long last) {
    for (long row = first; row < last; row++) {
        const real *at = x + row * n;
        for (long begin = 0; begin < n; begin += CHUNK) {
            const long end = begin + CHUNK < n ? begin + CHUNK : n;
            const real before = most[row];
            real now = before, sum = 0;
            _Pragma("omp simd reduction(max : now)")
            for (long j = begin; j < end; j++) now = at[j] > now ? at[j] : now;
            if (now == -INFINITY) continue;
            _Pragma("omp simd reduction(+ : sum)")
            for (long j = begin; j < end; j++) sum += exponential(at[j] - now);
            total[row] = total[row] * exp((double)before - now) + sum;
            most[row] = now;
        }
    }
    return 1;
}
