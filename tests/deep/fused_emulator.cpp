// Runs fused.cu on a CPU: every CUDA thread is a fiber, and a fiber gives way at each warp-wide
// operation and at each barrier, so the kernel is compiled as it stands. Between two such points the
// warps run in an order drawn from EMULATOR_SEED: a missing barrier shows as a changed result.
// Compile with -DFUSED_CU="..." and the sizes; x86-64 only.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#define SPIBB_EMULATED
#define __device__
#define __host__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
typedef uint32_t u32;
typedef unsigned long long u64;
struct float2 { float x, y; };
static inline float2 make_float2(float x, float y) { return {x, y}; }
using std::max;
using std::min;

struct Fiber;
static void* scheduler_stack;
struct Copy { float* to; const float* from; };
struct Fiber {
    void* stack;
    char* memory;
    int id;
    bool is_done;
    u32 a[4], b[2];
    float c[4], value;
    std::vector<Copy> copies;
    // What it waits for: 0 nothing, 1 its warp, 2 a named barrier.
    int waiting, barrier, barrier_count;
    bool is_arrival;
};
static Fiber* current;
struct Index { int x; };
static Index blockIdx, threadIdx;

extern "C" void switch_stack(void** from, void* to);
asm(R"(
.globl switch_stack
switch_stack:
    pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
    ret
)");
static void give_way() {
    Fiber* self = current;
    switch_stack(&self->stack, scheduler_stack);
}

static std::vector<Fiber> fibers;
static Fiber* lanes() { return &fibers[current->id / 32 * 32]; }
static void with_warp() {
    current->waiting = 1;
    give_way();
}

static float as_float(u32 x) { float y; memcpy(&y, &x, 4); return y; }
static u32 as_bits(float x) { u32 y; memcpy(&y, &x, 4); return y; }
static inline u32 __float_as_uint(float x) { return as_bits(x); }
static inline float __uint_as_float(u32 x) { return as_float(x); }
static float tf32(u32 x) { return as_float(x & 0xffffe000u); }
// The tensor cores sum more exactly than float32 and then cut off.
static float cut_off(double x) {
    float y = (float)x;
    if (std::isfinite(y) && std::fabs((double)y) > std::fabs(x)) y = std::nextafterf(y, 0.0f);
    return y;
}
static void mma(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    Fiber* self = current;
    memcpy(self->a, a, sizeof a);
    memcpy(self->b, b, sizeof b);
    with_warp();
    Fiber* warp = lanes();
    int g = (self->id % 32) >> 2, t = self->id & 3;
    float out[4];
    for (int i = 0; i < 4; ++i) {
        int row = g + 8 * (i >> 1), column = 2 * t + (i & 1);
        double sum = c[i];
        for (int k = 0; k < 8; ++k) {
            const Fiber& left = warp[(row % 8) * 4 + k % 4];
            const Fiber& right = warp[column * 4 + k % 4];
            sum += (double)tf32(left.a[(row >= 8) + 2 * (k >= 4)]) * tf32(right.b[k >= 4]);
        }
        out[i] = cut_off(sum);
    }
    with_warp();
    memcpy(c, out, sizeof out);
}
static float __shfl_xor_sync(u32, float x, int apart) {
    current->value = x;
    with_warp();
    float y = lanes()[(current->id % 32) ^ apart].value;
    with_warp();
    return y;
}
static void __syncwarp() { with_warp(); }
static void at_barrier(int barrier, int count, bool is_arrival) {
    current->waiting = 2;
    current->barrier = barrier;
    current->barrier_count = count;
    current->is_arrival = is_arrival;
    give_way();
}
static void wait_at(int barrier, int count) { at_barrier(barrier, count, false); }
static void arrive_at(int barrier, int count) { at_barrier(barrier, count, true); }
static void __syncthreads();
static void copy_ahead(float* to, const float* from) {
    for (int i = 0; i < 4; ++i) to[i] = NAN;
    current->copies.push_back({to, from});
}
static void wait_for_copies() {
    for (const Copy& copy : current->copies) memcpy(copy.to, copy.from, 16);
    current->copies.clear();
}
static float quick_root(float x) { return std::sqrt(x); }
static float quick_inverse(float x) { return 1.0f / x; }
static float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

