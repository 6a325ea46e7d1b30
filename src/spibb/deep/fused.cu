// Train a population of small dense Q-networks: one block trains one member, thousands of steps a
// launch. train_fused.py compiles this file at run time and says what is computed.
//
// Sizes come as macros N_IN, N_H1, N_H2, N_H3, N_ACT. Everything a member needs stays in one
// multiprocessor: parameters and their target copy in shared memory, RMSProp's mean squares in
// registers of the threads that own the weights.
//
// Products run on the tensor cores as mma.m16n8k8. A tf32 operand has 11 significant bits, so every
// operand is split, x = high + low, and high*high + (high*low + low*high) is summed in float32, the
// large and the small terms apart: 21 to 22 bits, which is what a chain of float32 rounding leaves.
//
// What limits (paper's network 4-32-128-32-9, batch 32): 1.37 M multiply-adds a step, three times
// that on tensor cores is about 4,300 mma; at some 6.4 cycles an mma on each of four units, 6,900
// cycles of a multiprocessor. Plain float32 arithmetic would need 10,700 cycles at its very best.
//
// Ten warps. Warps 0-7 multiply: warp w takes samples 16 (w & 1) .. + 15 and a quarter w >> 1 of the
// middle hidden layer, so that the layers chain inside its registers and only the sums over the
// quarters cross warps, through shared memory. Warp 8 turns Q-values at the next states into
// targets; warp 9 draws minibatches and does the output layer of the other two passes. One step t:
//
//   warps 0-7: online net at s'(t) | online net at s(t) | target net at s'(t + 1) | backward | update
//   warp 8:                          targets y of the step, Q - y, loss
//   warp 9:    load batch t + 2    | Q(s)                                         | Q_target(t + 1)
//
// Two things make that overlap possible. The target network changes every target_period steps only,
// and just then it equals the online one; so its pass at s' can be done a step ahead. And a sample's
// backward pass is linear in its Q - y; so it runs with 1 in place of Q - y, before y is known, and
// the weight gradients multiply by Q - y.
//
// Fragments of an mma, lane = 4 g + t: A (16 x 8) rows g and g + 8, columns t and t + 4; B (8 x 8)
// rows t and t + 4, column g; C (16 x 8) rows g and g + 8, columns 2 t and 2 t + 1. The order of the
// summed index is free: reading it as 2 t and 2 t + 1 makes C of one layer A of the next. Strides are
// 4 modulo 32 for weights and 8 modulo 32 for activations, which keeps these reads free of bank
// conflicts. Where weights are read across (backward, update), the columns of C stand for t and t + 4
// instead, by `crossed` below.

#ifndef N_PRODUCTS
#define N_PRODUCTS 3  // 1 leaves the low parts away: for timing only
#endif
#ifndef N_SUMS
#define N_SUMS 2  // 3 gives each product its own sum: shorter chains, more registers
#endif
#ifndef ROUNDS
#define ROUNDS 1  // 0 splits by cutting off: one instruction less, twice the error
#endif
#ifndef N_ABREAST
#define N_ABREAST 2  // tiles of the middle layer that a warp works on at the same time
#endif

