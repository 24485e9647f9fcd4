/* The recurrence of stack attention (stack_attention.py) on one core, for 32-bit numbers or, with -DDOUBLE, for 64-bit
   ones.

   Rows of alpha are zero above the diagonal: alpha[i] is the top of the stack after position i. They begin
   `size` numbers after one another, a multiple of LANES that is at least n, so that loops over their first
   numbers can go on to the next multiple of LANES. actions are push, pop and no-op of each position. Compiled
   by stack_attention.py.

   Products of many small probabilities end below the normal numbers, which processors compute slowly. Here
   they are zero: flush_denormals() sets that for the calling thread, and restore() what was set before. */

#include <stdint.h>
#include <stdlib.h>

#ifdef DOUBLE
typedef double real;
#else
typedef float real;
#endif

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

/* Numbers of a row (as in stack_attention.py), and rows, that are worked on together. */
enum { LANES = 16, ROWS = 4, BYTES = LANES * sizeof(real) };

static long whole(long length) { return (length + LANES - 1) / LANES * LANES; }

/* Not put in their callers, which change what is done with denormals: no operation gets past that. */
#define APART static __attribute__((noinline))

static real dot(long length, const real *x, const real *y) {
    real sum = 0;
    length = whole(length);
    _Pragma("omp simd reduction(+ : sum)")
    for (long k = 0; k < length; k++) sum += x[k] * y[k];
    return sum;
}

static void add(long length, real factor, const real *restrict x, real *restrict y) {
    length = whole(length);
    _Pragma("omp simd")
    for (long k = 0; k < length; k++) y[k] += factor * x[k];
}

/* y += the sum of ROWS rows of x, each times its factor. */
static void add_rows(long length, long size, const real *f, const real *restrict x, real *restrict y) {
    const real *x1 = x + size, *x2 = x1 + size, *x3 = x2 + size;
    const real f0 = f[0], f1 = f[1], f2 = f[2], f3 = f[3];
    length = whole(length);
    _Pragma("omp simd")
    for (long k = 0; k < length; k++) y[k] += f0 * x[k] + f1 * x1[k] + f2 * x2[k] + f3 * x3[k];
}

APART void forward_rows(long batch, long n, long size, const real *actions, real *alpha) {
    for (long b = 0; b < batch; b++, actions += 3 * n, alpha += n * size) {
        alpha[0] = 1;
        for (long i = 1; i < n; i++) {
            const real push = actions[3 * i], pop = actions[3 * i + 1], no_op = actions[3 * i + 2];
            const real *last = alpha + (i - 1) * size;
            real *row = alpha + i * size;
            long j = 1;
            add(i, no_op, last, row);
            row[0] += pop * last[0];
            for (; j + ROWS <= i; j += ROWS) {
                real pops[ROWS];
                for (long r = 0; r < ROWS; r++) pops[r] = pop * last[j + r];
                add_rows(j + ROWS - 1, size, pops, alpha + (j - 1) * size, row);
            }
            for (; j < i; j++) add(j, pop * last[j], alpha + (j - 1) * size, row);
            row[i] = push;
        }
    }
}

/* columns[k][j]: the probability that k is the top when token j is popped, alpha[j - 1][k]. */
static void make_columns(long n, long size, const real *alpha, real *columns) {
    columns[0] = 1;
    for (long j = 1; j < n; j++, alpha += size)
        for (long k = 0; k < j; k++) columns[k * size + j] = alpha[k];
}

APART void backward_rows(
    long batch, long n, long size, const real *actions, const real *alpha, real *rows, real *grad, real *columns
) {
    real *under = columns + n * size;
    for (long b = 0; b < batch; b++, actions += 3 * n, alpha += n * size, rows += n * size, grad += 3 * n) {
        make_columns(n, size, alpha, columns);
        for (long i = n - 1; i > 0; i--) {
            const real pop = actions[3 * i + 1], no_op = actions[3 * i + 2];
            const real *last = alpha + (i - 1) * size;
            real *row = rows + i * size;
            real factors[ROWS];
            long m = i + 2, k = 0;
            /* The sums of later rows m have this one, times the probability that m pops token i + 1. */
            for (; m + ROWS <= n; m += ROWS) {
                for (long r = 0; r < ROWS; r++)
                    factors[r] = actions[3 * (m + r) + 1] * alpha[(m + r - 1) * size + i + 1];
                add_rows(i + 1, size, factors, rows + m * size, row);
            }
            for (; m < n; m++)
                add(i + 1, actions[3 * m + 1] * alpha[(m - 1) * size + i + 1], rows + m * size, row);
            /* under[j]: what a pop of token j is worth. */
            for (long j = 0; j < size; j++) under[j] = 0;
            for (; k + ROWS <= i; k += ROWS) {
                const long first = k / LANES * LANES;
                add_rows(i - first, size, row + k, columns + k * size + first, under + first);
            }
            for (; k < i; k++) add(i, row[k], columns + k * size, under);
            grad[3 * i] = row[i];
            grad[3 * i + 1] = dot(i, last, under);
            grad[3 * i + 2] = dot(i, last, row);
            add(i, no_op, row, row - size);
            add(i, pop, under, row - size);
        }
        grad[0] = grad[1] = grad[2] = 0;
    }
}

/* alpha (batch, n, size) is zero before. Rows first to last - 1 of the batch. */
int forward(long n, long size, const real *actions, real *alpha, long first, long last) {
    const mode_of_numbers before = flush_denormals();
    forward_rows(last - first, n, size, actions + 3 * first * n, alpha + first * n * size);
    restore(before);
    return 1;
}

/* rows (batch, n, size): the gradients of alpha, completed here; grad (batch, n, 3): those of the actions.
   Above the diagonal of rows are numbers that are nobody's gradients: they meet zeros only. 0 if there is no memory. */
int backward(
    long n, long size, const real *actions, const real *alpha, real *rows, real *grad, long first, long last
) {
    real *memory = calloc((n + 1) * size + LANES, sizeof(real)); /* a row more, for what is under the top */
    if (!memory) return 0;
    real *columns = (real *)(((uintptr_t)memory + BYTES - 1) / BYTES * BYTES);
    const long cells = first * n * size;
    const mode_of_numbers before = flush_denormals();
    backward_rows(
        last - first, n, size, actions + 3 * first * n, alpha + cells, rows + cells, grad + 3 * first * n, columns
    );
    restore(before);
    free(memory);
    return 1;
}
