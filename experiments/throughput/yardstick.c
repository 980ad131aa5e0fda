/* The yardstick: uniform random games of Go, one at a time, in plain scalar C.
 *
 *     gcc -O3 -march=native -DSIZE=9 yardstick.c -o yardstick -lm
 *     ./yardstick [playouts] [seed] [--amaf]
 *
 * From the empty board a player chooses uniformly among the legal points that are not an eye
 * of its own, and passes only if there is none; two passes end the game, and so does the cap
 * of 3 * SIZE^2 moves. Simple ko, no suicide. An eye: all four neighbours are own stones or
 * off the board, and fewer than two diagonals are hostile (none, on the first line).
 *
 * The method is that of earlier fast engines (libEGO and its relatives): chains carry
 * pseudo-liberties, one for each pair of a stone and an adjacent empty point. Updating them
 * costs an addition, where true liberties cost a search. A chain without any is captured.
 * The engine is fast because its common path has few branches: each empty point and each
 * point off the board has a "chain" of its own, so that liberties can be added to and taken
 * from all four neighbours without checking what they are.
 *
 * It prints one JSON object: playouts per second, the mean length of a game including passes
 * and Black's win rate at komi 6.5 with their standard errors, and ns per move.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef SIZE
#define SIZE 9
#endif
#if SIZE < 2 || SIZE > 25
#error "SIZE: 2 to 25"
#endif

/* Functions that take the colour or the options are compiled separately for each value. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Rows are STRIDE cells, the last of them off the board: it is the right-hand border of its
 * row and the left-hand border of the next. A row of border cells lies above and below. */
enum { STRIDE = SIZE + 1, CELLS = STRIDE * (SIZE + 2) + 1, POINTS = SIZE * SIZE };
enum { EMPTY = 0, BLACK = 1, WHITE = 2, BORDER = 3 };
enum { MOVE_CAP = 3 * POINTS, WORDS = (CELLS + 63) / 64 };
enum { NO_POINT = 0 };                 /* a border cell */
enum { LIBERTIES_OF_NO_CHAIN = 8192 }; /* of cells without a stone: never close to zero */

static const int NEIGHBOURS[4] = {-STRIDE, -1, 1, STRIDE};
static const int DIAGONALS[4] = {-STRIDE - 1, -STRIDE + 1, STRIDE - 1, STRIDE + 1};

/* `around` counts a cell's neighbours in three fields of four bits. The border counts as
 * stones of both colours, so that "surrounded by own stones" is one comparison. */
#define EMPTY_FIELD 0
#define STONE_FIELD(colour) (4 * (colour))
#define FIELD(counts, shift) (((counts) >> (shift)) & 15)
#define STONE_COMES(colour) ((1 << STONE_FIELD(colour)) - (1 << EMPTY_FIELD))

typedef struct {
    uint8_t colour[CELLS];
    uint16_t around[CELLS];
    uint16_t chain[CELLS];    /* the chain's name: a cell of it */
    uint16_t next[CELLS];     /* the chain's stones in a ring */
    int16_t liberties[CELLS]; /* pseudo-liberties of a chain, by its name */
    uint16_t stones[CELLS];   /* number of stones of a chain, by its name */
    uint16_t empty[POINTS];   /* the empty points, unordered */
    uint16_t place[CELLS];    /* each empty point's index there */
    int num_empty;            /* the number of empty points */
    int ko;                   /* where the player to move may not play, or NO_POINT */
    uint64_t first[3][WORDS]; /* by colour: the points where it played first (with --amaf) */
} Board;

static uint8_t first_line[CELLS]; /* 1: the point has a neighbour off the board */

/* --- random numbers: wyrand, whose state is a counter ---------------------------------- */

static uint64_t random_state;

/* Uniform in 0 .. n - 1, up to a bias of n / 2^32. */
static inline uint32_t random_below(uint32_t n) {
    random_state += 0xA0761D6478BD642Full;
    const uint64_t other = random_state ^ 0xE7037ED1A0B428DBull;
    const unsigned __int128 product = (unsigned __int128)random_state * other;
    const uint32_t bits = (uint32_t)((uint64_t)(product >> 64) ^ (uint64_t)product);
    return (uint32_t)(((uint64_t)bits * n) >> 32);
}

/* --- the board ----------------------------------------------------------------------- */

static inline void add_empty(Board *b, int p) {
    b->place[p] = (uint16_t)b->num_empty;
    b->empty[b->num_empty++] = (uint16_t)p;
}

static inline void swap_empty(Board *b, int i, int j) {
    uint16_t p = b->empty[i], q = b->empty[j];
    b->empty[i] = q, b->place[q] = (uint16_t)i;
    b->empty[j] = p, b->place[p] = (uint16_t)j;
}

static inline void remove_empty(Board *b, int p) {
    uint16_t last = b->empty[--b->num_empty];
    b->empty[b->place[p]] = last;
    b->place[last] = b->place[p];
}

