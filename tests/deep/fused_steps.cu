// The improvement steps of fused.cu on rows of their own, to be compared with spibb.operators. A step
// returns sum_a pi(a) q_target(a): with a q_target of 1 for one action and 0 for the others, pi of it.
struct StepRows {
    const float* q;       // (n_rows, N_ACT), as the next two
    const float* b;
    const float* counts;
    float* out;
    int n_rows, op;
    float n_wedge, epsilon;
};

__device__ __forceinline__ void step_one(const StepRows& rows, int row, int lane) {
    float* record = shared + RECORDS + lane * TR;
    record[R_REWARD] = 0.0f;
    record[R_GOES_ON] = 1.0f;
    for (int a = 0; a < N_ACT; ++a) {
        record[R_BASELINE + a] = rows.b[row * N_ACT + a];
        record[R_COUNTS + a] = rows.counts[row * N_ACT + a];
        shared[Q_NEXT + a * TQ + lane] = rows.q[row * N_ACT + a];
    }
    Rule rule;
    rule.op = rows.op;
    rule.is_double = 1;
    rule.kappa = 0.0f;
    rule.n_wedge = rows.n_wedge;
    rule.epsilon = rows.epsilon;
    for (int action = 0; action < N_ACT; ++action) {
        for (int a = 0; a < N_ACT; ++a)
            shared[Q_TARGET + a * TQ + lane] = a == action ? 1.0f : 0.0f;
        rows.out[row * N_ACT + action] = target_of(rule, record, shared + Q_TARGET, 1.0f, lane);
    }
}

#ifdef SPIBB_EMULATED
extern "C" void steps(const StepRows* rows) {
    for (int row = 0; row < rows->n_rows; ++row) step_one(*rows, row, row % 32);
}
#else
extern "C" __global__ void steps(const StepRows rows) {
    const int row = 32 * blockIdx.x + threadIdx.x;
    if (row < rows.n_rows) step_one(rows, row, threadIdx.x);
}
#endif