#ifndef SPIBB_EMULATED
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ __forceinline__ void mma(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void wait_at(int barrier, int n_threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(n_threads) : "memory");
}
__device__ __forceinline__ void arrive_at(int barrier, int n_threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(n_threads) : "memory");
}
__device__ __forceinline__ void copy_ahead(float* to, const float* from) {
    u32 place = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
}
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}
__device__ __forceinline__ float quick_root(float x) {
    float y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float quick_inverse(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#endif

__host__ __device__ constexpr int up(int n, int to) { return (n + to - 1) / to * to; }

// Sizes padded to whole tiles. Units that pad have weights 0, activation 0 and gradient 0 for ever.
constexpr int BATCH = 32, SPLITS = 4, MMA_WARPS = 8, THREADS = 32 * (MMA_WARPS + 2);
constexpr int H1 = up(N_H1, 32), H2 = up(N_H2, 8 * SPLITS * N_ABREAST), H3 = up(N_H3, 32);
constexpr int NQ = up(N_ACT, 8), IN = 8;
static_assert(N_IN < IN && N_ACT <= 9, "a record holds 4 features and 9 actions");

// One network: layers of weights (fan_in, fan_out), then biases. The first bias is row N_IN of W1.
constexpr int S1 = H1 + 4, S2 = H2 + 4, S3 = H3 + 4, S4 = NQ + 4;
constexpr int W1 = 0, W2 = W1 + IN * S1, B2 = W2 + H1 * S2, W3 = B2 + S2, B3 = W3 + H2 * S3;
constexpr int W4 = B3 + S3, B4 = W4 + H3 * S4, NETWORK = B4 + S4;
// The same in global memory, without padding.
constexpr int P1 = 0, P2 = P1 + (N_IN + 1) * N_H1, P3 = P2 + (N_H1 + 1) * N_H2;
constexpr int P4 = P3 + (N_H2 + 1) * N_H3, N_PARAMS = P4 + (N_H3 + 1) * N_ACT;

// Shared memory, in floats. Activations h and unit gradients u are (sample, unit); partial sums over
// the quarters of the middle layer are (quarter, sample, unit); Q-values are (action, sample).
constexpr int T1 = H1 + 8, T2 = H2 + 8, T3 = H3 + 8, TP = (H1 > H3 ? H1 : H3) + 8, TR = 36, TQ = 36;
constexpr int PARTIAL = SPLITS * BATCH * TP, BATCH_RECORDS = BATCH * TR;
constexpr int ONLINE = 0, TARGET = ONLINE + NETWORK, HIDDEN1 = TARGET + NETWORK;
constexpr int HIDDEN2 = HIDDEN1 + BATCH * T1, HIDDEN3 = HIDDEN2 + BATCH * T2;
constexpr int UNIT2 = HIDDEN3 + BATCH * T3, UNIT3 = UNIT2 + BATCH * T2;
constexpr int PART_NEXT = UNIT3 + BATCH * T3, PART_HERE = PART_NEXT + PARTIAL;
constexpr int PART_TARGET = PART_HERE + PARTIAL, RECORDS = PART_TARGET + PARTIAL;
constexpr int Q_NEXT = RECORDS + 3 * BATCH_RECORDS, Q_TARGET = Q_NEXT + NQ * TQ;
constexpr int Q_HERE = Q_TARGET + NQ * TQ, ERRORS = Q_HERE + NQ * TQ;
constexpr int MASSES = ERRORS + N_ACT * BATCH, DELTA = MASSES + N_ACT * BATCH;
constexpr int Q_TAKEN = DELTA + BATCH, SCALARS = Q_TAKEN + BATCH;
constexpr int RATE = SCALARS, STOP = SCALARS + 1, SHARED_FLOATS = SCALARS + 4;

// Records: [0:d] s, [d:2d] s', then as below.
constexpr int RECORD = 32, R_ACTION = 8, R_REWARD = 9, R_GOES_ON = 10, R_COUNT = 11;
constexpr int R_BASELINE = 12, R_COUNTS = 21;

// Named barriers; 0 is __syncthreads.
constexpr int NEXT_READY = 1, HERE_READY = 2, HERE_SUMMED = 3, TAKEN = 4;

struct Arguments {
    const float* records;        // (all rows, 32)
    const int* order;            // members in the order in which blocks take them
    const long long* first_row;  // what follows: one a member
    const int* n_rows;
    const int* last_step;
    const u64* seed;
    const int* op;
    const int* is_double;
    const float* kappa;
    const float* n_wedge;
    const float* epsilon;
    float* params;  // (R, P)
    float* target;  // (R, P)
    float* v;       // (R, P)
    int* diverged_at;
    double learning_rate;
    int t0, n_steps, target_period, annealing_samples;
    float gamma, decay, fresh, rms_epsilon, q_limit;
};

extern __shared__ __align__(16) float shared[];

__device__ __forceinline__ int crossed(int column) { return (column >> 1) + 4 * (column & 1); }

// Split by rounding to the nearest tf32; the unit itself drops what lies below the low part's bits.
__device__ __forceinline__ void split(float x, u32& high, u32& low) {
    high = (__float_as_uint(x) + (ROUNDS ? 0x1000u : 0u)) & 0xffffe000u;
    low = __float_as_uint(x - __uint_as_float(high));
}

template <int N>
struct Parts {
    u32 high[N], low[N];
    __device__ __forceinline__ void set(int i, float x) { split(x, high[i], low[i]); }
};
typedef Parts<4> Left;   // A
typedef Parts<2> Right;  // B

struct Sum {
    float large[4], small[4], tiny[4];
    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < 4; ++i) large[i] = small[i] = tiny[i] = 0.0f;
    }
    __device__ __forceinline__ void add(const Left& a, const Right& b) {
        mma(large, a.high, b.high);
#if N_PRODUCTS == 3
        mma(small, a.low, b.high);
        mma(N_SUMS == 3 ? tiny : small, a.high, b.low);
#endif
    }
    __device__ __forceinline__ float operator[](int i) const {
        return N_SUMS == 3 ? large[i] + (small[i] + tiny[i]) : large[i] + small[i];
    }
};

__device__ __forceinline__ float positive(float x) { return fmaxf(x, 0.0f); }
__device__ __forceinline__ float2 pair(const float* place) { return *(const float2*)place; }

// Feature of a sample as the first layer sees it: the state, then 1 for the bias, then padding.
__device__ __forceinline__ float input(const float* batch, int sample, int feature, int skip) {
    return feature < N_IN ? batch[sample * TR + skip + feature] : (feature == N_IN ? 1.0f : 0.0f);
}

// The first three layers for 16 samples and a quarter of the middle layer: writes partial sums of
// the third layer's inputs, and the activations if `is_kept`.
__device__ __forceinline__ void forward(const float* net, const float* batch, int skip, float* part,
                                        bool is_kept, int warp, int lane) {
    const int g = lane >> 2, t = lane & 3, quarter = warp >> 1, row = 16 * (warp & 1) + g;
    Left x, h[H1 / 8];
    x.set(0, input(batch, row, 2 * t, skip));
    x.set(1, input(batch, row + 8, 2 * t, skip));
    x.set(2, input(batch, row, 2 * t + 1, skip));
    x.set(3, input(batch, row + 8, 2 * t + 1, skip));
#pragma unroll
    for (int n = 0; n < H1 / 8; ++n) {
        const float* w = net + W1 + 2 * t * S1 + 8 * n + g;
        Right y;
        y.set(0, w[0]);
        y.set(1, w[S1]);
        Sum z;
        z.clear();
        z.add(x, y);
        float2 upper = make_float2(positive(z[0]), positive(z[1]));
        float2 lower = make_float2(positive(z[2]), positive(z[3]));
        if (is_kept && n % SPLITS == quarter) {
            float* kept = shared + HIDDEN1 + row * T1 + 8 * n + 2 * t;
            *(float2*)kept = upper;
            *(float2*)(kept + 8 * T1) = lower;
        }
        h[n].set(0, upper.x);
        h[n].set(1, lower.x);
        h[n].set(2, upper.y);
        h[n].set(3, lower.y);
    }
    Sum out[H3 / 8];
#pragma unroll
    for (int n = 0; n < H3 / 8; ++n) out[n].clear();
#pragma unroll 1
    for (int j = 0; j < H2 / 8 / SPLITS; j += N_ABREAST) {
        const int first = quarter * (H2 / SPLITS) + 8 * j;
        Sum z[N_ABREAST];
#pragma unroll
        for (int b = 0; b < N_ABREAST; ++b) z[b].clear();
#pragma unroll
        for (int k = 0; k < H1 / 8; ++k)
#pragma unroll
            for (int b = 0; b < N_ABREAST; ++b) {
                const float* w = net + W2 + (8 * k + 2 * t) * S2 + first + 8 * b + g;
                Right y;
                y.set(0, w[0]);
                y.set(1, w[S2]);
                z[b].add(h[k], y);
            }
#pragma unroll
        for (int b = 0; b < N_ABREAST; ++b) {
            const int unit = first + 8 * b;
            float2 bias = pair(net + B2 + unit + 2 * t);
            float2 upper = make_float2(positive(z[b][0] + bias.x), positive(z[b][1] + bias.y));
            float2 lower = make_float2(positive(z[b][2] + bias.x), positive(z[b][3] + bias.y));
            if (is_kept) {
                float* kept = shared + HIDDEN2 + row * T2 + unit + 2 * t;
                *(float2*)kept = upper;
                *(float2*)(kept + 8 * T2) = lower;
            }
            Left a;
            a.set(0, upper.x);
            a.set(1, lower.x);
            a.set(2, upper.y);
            a.set(3, lower.y);
#pragma unroll
            for (int n = 0; n < H3 / 8; ++n) {
                const float* w = net + W3 + (unit + 2 * t) * S3 + 8 * n + g;
                Right y;
                y.set(0, w[0]);
                y.set(1, w[S3]);
                out[n].add(a, y);
            }
        }
    }
    float* to = part + (quarter * BATCH + row) * TP + 2 * t;
#pragma unroll
    for (int n = 0; n < H3 / 8; ++n) {
        *(float2*)(to + 8 * n) = make_float2(out[n][0], out[n][1]);
        *(float2*)(to + 8 * n + 8 * TP) = make_float2(out[n][2], out[n][3]);
    }
}