static void make_empty_board(Board *b) {
    memset(b, 0, sizeof *b);
    b->ko = NO_POINT;
    for (int p = 0; p < CELLS; p++) {
        b->colour[p] = BORDER;
        b->chain[p] = b->next[p] = (uint16_t)p;
        b->liberties[p] = LIBERTIES_OF_NO_CHAIN;
    }
    for (int row = 1; row <= SIZE; row++)
        for (int column = 1; column <= SIZE; column++) {
            int p = row * STRIDE + column;
            b->colour[p] = EMPTY;
            add_empty(b, p);
        }
    for (int i = 0; i < POINTS; i++) {
        int p = b->empty[i], inside = 0;
        for (int d = 0; d < 4; d++) inside += b->colour[p + NEIGHBOURS[d]] == EMPTY;
        int outside = 4 - inside;
        b->around[p] = (uint16_t)(inside << EMPTY_FIELD | outside << STONE_FIELD(BLACK) |
                                  outside << STONE_FIELD(WHITE));
        first_line[p] = outside > 0;
    }
}

static inline void add_liberties(Board *b, int p, int change) {
    for (int d = 0; d < 4; d++) b->liberties[b->chain[p + NEIGHBOURS[d]]] += (int16_t)change;
}

/* Whether `p`, an empty point with only own stones and border as neighbours, is an eye. */
static inline int few_hostile_diagonals(const Board *b, int p, int opponent) {
    int hostile = first_line[p];
    for (int d = 0; d < 4; d++) hostile += b->colour[p + DIAGONALS[d]] == opponent;
    return hostile < 2;
}

/* A stone on `p`, which has no empty neighbour, has taken a liberty from each neighbour.
 * Returns whether it has a liberty through an own chain, or by a capture. */
static inline int not_suicide(const Board *b, int p, int own) {
    int lives = 0;
    for (int d = 0; d < 4; d++) {
        int q = p + NEIGHBOURS[d], none = b->liberties[b->chain[q]] == 0;
        lives |= b->colour[q] == own ? !none : none; /* the border is never `none` */
    }
    return lives;
}

static inline void join(Board *b, int p, int q) {
    int large = b->chain[p], small = b->chain[q];
    if (large == small) return;
    if (b->stones[large] < b->stones[small]) {
        int other = large;
        large = small, small = other;
    }
    b->liberties[large] += b->liberties[small];
    b->stones[large] += b->stones[small];
    int stone = small;
    do {
        b->chain[stone] = (uint16_t)large;
        stone = b->next[stone];
    } while (stone != small);
    uint16_t after = b->next[large]; /* two rings become one */
    b->next[large] = b->next[small];
    b->next[small] = after;
}

/* Takes a chain off the board; returns how many stones it had. */
static int capture(Board *b, int first, int colour) {
    int stone = first, count = 0;
    do {
        int next = b->next[stone];
        b->colour[stone] = EMPTY;
        b->chain[stone] = b->next[stone] = (uint16_t)stone;
        b->liberties[stone] = LIBERTIES_OF_NO_CHAIN;
        add_empty(b, stone);
        /* Remaining stones of the chain gain liberties too, which are reset when they go. */
        for (int d = 0; d < 4; d++) {
            int q = stone + NEIGHBOURS[d];
            b->around[q] -= (uint16_t)STONE_COMES(colour);
            b->liberties[b->chain[q]]++;
        }
        count++;
        stone = next;
    } while (stone != first);
    return count;
}

/* Plays at the empty point `p` unless that is the ko, an own eye or suicide; returns whether
 * it was played. */
ALWAYS_INLINE int try_point(Board *b, int p, int own) {
    const int opponent = BLACK + WHITE - own;
    const int around = b->around[p];
    const int empty_around = FIELD(around, EMPTY_FIELD);

    if (empty_around == 0) {
        if (p == b->ko) return 0;
        if (FIELD(around, STONE_FIELD(own)) == 4 && few_hostile_diagonals(b, p, opponent)) return 0;
        add_liberties(b, p, -1);
        if (!not_suicide(b, p, own)) {
            add_liberties(b, p, 1);
            return 0;
        }
    } else {
        add_liberties(b, p, -1);
    }

    remove_empty(b, p);
    b->colour[p] = (uint8_t)own;
    b->liberties[p] = (int16_t)empty_around;
    b->stones[p] = 1;
    for (int d = 0; d < 4; d++) b->around[p + NEIGHBOURS[d]] += (uint16_t)STONE_COMES(own);
    for (int d = 0; d < 4; d++)
        if (b->colour[p + NEIGHBOURS[d]] == own) join(b, p, p + NEIGHBOURS[d]);

    int captured = 0, victim = NO_POINT;
    for (int d = 0; d < 4; d++) {
        int q = p + NEIGHBOURS[d];
        if (b->liberties[b->chain[q]] == 0 && b->colour[q] == opponent) {
            captured += capture(b, q, opponent);
            victim = q;
        }
    }
    /* One stone was captured, from a point with only enemy stones around: retaking is a ko. */
    const int walled_in = FIELD(around, STONE_FIELD(opponent)) == 4;
    b->ko = captured == 1 && walled_in ? victim : NO_POINT;
    return 1;
}

