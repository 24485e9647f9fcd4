/* What the functions in C have in common: numbers of 32 bits or, with -DDOUBLE, of 64, vectors of them and their sums,
   exponentials and dropout. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef DOUBLE
typedef double real;
#else
typedef float real;
#endif

#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
#define LANES (BYTES / (long)sizeof(real))
#define CHUNK 1024 /* numbers that are summed up in `real`, before those sums are in double */
#define INLINE static inline __attribute__((always_inline))

typedef real vector __attribute__((vector_size(BYTES), aligned(4), may_alias));

#define AT(place) (*(vector *)(place))
#define OF(place) (*(const vector *)(place))

#define FEW (LANES < 4 ? LANES : 4)
typedef real few __attribute__((vector_size(FEW * sizeof(real)), aligned(4), may_alias));

/* out[i] = the sum of a vector's lanes, for four vectors. */
INLINE void totals(const vector *x, real *out) {
    few sum[4];
    for (long i = 0; i < 4; i++) {
        union {
            vector all;
            few parts[LANES / FEW];
        } one = {x[i]};
        sum[i] = one.parts[0];
        for (long part = 1; part < LANES / FEW; part++) sum[i] += one.parts[part];
    }
    for (long i = 0; i < 4; i++) {
        out[i] = 0;
        for (long lane = 0; lane < FEW; lane++) out[i] += sum[i][lane];
    }
}

static long in_whole(long number, long size) { return (number + size - 1) / size * size; }

#ifdef DOUBLE
INLINE real exponential(real x) { return exp(x); }
#else
/* Of numbers up to 0: 2^n e^r, |r| <= ln(2) / 2, within a few units of the last place. What is below 1e-30 is zero: its
   products could be below the normal numbers, which processors compute slowly. */
INLINE real exponential(real score) {
    const real x = score < -69.0f ? -69.0f : score;
    const real rounder = 12582912.0f; /* 1.5 * 2^23: what is added to it loses its fraction */
    const real n = (x * 1.44269504f + rounder) - rounder;
    const real r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    real sum = 1.0f / 720;
    sum = sum * r + 1.0f / 120;
    sum = sum * r + 1.0f / 24;
    sum = sum * r + 1.0f / 6;
    sum = sum * r + 0.5f;
    sum = sum * r + 1.0f;
    sum = sum * r + 1.0f;
    const int32_t bits = ((int32_t)n + 127) << 23;
    real power;
    memcpy(&power, &bits, sizeof power);
    return score < -69.0f ? 0 : sum * power;
}
#endif

/* What dropout multiplies the weights of a row by: numbers of the row and the key alone, so that the backward pass
   finds the same. Both are mixed as splitmix64 and murmur3 do. */
INLINE void multipliers(uint64_t seed, double dropout, uint64_t row, long keys, real *out) {
    uint64_t state = seed + row * 0x9E3779B97F4A7C15u;
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBu;
    const uint32_t start = (uint32_t)(state ^ (state >> 31)), odd = (uint32_t)(state >> 32) | 1;
    const uint32_t dropped = (uint32_t)(dropout * 4294967295.0);
    const real scaled_up = 1 / (1 - dropout);
    _Pragma("omp simd")
    for (long j = 0; j < keys; j++) {
        uint32_t x = start + (uint32_t)j * odd;
        x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
        x = (x ^ (x >> 13)) * 0xC2B2AE35u;
        x ^= x >> 16;
        out[j] = x < dropped ? 0 : scaled_up;
    }
}