// The third hidden layer of 32 samples from its partial sums, as operands of the output layer.
struct Hidden3 {
    Left h[2][H3 / 8];

    __device__ __forceinline__ void gather(const float* net, const float* part, bool is_kept,
                                           int lane) {
        const int g = lane >> 2, t = lane & 3;
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
            for (int k = 0; k < H3 / 8; ++k) {
                float2 bias = pair(net + B3 + 8 * k + 2 * t);
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int row = 16 * m + 8 * i + g;
                    const float* from = part + row * TP + 8 * k + 2 * t;
                    float2 p = pair(from), q = pair(from + BATCH * TP);
                    float2 r = pair(from + 2 * BATCH * TP), s = pair(from + 3 * BATCH * TP);
                    p.x = positive(((p.x + q.x) + (r.x + s.x)) + bias.x);
                    p.y = positive(((p.y + q.y) + (r.y + s.y)) + bias.y);
                    if (is_kept) *(float2*)(shared + HIDDEN3 + row * T3 + 8 * k + 2 * t) = p;
                    h[m][k].set(i, p.x);
                    h[m][k].set(i + 2, p.y);
                }
            }
    }

    __device__ __forceinline__ void output(const float* net, float* q, int lane) const {
        const int g = lane >> 2, t = lane & 3;
#pragma unroll
        for (int n = 0; n < NQ / 8; ++n) {
            Sum z[2];
            z[0].clear();
            z[1].clear();
#pragma unroll
            for (int k = 0; k < H3 / 8; ++k) {
                const float* w = net + W4 + (8 * k + 2 * t) * S4 + 8 * n + g;
                Right y;
                y.set(0, w[0]);
                y.set(1, w[S4]);
                z[0].add(h[0][k], y);
                z[1].add(h[1][k], y);
            }
            float2 bias = pair(net + B4 + 8 * n + 2 * t);
#pragma unroll
            for (int m = 0; m < 2; ++m) {
                float* to = q + (8 * n + 2 * t) * TQ + 16 * m + g;
                to[0] = z[m][0] + bias.x;
                to[TQ] = z[m][1] + bias.y;
                to[8] = z[m][2] + bias.x;
                to[TQ + 8] = z[m][3] + bias.y;
            }
        }
        __syncwarp();
    }
};

// Gradients of Q(s, a) by the hidden layers' inputs, for 16 samples and a quarter of the middle
// layer; those of the first layer as partial sums.
__device__ __forceinline__ void backward(const float* batch, int warp, int lane) {
    const float* net = shared + ONLINE;
    const int g = lane >> 2, t = lane & 3, quarter = warp >> 1, row = 16 * (warp & 1) + g;
    const int upper_action = (int)batch[row * TR + R_ACTION];
    const int lower_action = (int)batch[(row + 8) * TR + R_ACTION];
    Left u3[H3 / 8];
#pragma unroll
    for (int k = 0; k < H3 / 8; ++k)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int sample = row + 8 * (i & 1), unit = 8 * k + t + 4 * (i >> 1);
            const float w = net[W4 + unit * S4 + ((i & 1) ? lower_action : upper_action)];
            const float u = shared[HIDDEN3 + sample * T3 + unit] > 0.0f ? w : 0.0f;
            if (k % SPLITS == quarter) shared[UNIT3 + sample * T3 + unit] = u;
            u3[k].set(i, u);
        }
    Sum out[H1 / 8];
#pragma unroll
    for (int n = 0; n < H1 / 8; ++n) out[n].clear();