/* --- a game --------------------------------------------------------------------------- */

static inline void note_first_play(Board *b, int p, int colour) {
    const int word = p / 64;
    const uint64_t bit = 1ull << (p % 64);
    b->first[colour][word] |= bit & ~(b->first[BLACK][word] | b->first[WHITE][word]);
}

/* One turn; returns 1 for a pass. Draws points without replacement until one can be played. */
ALWAYS_INLINE int take_turn(Board *b, int own, int amaf) {
    for (int left = b->num_empty; left > 0; left--) {
        const int drawn = (int)random_below((uint32_t)left), p = b->empty[drawn];
        if (try_point(b, p, own)) {
            if (amaf) note_first_play(b, p, own);
            return 0;
        }
        swap_empty(b, drawn, left - 1);
    }
    b->ko = NO_POINT;
    return 1;
}

/* Plays to the end and returns the number of moves, passes included. */
ALWAYS_INLINE int play_out(Board *b, int amaf) {
    int passes = 0, moves = 0;
    while (moves < MOVE_CAP) {
        passes = take_turn(b, BLACK, amaf) ? passes + 1 : 0;
        moves++;
        if (passes == 2 || moves == MOVE_CAP) break;
        passes = take_turn(b, WHITE, amaf) ? passes + 1 : 0;
        moves++;
        if (passes == 2) break;
    }
    return moves;
}

/* Black's area minus White's. It is exact after two passes, when no two empty points are
 * adjacent; in a game cut at the cap an empty point counts only for a player who has all of
 * its neighbours. */
static int area_difference(const Board *b) {
    int difference = 0;
    for (int p = 0; p < CELLS; p++) {
        difference += (b->colour[p] == BLACK) - (b->colour[p] == WHITE);
        if (b->colour[p] == EMPTY)
            difference += (FIELD(b->around[p], STONE_FIELD(BLACK)) == 4) -
                          (FIELD(b->around[p], STONE_FIELD(WHITE)) == 4);
    }
    return difference;
}

/* --- many games ----------------------------------------------------------------------- */

typedef struct {
    long wins;        /* Black's, at komi 6.5 */
    long first_plays; /* points where Black played first */
    double moves, squared_moves;
} Sums;

ALWAYS_INLINE Sums many_games(const Board *start, long games, int amaf) {
    Sums sums = {0};
    for (long i = 0; i < games; i++) {
        Board b = *start;
        const int moves = play_out(&b, amaf);
        sums.wins += area_difference(&b) > 6; /* by more than 6.5 */
        sums.moves += moves;
        sums.squared_moves += (double)moves * moves;
        for (int w = 0; amaf && w < WORDS; w++)
            sums.first_plays += __builtin_popcountll(b.first[BLACK][w]);
    }
    return sums;
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv) {
    long numbers[2] = {100000, 0}; /* playouts, seed */
    int given = 0, amaf = 0;
    for (int i = 1; i < argc; i++) {
        char *end = argv[i];
        if (strcmp(argv[i], "--amaf") == 0) {
            amaf = 1;
            continue;
        }
        if (given < 2) numbers[given++] = strtol(argv[i], &end, 10);
        if (end == argv[i] || *end || numbers[0] < 1) {
            fprintf(stderr, "usage: %s [playouts] [seed] [--amaf]\n", argv[0]);
            return 2;
        }
    }

    static Board start;
    make_empty_board(&start);
    const long games = numbers[0];
    random_state = (uint64_t)numbers[1] * 0x9E3779B97F4A7C15ull + 0xD1B54A32D192ED03ull;
    const double started = seconds_now();
    const Sums sums = amaf ? many_games(&start, games, 1) : many_games(&start, games, 0);
    const double seconds = seconds_now() - started;

    const double mean = sums.moves / games, wins = (double)sums.wins / games;
    const double variance = sums.squared_moves / games - mean * mean;
    printf("{\"size\": %d, \"playouts\": %ld, \"seed\": %ld, \"amaf\": %s, ", SIZE, games,
           numbers[1], amaf ? "true" : "false");
    printf("\"playouts_per_second\": %.1f, \"ns_per_move\": %.2f, ", games / seconds,
           1e9 * seconds / sums.moves);
    printf("\"mean_moves\": %.3f, \"mean_moves_error\": %.4f, ", mean, sqrt(variance / games));
    printf("\"black_wins\": %.5f, \"black_wins_error\": %.5f", wins,
           sqrt(wins * (1 - wins) / games));
    if (amaf) printf(", \"mean_first_plays_by_black\": %.3f", (double)sums.first_plays / games);
    printf("}\n");
    return 0;
}
