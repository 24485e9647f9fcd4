/* Cross-entropy of rows of logits, and its gradient by them, while a row is in the cache. Compiled by
   linear_cross_entropy.py. */

#include "numbers.h"

/* nll (rows) = -log softmax(x)[target] of x (rows, n), and x becomes the derivative of it: the softmax, less 1 at the
   target. Rows first to last - 1. */
int cross_entropy(long n, real *x, const int64_t *targets, real *nll, long first, long last) {
    for (long row = first; row < last; row++) {
        real *at = x + row * n;
        const real target = at[targets[row]];
        real most = at[0];
        double total = 0;
        _Pragma("omp simd reduction(max : most)")
        for (long j = 0; j < n; j++) most = at[j] > most ? at[j] : most;
        for (long begin = 0; begin < n; begin += CHUNK) {
            const long end = begin + CHUNK < n ? begin + CHUNK : n;
            real sum = 0;
            _Pragma("omp simd reduction(+ : sum)")
            for (long j = begin; j < end; j++) {
                at[j] = exponential(at[j] - most);
                sum += at[j];
            }
            total += sum;
        }
        const double loss = log(total) - ((double)target - most);
        const real scale = 1 / total;
        _Pragma("omp simd")
        for (long j = 0; j < n; j++) at[j] *= scale;
        nll[row] = loss;
        at[targets[row]] = expm1(-loss);
    }
    return 1;
}
