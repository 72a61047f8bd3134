// Warps on a processor: every lane is a fiber, which hands over to the next one wherever lanes meet. For tests.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <cstdlib>
using std::exp; using std::log; using std::log1p; using std::sqrt; using std::fabs; using std::floor; using std::isnan;
#define EMULATED 1
#define DEVICE inline
#define KERNEL extern "C" void
#define BOUNDED(threads, blocks)
#define __device__ static
#define __restrict__

struct Dim { int x; };
static Dim threadIdx, blockIdx, blockDim;
static double* shared_room;

static void* stack_of[32];
static void* main_stack;
static bool running[32];
static int current, base, turn_of[32];
static unsigned char mailbox[2][32][32];

extern "C" void switch_stacks(void** from, void* to);
asm(R"(
.text
.type switch_stacks,@function
switch_stacks:
    pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
    ret
)");

static void hand_over() {
    int me = current, next = me;
    do next = (next + 1) % 32; while (!running[next] && next != me);
    if (next != me) {
        current = next;
        switch_stacks(&stack_of[me], stack_of[next]);
    }
    current = me;
    threadIdx.x = base + me;
}

inline int lane_of() { return current; }
inline int lane_of_now() { return current; }
inline long long warp_of() { return ((long long)blockIdx.x * blockDim.x + threadIdx.x) >> 5; }
inline void meet() { hand_over(); }

template <typename T> T from_lane(T x, int lane) {
    int turn = turn_of[current] ^= 1;
    memcpy(mailbox[turn][current], &x, sizeof x);
    hand_over();
    memcpy(&x, mailbox[turn][lane], sizeof x);
    return x;
}
template <typename T> T across(T x, int mask) { return from_lane(x, current ^ mask); }

inline void begin_copy(float* to, const float* from) { memcpy(to, from, 16); }
inline void commit_copies() {}
inline void await_copies() {}
template <typename T> T fixed(const T* from) { return *from; }
inline unsigned bits_of(float x) { unsigned y; memcpy(&y, &x, 4); return y; }
inline double number_of(long long x) { double y; memcpy(&y, &x, 8); return y; }
inline void count(int* counter) { ++*counter; }
inline float float_of(unsigned x) { float y; memcpy(&y, &x, 4); return y; }

inline void multiply(float c[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    int turn = turn_of[current] ^= 1, lane = current, g = lane >> 2, t = lane & 3;
    unsigned own[6] = {a0, a1, a2, a3, b0, b1};
    memcpy(mailbox[turn][lane], own, sizeof own);
    hand_over();
    for (int n = 0; n < 4; n++) {
        int row = g + (n >> 1) * 8, col = 2 * t + (n & 1);
        double total = c[n];
        for (int k = 0; k < 8; k++) {
            const unsigned* A = (const unsigned*)mailbox[turn][(row & 7) * 4 + (k & 3)];
            const unsigned* B = (const unsigned*)mailbox[turn][col * 4 + (k & 3)];
            float a = float_of(A[(row >> 3) + 2 * (k >> 2)] & 0xffffe000u), b = float_of(B[4 + (k >> 2)] & 0xffffe000u);
            total += (double)a * b;
        }
        c[n] = (float)total;
    }
}

typedef long long W;
typedef void (*Kernel)(W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W);
static Kernel kernel;
static const long long* args;

static void lane_main() {
    threadIdx.x = base + current;
    const W* a = args;
    kernel(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15], a[16],
           a[17], a[18], a[19], a[20], a[21], a[22], a[23], a[24]);
    int me = current, next = me;
    running[me] = false;
    do next = (next + 1) % 32; while (!running[next] && next != me);
    void* unused;
    if (next == me) switch_stacks(&unused, main_stack);
    current = next;
    switch_stacks(&unused, stack_of[next]);
}

extern "C" void run_kernel(void* function, long long blocks, long long threads, long long shared, const long long* given) {
    static const size_t size = 1 << 17;
    static char* memory = (char*)aligned_alloc(64, 32 * size);
    kernel = (Kernel)function;
    args = given;
    blockDim.x = (int)threads;
    shared_room = (double*)aligned_alloc(64, (shared / 64 + 1) * 64);
    for (long long block = 0; block < blocks; block++)
        for (base = 0; base < threads; base += 32) {
            blockIdx.x = (int)block;
            for (int lane = 0; lane < 32; lane++) {
                void** top = (void**)(memory + (lane + 1) * size - 64);
                *--top = 0;                 // where lane_main would return to
                *--top = (void*)lane_main;
                for (int n = 0; n < 6; n++) *--top = 0;
                stack_of[lane] = top;
                running[lane] = true;
                turn_of[lane] = 0;
            }
            current = 0;
            switch_stacks(&main_stack, stack_of[0]);
        }
    free(shared_room);
}