#pragma unroll 1
    for (int j = 0; j < H2 / 8 / SPLITS; j += N_ABREAST) {
        const int first = quarter * (H2 / SPLITS) + 8 * j;
        Sum z[N_ABREAST];
#pragma unroll
        for (int b = 0; b < N_ABREAST; ++b) z[b].clear();
#pragma unroll
        for (int k = 0; k < H3 / 8; ++k)
#pragma unroll
            for (int b = 0; b < N_ABREAST; ++b) {
                const float* w = net + W3 + (first + 8 * b + crossed(g)) * S3 + 8 * k + t;
                Right y;
                y.set(0, w[0]);
                y.set(1, w[4]);
                z[b].add(u3[k], y);
            }
#pragma unroll
        for (int b = 0; b < N_ABREAST; ++b) {
            const int unit = first + 8 * b + t;
            Left a;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int at = (row + 8 * (i >> 1)) * T2 + unit + 4 * (i & 1);
                const float u = shared[HIDDEN2 + at] > 0.0f ? z[b][i] : 0.0f;
                shared[UNIT2 + at] = u;
                a.set((i >> 1) + 2 * (i & 1), u);
            }
#pragma unroll
            for (int n = 0; n < H1 / 8; ++n) {
                const float* w = net + W2 + (8 * n + g) * S2 + unit;
                Right y;
                y.set(0, w[0]);
                y.set(1, w[4]);
                out[n].add(a, y);
            }
        }
    }
    float* to = shared + PART_HERE + (quarter * BATCH + row) * TP + 2 * t;
#pragma unroll
    for (int n = 0; n < H1 / 8; ++n) {
        *(float2*)(to + 8 * n) = make_float2(out[n][0], out[n][1]);
        *(float2*)(to + 8 * n + 8 * TP) = make_float2(out[n][2], out[n][3]);
    }
}

// RMSProp for the weights of one warp. The gradient of a layer is (inputs)^T (unit gradients times
// Q - y), summed over the batch: blocks of 32 x 16 weights for the two large layers, 16 x 8 for the
// small ones. A thread owns the same weights in every step and keeps their mean squares.
struct Descent {
    static constexpr int N2 = (H1 / 32) * (H2 / 16), N3 = (H2 / 32) * (H3 / 16);
    static constexpr int N4 = (H3 / 16) * (NQ / 8), N1 = H1 / 8;
    static constexpr int OWN2 = up(N2, MMA_WARPS) / MMA_WARPS, OWN3 = up(N3, MMA_WARPS) / MMA_WARPS;
    static constexpr int OWN4 = up(N4, MMA_WARPS) / MMA_WARPS, OWN1 = up(N1, MMA_WARPS) / MMA_WARPS;
    float v2[OWN2][2][2][4], v3[OWN3][2][2][4], v4[OWN4][4], v1[OWN1][2];
    float bias2[OWN2][2], bias3[OWN3][2], bias4[OWN4];
    int warp, g, t;

    // Visit every owned parameter as (place in shared memory, place in global memory or -1, its v).
    template <class Visit>
    __device__ __forceinline__ void each(Visit visit) {
#pragma unroll
        for (int s = 0; s < OWN2; ++s) {
            const int block = warp + s * MMA_WARPS, n_wide = H2 / 16;
            if (block < N2)
                each_large<W2, S2, B2, P2, N_H1, N_H2>(block / n_wide, block % n_wide, v2[s],
                                                       bias2[s], visit);
        }
#pragma unroll
        for (int s = 0; s < OWN3; ++s) {
            const int block = warp + s * MMA_WARPS, n_wide = H3 / 16;
            if (block < N3)
                each_large<W3, S3, B3, P3, N_H2, N_H3>(block / n_wide, block % n_wide, v3[s],
                                                       bias3[s], visit);
        }
#pragma unroll
        for (int s = 0; s < OWN4; ++s) {
            const int block = warp + s * MMA_WARPS;
            if (block < N4) each_output(block / (NQ / 8), block % (NQ / 8), v4[s], bias4[s], visit);
        }
#pragma unroll
        for (int s = 0; s < OWN1; ++s) {
            const int block = MMA_WARPS - 1 - warp + s * MMA_WARPS;
            if (block < N1) each_input(block, v1[s], visit);
        }
    }

    template <int W, int S, int B, int P, int FAN_IN, int FAN_OUT, class Visit>
    __device__ __forceinline__ void each_large(int high, int wide, float (&v)[2][2][4],
                                               float (&bias)[2], Visit visit) {
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
            for (int n = 0; n < 2; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int in = 32 * high + 16 * m + g + 8 * (i >> 1);
                    const int out = 16 * wide + 8 * n + t + 4 * (i & 1);
                    const bool is_real = in < FAN_IN && out < FAN_OUT;
                    visit(W + in * S + out, is_real ? P + in * FAN_OUT + out : -1, v[m][n][i]);
                }
        if (high == 0 && t == 0)
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                const int out = 16 * wide + 8 * n + crossed(g);
                visit(B + out, out < FAN_OUT ? P + FAN_IN * FAN_OUT + out : -1, bias[n]);
            }
    }

    template <class Visit>
    __device__ __forceinline__ void each_output(int high, int wide, float (&v)[4], float& bias,
                                                Visit visit) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int in = 16 * high + g + 8 * (i >> 1), out = 8 * wide + t + 4 * (i & 1);
            const bool is_real = in < N_H3 && out < N_ACT;
            visit(W4 + in * S4 + out, is_real ? P4 + in * N_ACT + out : -1, v[i]);
        }
        if (high == 0 && t == 0) {
            const int out = 8 * wide + crossed(g);
            visit(B4 + out, out < N_ACT ? P4 + N_H3 * N_ACT + out : -1, bias);
        }
    }

    // The bias of the first layer is one more row of its weights.
    template <class Visit>
    __device__ __forceinline__ void each_input(int wide, float (&v)[2], Visit visit) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int out = 8 * wide + t + 4 * i;
            const bool is_real = g <= N_IN && out < N_H1;
            visit(W1 + g * S1 + out, is_real ? P1 + g * N_H1 + out : -1, v[i]);
        }
    }

    float scale[BATCH / 8][2];  // 2 / batch * (Q - y) of samples 8 k + t and 8 k + t + 4
    float rate, decay, fresh, rms_epsilon;
    bool copies;

    __device__ __forceinline__ void one(int at, float gradient, float& v) const {
        v = fmaf(decay, v, fresh * gradient * gradient);
        const float w = shared[ONLINE + at]
            - rate * gradient * quick_inverse(quick_root(v) + rms_epsilon);
        shared[ONLINE + at] = w;
        if (copies) shared[TARGET + at] = w;
    }

    // `left(sample, in)` and `right(k, i, sample, out)` give the operands; the sum of the right ones
    // over the batch is the gradient of the biases.
    template <int MT, int NT, class LeftOf, class RightOf>
    __device__ __forceinline__ void gradient(LeftOf left, RightOf right, Sum (&z)[MT][NT],
                                             float (&bias)[NT]) const {
#pragma unroll
        for (int n = 0; n < NT; ++n) {
            bias[n] = 0.0f;
#pragma unroll
            for (int m = 0; m < MT; ++m) z[m][n].clear();
        }
#pragma unroll
        for (int k = 0; k < BATCH / 8; ++k) {
            Left a[MT];
#pragma unroll
            for (int m = 0; m < MT; ++m)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    a[m].set(i, left(8 * k + t + 4 * (i >> 1), 16 * m + g + 8 * (i & 1)));
#pragma unroll
            for (int n = 0; n < NT; ++n) {
                Right b;
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const float x = right(k, i, 8 * k + t + 4 * i, 8 * n + crossed(g));
                    bias[n] += x;
                    b.set(i, x);
                }
#pragma unroll
                for (int m = 0; m < MT; ++m) z[m][n].add(a[m], b);
            }
        }
