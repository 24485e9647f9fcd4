/* GPT-2's GELU, x σ(2u) with u = √(2/π) (x + 0.044715 x³), which is x (1 + tanh u) / 2, and its derivative. Compiled by
   native_gelu.py. */

#include "numbers.h"

#define A 1.5957691216057308f /* 2 √(2/π) */
#define B 0.0713548162726f    /* that times 0.044715 */

INLINE real sigmoid(real x) {
    const real e = exponential(x < 0 ? x : -x);
    return (x < 0 ? e : 1) / (1 + e);
}

int gelu(const real *x, real *out, long first, long last) {
    _Pragma("omp simd")
    for (long i = first; i < last; i++) out[i] = x[i] * sigmoid(x[i] * (A + B * x[i] * x[i]));
    return 1;
}

/* out = grad times the derivative. */
int gelu_backward(const real *x, const real *grad, real *out, long first, long last) {
    _Pragma("omp simd")
    for (long i = first; i < last; i++) {
        const real square = x[i] * x[i], s = sigmoid(x[i] * (A + B * square));
        out[i] = grad[i] * (s + x[i] * s * (1 - s) * (A + 3 * B * square));
    }
    return 1;
}