#include FUSED_CU
#include "fused_steps.cu"

float shared[SHARED_FLOATS];
static void __syncthreads() { wait_at(0, THREADS); }

static const Arguments* arguments;

static void body() {
    train(*arguments);
    current->is_done = true;
    give_way();
    abort();
}

struct Barrier { int arrived = 0; std::vector<Fiber*> sleepers; };

static void run_block(int block, std::mt19937& rng) {
    const size_t size = 1 << 17;
    blockIdx.x = block;
    for (int i = 0; i < THREADS; ++i) {
        Fiber& fiber = fibers[i];
        fiber = Fiber{nullptr, fiber.memory ? fiber.memory : (char*)malloc(size), i};
        void** top = (void**)(fiber.memory + size - 64);
        *--top = nullptr;
        *--top = (void*)body;
        for (int k = 0; k < 6; ++k) *--top = nullptr;
        fiber.stack = top;
    }
    for (float& x : shared) x = NAN;
    std::vector<int> order(THREADS / 32);
    for (size_t i = 0; i < order.size(); ++i) order[i] = (int)i;
    Barrier barriers[16];
    for (;;) {
        std::shuffle(order.begin(), order.end(), rng);
        bool is_alive = false, is_moving = false;
        for (int warp : order) {
            // A warp runs until it sleeps at a barrier or ends.
            for (;;) {
                int n_ready = 0, n_warp = 0, n_done = 0;
                for (int lane = 0; lane < 32; ++lane) {
                    Fiber& fiber = fibers[warp * 32 + lane];
                    if (!fiber.is_done && fiber.waiting == 0) {
                        current = &fiber;
                        threadIdx.x = fiber.id;
                        switch_stack(&scheduler_stack, fiber.stack);
                        ++n_ready;
                        if (fiber.waiting == 2) {
                            Barrier& barrier = barriers[fiber.barrier];
                            ++barrier.arrived;
                            if (fiber.is_arrival)
                                fiber.waiting = 0;
                            else
                                barrier.sleepers.push_back(&fiber);
                            if (barrier.arrived == fiber.barrier_count) {
                                for (Fiber* sleeper : barrier.sleepers) sleeper->waiting = 0;
                                barrier = Barrier();
                            } else if (barrier.arrived > fiber.barrier_count) {
                                fprintf(stderr, "barrier %d overrun\n", fiber.barrier);
                                exit(3);
                            }
                        }
                    }
                    n_warp += fiber.waiting == 1;
                    n_done += fiber.is_done;
                }
                is_moving |= n_ready > 0;
                if (n_warp + n_done == 32 && n_warp > 0) {
                    for (int lane = 0; lane < 32; ++lane) fibers[warp * 32 + lane].waiting = 0;
                    continue;
                }
                if (n_ready == 0) break;
            }
            for (int lane = 0; lane < 32; ++lane) is_alive |= !fibers[warp * 32 + lane].is_done;
        }
        if (!is_alive) return;
        if (!is_moving) {
            fprintf(stderr, "deadlock\n");
            for (int i = 0; i < THREADS; i += 32)
                fprintf(stderr, "warp %d waits %d at %d\n", i / 32, fibers[i].waiting, fibers[i].barrier);
            exit(4);
        }
    }
}

extern "C" int emulate(const Arguments* args, int n_members, unsigned seed) {
    std::mt19937 rng(seed);
    fibers.resize(THREADS);
    arguments = args;
    for (int i = 0; i < n_members; ++i) run_block(i, rng);
    return 0;
}
extern "C" int shared_bytes() { return (int)sizeof shared; }