#pragma unroll
        for (int n = 0; n < NT; ++n) {
            bias[n] += __shfl_xor_sync(0xffffffffu, bias[n], 1);
            bias[n] += __shfl_xor_sync(0xffffffffu, bias[n], 2);
        }
    }

    template <int W, int S, int B, int LEFT, int LEFT_STRIDE, int RIGHT, int RIGHT_STRIDE>
    __device__ __forceinline__ void large(int high, int wide, float (&v)[2][2][4],
                                          float (&bias_v)[2]) {
        Sum z[2][2];
        float bias[2];
        const float* inputs = shared + LEFT + 32 * high;
        const float* units = shared + RIGHT + 16 * wide;
        gradient<2, 2>([&](int sample, int in) { return inputs[sample * LEFT_STRIDE + in]; },
                       [&](int k, int i, int sample, int out) {
                           return units[sample * RIGHT_STRIDE + out] * scale[k][i];
                       },
                       z, bias);
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
            for (int n = 0; n < 2; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    one(W + (32 * high + 16 * m + g + 8 * (i >> 1)) * S + 16 * wide + 8 * n + t
                            + 4 * (i & 1),
                        z[m][n][i], v[m][n][i]);
        if (high == 0 && t == 0)
#pragma unroll
            for (int n = 0; n < 2; ++n)
                one(B + 16 * wide + 8 * n + crossed(g), bias[n], bias_v[n]);
    }

    __device__ __forceinline__ void output(const float* batch, int high, int wide, float (&v)[4],
                                           float& bias_v) {
        Sum z[1][1];
        float bias[1];
        const float* inputs = shared + HIDDEN3 + 16 * high;
        gradient<1, 1>([&](int sample, int in) { return inputs[sample * T3 + in]; },
                       [&](int k, int i, int sample, int out) {
                           const int action = (int)batch[sample * TR + R_ACTION];
                           return action == 8 * wide + out ? scale[k][i] : 0.0f;
                       },
                       z, bias);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            one(W4 + (16 * high + g + 8 * (i >> 1)) * S4 + 8 * wide + t + 4 * (i & 1), z[0][0][i],
                v[i]);
        if (high == 0 && t == 0) one(B4 + 8 * wide + crossed(g), bias[0], bias_v);
    }

    __device__ __forceinline__ void input_layer(const float* batch, int wide, float (&v)[2]) {
        Sum z[1][1];
        float bias[1];
        gradient<1, 1>(
            [&](int sample, int in) { return in < IN ? input(batch, sample, in, 0) : 0.0f; },
            [&](int k, int i, int sample, int out) {
                const float* p = shared + PART_HERE + sample * TP + 8 * wide + out;
                const float u = (p[0] + p[BATCH * TP]) + (p[2 * BATCH * TP] + p[3 * BATCH * TP]);
                const bool is_on = shared[HIDDEN1 + sample * T1 + 8 * wide + out] > 0.0f;
                return is_on ? u * scale[k][i] : 0.0f;
            },
            z, bias);
#pragma unroll
        for (int i = 0; i < 2; ++i) one(W1 + g * S1 + 8 * wide + t + 4 * i, z[0][0][i], v[i]);
    }

    __device__ __forceinline__ void step(const float* batch) {
#pragma unroll
        for (int k = 0; k < BATCH / 8; ++k) {
            scale[k][0] = shared[DELTA + 8 * k + t];
            scale[k][1] = shared[DELTA + 8 * k + t + 4];
        }
        rate = shared[RATE];
#pragma unroll
        for (int s = 0; s < OWN3; ++s) {
            const int block = warp + s * MMA_WARPS, n_wide = H3 / 16;
            if (block < N3)
                large<W3, S3, B3, HIDDEN2, T2, UNIT3, T3>(block / n_wide, block % n_wide, v3[s],
                                                          bias3[s]);
        }
#pragma unroll
        for (int s = 0; s < OWN2; ++s) {
            const int block = warp + s * MMA_WARPS, n_wide = H2 / 16;
            if (block < N2)
                large<W2, S2, B2, HIDDEN1, T1, UNIT2, T2>(block / n_wide, block % n_wide, v2[s],
                                                          bias2[s]);
        }
#pragma unroll
        for (int s = 0; s < OWN4; ++s) {
            const int block = warp + s * MMA_WARPS;
            if (block < N4) output(batch, block / (NQ / 8), block % (NQ / 8), v4[s], bias4[s]);
        }
#pragma unroll
        for (int s = 0; s < OWN1; ++s) {
            const int block = MMA_WARPS - 1 - warp + s * MMA_WARPS;
            if (block < N1) input_layer(batch, block, v1[s]);
        }
    }
};

