/* The recurrence of stack attention (stack_attention.py) on one core, for 32- and 64-bit numbers.

   Rows of alpha are n long and zero above the diagonal: alpha[i] is the top of the stack after position i.
   actions are push, pop and no-op of each position. Compiled by native_stack_attention.py.

   Products of many small probabilities end below the normal numbers, which processors compute slowly. Here
   they are zero: flush_denormals() sets that for the calling thread, and restore() what was set before. */

#if defined(__SSE2__)
#include <xmmintrin.h>
typedef unsigned int mode_of_numbers;
static mode_of_numbers flush_denormals(void) {
    const mode_of_numbers before = _mm_getcsr();
    _mm_setcsr(before | 0x8040); /* results and operands */
    return before;
}
static void restore(mode_of_numbers mode) { _mm_setcsr(mode); }
#elif defined(__aarch64__)
typedef unsigned long mode_of_numbers;
static void restore(mode_of_numbers mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory"); }
static mode_of_numbers flush_denormals(void) {
    mode_of_numbers before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    restore(before | 1ul << 24);
    return before;
}
#else
typedef int mode_of_numbers;
static mode_of_numbers flush_denormals(void) { return 0; }
static void restore(mode_of_numbers mode) { (void)mode; }
#endif

/* Not put in their callers, which change what is done with denormals: no operation gets past that. */
#define APART static __attribute__((noinline))

#define RECURRENCE(REAL, NAME)                                                                              \
                                                                                                            \
static REAL dot_##NAME(long length, const REAL *x, const REAL *y) {                                         \
    REAL sum = 0;                                                                                           \
    _Pragma("omp simd reduction(+ : sum)")                                                                  \
    for (long k = 0; k < length; k++) sum += x[k] * y[k];                                                   \
    return sum;                                                                                             \
}                                                                                                           \
                                                                                                            \
static void add_##NAME(long length, REAL factor, const REAL *restrict x, REAL *restrict y) {                \
    _Pragma("omp simd")                                                                                     \
    for (long k = 0; k < length; k++) y[k] += factor * x[k];                                                \
}                                                                                                           \
                                                                                                            \
APART void forward_rows_##NAME(long batch, long n, const REAL *actions, REAL *alpha) {                      \
    for (long b = 0; b < batch; b++, actions += 3 * n, alpha += n * n) {                                    \
        alpha[0] = 1;                                                                                       \
        for (long i = 1; i < n; i++) {                                                                      \
            const REAL push = actions[3 * i], pop = actions[3 * i + 1], no_op = actions[3 * i + 2];         \
            const REAL *last = alpha + (i - 1) * n;                                                         \
            REAL *row = alpha + i * n;                                                                      \
            add_##NAME(i, no_op, last, row);                                                                \
            row[0] += pop * last[0];                                                                        \
            for (long j = 1; j < i; j++) add_##NAME(j, pop * last[j], alpha + (j - 1) * n, row);            \
            row[i] = push;                                                                                  \
        }                                                                                                   \
    }                                                                                                       \
}                                                                                                           \
                                                                                                            \
APART void backward_rows_##NAME(                                                                            \
    long batch, long n, const REAL *actions, const REAL *alpha, REAL *rows, REAL *grad                      \
) {                                                                                                         \
    for (long b = 0; b < batch; b++, actions += 3 * n, alpha += n * n, rows += n * n, grad += 3 * n) {      \
        for (long i = n - 1; i > 0; i--) {                                                                  \
            const REAL pop = actions[3 * i + 1], no_op = actions[3 * i + 2];                                \
            const REAL *last = alpha + (i - 1) * n, *row = rows + i * n;                                    \
            REAL *before = rows + (i - 1) * n;                                                              \
            REAL by_pop = last[0] * row[0];                                                                 \
            grad[3 * i] = row[i];                                                                           \
            grad[3 * i + 2] = dot_##NAME(i, last, row);                                                     \
            add_##NAME(i, no_op, row, before);                                                              \
            before[0] += pop * row[0];                                                                      \
            for (long j = 1; j < i; j++) {                                                                  \
                /* What a pop of token j leads to: alpha[j - 1]. */                                         \
                const REAL under = dot_##NAME(j, alpha + (j - 1) * n, row);                                 \
                by_pop += last[j] * under;                                                                  \
                before[j] += pop * under;                                                                   \
                add_##NAME(j, pop * last[j], row, rows + (j - 1) * n);                                      \
            }                                                                                               \
            grad[3 * i + 1] = by_pop;                                                                       \
        }                                                                                                   \
        grad[0] = grad[1] = grad[2] = 0;                                                                    \
    }                                                                                                       \
}                                                                                                           \
                                                                                                            \
/* alpha (batch, n, n) is zero before. */                                                                   \
void forward_##NAME(long batch, long n, const REAL *actions, REAL *alpha) {                                 \
    const mode_of_numbers before = flush_denormals();                                                       \
    forward_rows_##NAME(batch, n, actions, alpha);                                                          \
    restore(before);                                                                                        \
}                                                                                                           \
                                                                                                            \
/* rows (batch, n, n): the gradients of alpha, completed here; grad (batch, n, 3): those of the actions. */ \
void backward_##NAME(long batch, long n, const REAL *actions, const REAL *alpha, REAL *rows, REAL *grad) {  \
    const mode_of_numbers before = flush_denormals();                                                       \
    backward_rows_##NAME(batch, n, actions, alpha, rows, grad);                                             \
    restore(before);                                                                                        \
}

RECURRENCE(float, float32)
RECURRENCE(double, float64)