// The improvement steps of spibb.operators, one lane a row. They return the target network's value
// of the improved policy, sum_a pi(a) q_target(a). Ratios are compared by cross-multiplication,
// which keeps the row functions' rules for ties, for free moves and for infinite errors (a NaN
// compares false). Rows with a run-time index live in shared memory, (action, lane).
struct Row {
    float q[N_ACT], q_target[N_ACT], b[N_ACT], e[N_ACT];
    float epsilon;
    int lane;

    __device__ __forceinline__ float error(int a) const { return shared[ERRORS + 32 * a + lane]; }
    __device__ __forceinline__ float& mass(int a) const { return shared[MASSES + 32 * a + lane]; }

    __device__ __forceinline__ float under(int action) const {
        float value = q_target[0];
#pragma unroll
        for (int a = 1; a < N_ACT; ++a) value = a == action ? q_target[a] : value;
        return value;
    }

    __device__ __forceinline__ float greedy() const {
        int best = 0;
        float q_best = q[0];
#pragma unroll
        for (int a = 1; a < N_ACT; ++a)
            if (q[a] > q_best) {
                best = a;
                q_best = q[a];
            }
        return under(best);
    }

    __device__ __forceinline__ float bootstrapped(bool is_at_most) const {
        int best = -1;
        float q_best = 0.0f;
#pragma unroll
        for (int a = 0; a < N_ACT; ++a)
            if (e[a] == 0.0f && (best < 0 || q[a] > q_best)) {
                best = a;
                q_best = q[a];
            }
        float mass = 0.0f, value = 0.0f;
#pragma unroll
        for (int a = 0; a < N_ACT; ++a) {
            const bool keeps = e[a] != 0.0f && (!is_at_most || best < 0 || q[a] > q_best);
            if (keeps)
                value = fmaf(b[a], q_target[a], value);
            else
                mass += b[a];
        }
        return best < 0 ? value : fmaf(mass, under(best), value);
    }

    __device__ __forceinline__ float of_baseline() const {
        float value = 0.0f;
#pragma unroll
        for (int a = 0; a < N_ACT; ++a) value = fmaf(b[a], q_target[a], value);
        return value;
    }

    __device__ __forceinline__ void publish() const {
#pragma unroll
        for (int a = 0; a < N_ACT; ++a) {
            shared[ERRORS + 32 * a + lane] = e[a];
            shared[MASSES + 32 * a + lane] = b[a];
        }
    }

    __device__ __forceinline__ float soft_exact() const {
        const float infinity = __uint_as_float(0x7f800000u);
        float value = of_baseline();
        float giver[N_ACT];  // error of an action that still has something to give, else inf
        int d = -1;
        float q_d = 0.0f, e_d = infinity;
#pragma unroll
        for (int a = 0; a < N_ACT; ++a) {
            giver[a] = b[a] > 0.0f ? e[a] : infinity;
            if (e[a] < infinity && (d < 0 || e[a] < e_d || (e[a] == e_d && q[a] > q_d))) {
                d = a;
                q_d = q[a];
                e_d = e[a];
            }
        }
        if (d < 0) return value;
        float budget = epsilon, received = 0.0f;
#pragma unroll 1
        for (int event = 0; event < 2 * N_ACT; ++event) {
            int donor = -1, vertex = -1;
            float gain = 0.0f, cost = 1.0f, rise = 0.0f, run = 1.0f, q_vertex = 0.0f;
#pragma unroll
            for (int a = 0; a < N_ACT; ++a) {
                const float more = q_d - q[a], unit = e_d + giver[a];
                if (more * cost > gain * unit) {
                    donor = a;
                    gain = more;
                    cost = unit;
                }
                const float up = q[a] - q_d, along = e[a] - e_d;
                if (along > 0.0f && up * run > rise * along) {
                    vertex = a;
                    rise = up;
                    run = along;
                    q_vertex = q[a];
                }
            }
            if (donor < 0 && vertex < 0) break;
            if (donor >= 0 && (vertex < 0 || gain * run >= rise * cost)) {
                const float whole = mass(donor);
                const float unit = error(donor) + e_d;
                if (whole * unit <= budget) {
                    budget -= whole * unit;
                    received += whole;
                    value -= whole * under(donor);
#pragma unroll
                    for (int a = 0; a < N_ACT; ++a) giver[a] = a == donor ? infinity : giver[a];
                    continue;
                }
                const float part = fminf(budget / unit, whole);
                value -= part * under(donor);
                received += part;
                break;
            }
            const float e_vertex = error(vertex), unit = e_vertex - e_d;
            if (received * unit <= budget) {
                budget -= received * unit;
                d = vertex;
                q_d = q_vertex;
                e_d = e_vertex;
                continue;
            }
            const float part = fminf(budget / unit, received);
            value += part * under(vertex);
            received -= part;
            break;
        }
        return fmaf(received, under(d), value);
    }

    __device__ __forceinline__ float soft_approx() const {
        const float infinity = __uint_as_float(0x7f800000u);
        float value = of_baseline(), budget = epsilon, q_donor = 0.0f;
        int donor = -1;
#pragma unroll 1
        for (int turn = 0; turn < N_ACT; ++turn) {
            const int last = donor;
            const float q_last = q_donor;
            donor = -1;
#pragma unroll
            for (int a = 0; a < N_ACT; ++a) {
                const bool is_after = last < 0 || q[a] > q_last || (q[a] == q_last && a > last);
                if (is_after && (donor < 0 || q[a] < q_donor)) {
                    donor = a;
                    q_donor = q[a];
                }
            }
            if (donor < 0) break;
            const float e_donor = error(donor), whole = mass(donor);
            if (whole == 0.0f || e_donor == infinity) continue;
            int receiver = -1;
            float gain = 0.0f, e_receiver = 1.0f, q_receiver = 0.0f;
#pragma unroll
            for (int a = 0; a < N_ACT; ++a) {
                const float more = q[a] - q_donor;
                const float ours = more * e_receiver, theirs = gain * e[a];
                const bool is_better = ours > theirs
                    || (ours == theirs && receiver >= 0 && q[a] > q_receiver);
                if (more > 0.0f && e[a] < infinity && is_better) {
                    receiver = a;
                    gain = more;
                    e_receiver = e[a];
                    q_receiver = q[a];
                }
            }
            if (receiver < 0) continue;
            const float dearer = fmaxf(e_donor, e_receiver);
            const float part = dearer > 0.0f ? fminf(whole, budget / (2.0f * dearer)) : whole;
            mass(receiver) += part;
            mass(donor) -= part;
            budget = fmaxf(0.0f, budget - part * (e_donor + e_receiver));
            value += part * (under(receiver) - under(donor));
        }
        return value;
    }
};

struct Rule {
    int op, is_double;
    float kappa, n_wedge, epsilon;
};

// The target y of one sample.
__device__ __forceinline__ float target_of(const Rule& rule, const float* record,
                                           const float* q_target, float gamma, int lane) {
    const float infinity = __uint_as_float(0x7f800000u);
    float y = record[R_REWARD];
    if (rule.kappa > 0.0f) y -= rule.kappa * rsqrtf(record[R_COUNT]);
    if (record[R_GOES_ON] == 0.0f) return y;
    Row row;
    row.lane = lane;
    row.epsilon = rule.epsilon;
    const bool is_soft = rule.op >= 3;
#pragma unroll
    for (int a = 0; a < N_ACT; ++a) {
        row.q_target[a] = q_target[a * TQ + lane];
        row.q[a] = rule.is_double ? shared[Q_NEXT + a * TQ + lane] : row.q_target[a];
        row.b[a] = record[R_BASELINE + a];
        const float n = record[R_COUNTS + a];
        row.e[a] = is_soft ? rsqrtf(n) : (n >= rule.n_wedge ? 0.0f : infinity);
    }
    float value;
    if (rule.op == 0 || (is_soft && rule.epsilon == infinity)) {
        value = row.greedy();
    } else if (!is_soft) {
        value = row.bootstrapped(rule.op == 2);
    } else {
        row.publish();
        value = rule.op == 3 ? row.soft_exact() : row.soft_approx();
    }
    return fmaf(gamma, value, y);
}

__device__ __forceinline__ u64 mix64(u64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// Start copying the minibatch of a step; one lane a sample.
__device__ __forceinline__ void draw(const float* rows, u64 stream, int n_rows, int step, float* to,
                                     int lane) {
    const u64 i = (u64)step * BATCH + lane;
    const u64 number = mix64(stream + (i + 1) * 0x9E3779B97F4A7C15ull);
    const float* from = rows + (((number >> 32) * (u64)n_rows) >> 32) * RECORD;
#pragma unroll
    for (int k = 0; k < RECORD; k += 4) copy_ahead(to + lane * TR + k, from + k);
}

__device__ __forceinline__ float sum_over_lanes(float x) {
#pragma unroll
    for (int apart = 16; apart > 0; apart >>= 1) x += __shfl_xor_sync(0xffffffffu, x, apart);
    return x;
}

template <int S, int FAN_OUT, class Visit>
__device__ __forceinline__ void layer_places(int at, int first, int fan_in, int bias, Visit visit) {
    for (int i = threadIdx.x; i < (fan_in + 1) * FAN_OUT; i += THREADS) {
        const int row = i / FAN_OUT, column = i % FAN_OUT;
        visit((row < fan_in ? at + row * S : bias) + column, first + i);
    }
}

// Visit all parameters as (place in a padded network, place in global memory).
template <class Visit>
__device__ __forceinline__ void all_places(Visit visit) {
    layer_places<S1, N_H1>(W1, P1, N_IN, W1 + N_IN * S1, visit);
    layer_places<S2, N_H2>(W2, P2, N_H1, B2, visit);
    layer_places<S3, N_H3>(W3, P3, N_H2, B3, visit);
    layer_places<S4, N_ACT>(W4, P4, N_H3, B4, visit);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) train(const Arguments args) {
    const int member = args.order[blockIdx.x];
    const int first = args.t0;
    const int last = min(args.t0 + args.n_steps, args.last_step[member]);
    if (first >= last || args.diverged_at[member] >= 0) return;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int period = args.target_period;
    float* params = args.params + (long long)member * N_PARAMS;
    float* target = args.target + (long long)member * N_PARAMS;
    float* v = args.v + (long long)member * N_PARAMS;

    for (int i = threadIdx.x; i < SHARED_FLOATS; i += THREADS) shared[i] = 0.0f;
    __syncthreads();
    const float* frozen = first % period == 0 ? params : target;
    all_places([&](int here, int there) {
        shared[ONLINE + here] = params[there];
        shared[TARGET + here] = frozen[there];
    });

    // Step `first - 1` only makes ready what a step finds ready: the minibatches and Q_target.
    // Batch k lies in buffer (k - first + 1) % 3.
    if (warp < MMA_WARPS) {
        Descent descent;
        descent.warp = warp;
        descent.g = lane >> 2;
        descent.t = lane & 3;
        descent.decay = args.decay;
        descent.fresh = args.fresh;
        descent.rms_epsilon = args.rms_epsilon;
        descent.each([&](int, int there, float& mean) { mean = there < 0 ? 0.0f : v[there]; });
        __syncthreads();
        int buffer = 0;
#pragma unroll 1
        for (int step = first - 1; step < last; ++step) {
            const bool is_real = step >= first;
            const bool is_ahead = step + 1 < last && (step + 1) % period != 0;
            const int after = buffer == 2 ? 0 : buffer + 1;
            const float* batch = shared + RECORDS + buffer * BATCH_RECORDS;
#pragma unroll 1
            for (int pass = is_real ? 0 : 2; pass < (is_ahead ? 3 : 2); ++pass) {
                const float* rows = pass == 2 ? shared + RECORDS + after * BATCH_RECORDS : batch;
                forward(shared + (pass == 2 ? TARGET : ONLINE), rows, pass == 1 ? 0 : N_IN,
                        shared + (pass == 0 ? PART_NEXT : pass == 1 ? PART_HERE : PART_TARGET),
                        pass == 1, warp, lane);
                if (pass == 0) arrive_at(NEXT_READY, 32 * (MMA_WARPS + 1));
                if (pass == 1) arrive_at(HERE_READY, 32 * (MMA_WARPS + 1));
            }
            if (is_real) {
                wait_at(HERE_SUMMED, 32 * (MMA_WARPS + 1));
                backward(batch, warp, lane);
            }
            __syncthreads();
            if (is_real) {
                if (shared[STOP] != 0.0f) break;
                descent.copies = step + 1 < last && (step + 1) % period == 0;
                descent.step(batch);
            }
            __syncthreads();
            buffer = after;
        }
        descent.each([&](int, int there, float& mean) {
            if (there >= 0) v[there] = mean;
        });
    } else if (warp == MMA_WARPS) {
        Rule rule;
        rule.op = args.op[member];
        rule.is_double = args.is_double[member];
        rule.kappa = args.kappa[member];
        rule.n_wedge = args.n_wedge[member];
        rule.epsilon = args.epsilon[member];
        __syncthreads();
        int buffer = 0;
#pragma unroll 1
        for (int step = first - 1; step < last; ++step) {
            const bool is_real = step >= first;
            if (is_real) {
                wait_at(NEXT_READY, 32 * (MMA_WARPS + 1));
                Hidden3 hidden;
                hidden.gather(shared + ONLINE, shared + PART_NEXT, false, lane);
                hidden.output(shared + ONLINE, shared + Q_NEXT, lane);
                const float* record = shared + RECORDS + buffer * BATCH_RECORDS + lane * TR;
                const float* q_target = shared + (step % period == 0 ? Q_NEXT : Q_TARGET);
                const float y = target_of(rule, record, q_target, args.gamma, lane);
                __syncwarp();
                wait_at(TAKEN, 64);
                const float delta = shared[Q_TAKEN + lane] - y;
                const float loss = sum_over_lanes(delta * delta) * (1.0f / BATCH);
                shared[DELTA + lane] = (2.0f / BATCH) * delta;
                // The sum is NaN or infinite if any part is, and q_taken is NaN beyond the limit.
                if (lane == 0) shared[STOP] = fabsf(loss) < __uint_as_float(0x7f800000u) ? 0.0f : 1.0f;
            }
            __syncthreads();
            if (is_real && shared[STOP] != 0.0f) {
                if (lane == 0) args.diverged_at[member] = step;
                break;
            }
            __syncthreads();
            buffer = buffer == 2 ? 0 : buffer + 1;
        }
    } else {
        const int n_rows = args.n_rows[member];
        const float* rows = args.records + args.first_row[member] * RECORD;
        const u64 stream = mix64(args.seed[member]);
        const int samples = max(args.annealing_samples, n_rows);
        draw(rows, stream, n_rows, first, shared + RECORDS + BATCH_RECORDS, lane);
        wait_for_copies();
        __syncthreads();
        int buffer = 0;
#pragma unroll 1
        for (int step = first - 1; step < last; ++step) {
            const bool is_real = step >= first;
            const bool is_ahead = step + 1 < last && (step + 1) % period != 0;
            const int late = buffer == 0 ? 2 : buffer - 1;  // of step + 2
            if (step + 2 < last)
                draw(rows, stream, n_rows, step + 2, shared + RECORDS + late * BATCH_RECORDS, lane);
            if (is_real) {
                const long long passed = (long long)step * BATCH / samples;
                if (lane == 0) shared[RATE] = (float)(args.learning_rate / (double)(passed + 1));
                __syncwarp();
                wait_at(HERE_READY, 32 * (MMA_WARPS + 1));
                Hidden3 hidden;
                hidden.gather(shared + ONLINE, shared + PART_HERE, true, lane);
                __syncwarp();
                arrive_at(HERE_SUMMED, 32 * (MMA_WARPS + 1));
                hidden.output(shared + ONLINE, shared + Q_HERE, lane);
                bool is_good = true;
#pragma unroll
                for (int a = 0; a < N_ACT; ++a) {
                    const float q = shared[Q_HERE + a * TQ + lane];
                    is_good = is_good && fabsf(q) <= args.q_limit;  // false for NaN
                }
                const float* record = shared + RECORDS + buffer * BATCH_RECORDS + lane * TR;
                const float q = shared[Q_HERE + (int)record[R_ACTION] * TQ + lane];
                shared[Q_TAKEN + lane] = is_good ? q : __uint_as_float(0x7fc00000u);
                __syncwarp();
                arrive_at(TAKEN, 64);
            }
            wait_for_copies();
            __syncthreads();
            if (is_real && shared[STOP] != 0.0f) break;
            if (is_ahead) {
                Hidden3 hidden;
                hidden.gather(shared + TARGET, shared + PART_TARGET, false, lane);
                hidden.output(shared + TARGET, shared + Q_TARGET, lane);
            }
            __syncthreads();
            buffer = buffer == 2 ? 0 : buffer + 1;
        }
    }
    __syncthreads();
    all_places([&](int here, int there) {
        params[there] = shared[ONLINE + here];
        target[there] = shared[TARGET + here];
    });
}
